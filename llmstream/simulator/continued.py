"""Responses in several parts: cuts a turn, and stores the rest under a token."""

from __future__ import annotations

import base64
import datetime
from typing import Final

import msgspec

from llmstream.dialects.base import Continuation, Place
from llmstream.errors import BadRequest
from llmstream.events import (
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputStart,
    Usage,
)
from llmstream.request import Request
from llmstream.simulator.script import Fault, Turn
from llmstream.simulator.timeline import estimated_tokens, events_of, tokens_of

__all__ = ["ContinuedAnswers"]

# A token is used by the next request, or never.
_MAX_STORED: Final = 256
_OPENING: Final = (TextStart, ReasoningStart, ToolInputStart)
_DELTAS: Final = (TextDelta, ReasoningDelta, ToolInputDelta)


class _Rest(msgspec.Struct):
    """The rest of a response after a cut. A token can be used repeatedly.

    request: the first request, whose tokens the vendor counts each time
    owner:   id of the response that has the token
    faults:  faults of the next requests for it
    """

    turn: Turn
    request: Request
    owner: str
    faults: list[Fault]


class ContinuedAnswers:
    """Stores the rests of responses, the latest 256."""

    def __init__(self) -> None:
        self._rests: dict[str, _Rest] = {}
        self._count = 0

    def rest(self, place: Place) -> tuple[Turn, Request]:
        """Returns the turn for a continuation token, and the first request.

        raises: BadRequest for an invalid token
        """
        rest = self._rests.get(place.token)
        if rest is None or place.response_id not in (None, rest.owner):
            raise BadRequest("The continuation token is not valid for this request.", status=400)
        fault = rest.faults.pop(0) if rest.faults else None
        turn = rest.turn if fault is None else msgspec.structs.replace(rest.turn, fault=fault)
        return turn, rest.request

    def first(
        self,
        dialect: Continuation,
        turn: Turn,
        request: Request,
        *,
        number: int,
        now: datetime.datetime | None,
    ) -> Turn:
        """Returns the turn up to its first cut, or the complete turn without one."""
        if not turn.continues:
            return turn
        events = events_of(turn, request, number=number, now=now)
        cut, *later = turn.continues
        before, after = events[: cut.after_events], events[cut.after_events :]
        if not after:
            return turn
        name = next((e for e in before if isinstance(e, ResponseMetadata)), ResponseMetadata())
        self._count += 1
        place = Place(base64.b64encode(b"place-%d" % self._count).decode(), name.id)
        opened = _still_open(before)
        # For the vendor each part is a response with a separate id.
        another = msgspec.structs.replace(name, id=f"{name.id}-{self._count}")
        rest = [another, *opened, *(e for e in after if not isinstance(e, ResponseMetadata))]
        # In `rest`, the metadata and the reopened blocks come first.
        gone = len(before) - 1 - len(opened)
        self._store(
            place.token,
            _Rest(
                msgspec.structs.replace(
                    turn,
                    fault=None,
                    events=tuple(_counted(rest, turn, request)),
                    continues=tuple(
                        msgspec.structs.replace(one, after_events=one.after_events - gone) for one in later
                    ),
                ),
                request,
                name.id or "",
                list(cut.faults),
            ),
        )
        # The input of a cut call continues in the next response; texts end in each.
        ends = [_end(event) for event in opened if not isinstance(event, ToolInputStart)]
        usage = turn.usage or _usage(before, request)
        shown = (*before, *ends, dialect.cut_off(place, usage))
        return msgspec.structs.replace(turn, events=shown, continues=())

    def _store(self, token: str, rest: _Rest) -> None:
        self._rests[token] = rest
        if len(self._rests) > _MAX_STORED:
            del self._rests[next(iter(self._rests))]


def _still_open(events: list[Event]) -> list[Event]:
    opened: dict[str, Event] = {}
    for event in events:
        if isinstance(event, _OPENING):
            opened[event.id] = event
        elif not isinstance(event, _DELTAS):
            opened.pop(getattr(event, "id", None) or "", None)
    return list(opened.values())


def _end(opened: Event) -> Event:
    match opened:
        case ReasoningStart(id=block_id):
            return ReasoningEnd(block_id)
        case TextStart(id=block_id):
            return TextEnd(block_id)
    raise TypeError(opened)


def _counted(events: list[Event], turn: Turn, request: Request) -> list[Event]:
    """Sets the usage of the finish to that of only this response."""
    usage = turn.usage or _usage(events, request)
    return [msgspec.structs.replace(e, usage=usage) if isinstance(e, Finish) else e for e in events]


def _usage(events: list[Event], request: Request) -> Usage:
    reasoning = estimated_tokens("".join(e.delta for e in events if isinstance(e, ReasoningDelta)))
    output = estimated_tokens("".join(e.delta for e in events if isinstance(e, TextDelta | ToolInputDelta)))
    prompt = tokens_of(request)
    return Usage(prompt, output + reasoning, prompt + output + reasoning, reasoning_tokens=reasoning or None)
