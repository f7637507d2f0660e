"""Responses that the simulator stores: in the background and resumed, or in several parts."""

from __future__ import annotations

import base64
import datetime
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Continuation, Place
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.errors import BadRequest, NotFound
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
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.first_use import prepared
from llmstream.request import Request
from llmstream.server_side.wires import ServerSide
from llmstream.server_side.wires.openai_responses.reader import BackgroundRequest, read_background_request
from llmstream.simulator.script import Cut, Fault, Stall, Turn
from llmstream.simulator.timeline import estimated_tokens, events_of, tokens_of

__all__ = ["BackgroundResponses", "ContinuedAnswers", "uncut"]


# Background responses: generated without a reader, stored for a while, resumed and cancelled.

# Of each kind. A benchmark may store thousands; a client that resumes does so within seconds, and a token is
# used by the next request, or never.
_MAX_STORED: Final = 256


def uncut(turn: Turn) -> Turn:
    """Returns the turn without faults of the connection, as the vendor stores it."""
    return msgspec.structs.replace(turn, fault=None) if isinstance(turn.fault, Cut | Stall) else turn


class _Numbered(msgspec.Struct):
    sequence_number: int = -1
    response: dict[str, Any] | None = None


class BackgroundResponse:
    """One stored response: frames with their sequence number and due time.

    pieces: seconds from now and bytes, any number of frames in each
    """

    def __init__(self, pieces: Iterable[tuple[float, bytes]], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._ended_s: float | None = None
        self._frames = [
            (due_s, _numbered(frame), frame + b"\n\n")
            for due_s, data in pieces
            for frame in data.split(b"\n\n")
            if frame.strip()
        ]
        first = next((numbered.response for _, numbered, _ in self._frames if numbered.response), {})
        self.response_id = str(first.get("id"))
        self._queued = {**first, "status": "queued"}

    def rest(self, after: int) -> Iterator[tuple[float, bytes]]:
        """Yields the frames after a number, with the seconds until each is due."""
        asked_s, last = self._age(), after
        for due_s, numbered, frame in self._frames:
            # Looked at for each frame: a cancel may come while this reader is served.
            if self._is_dropped(due_s):
                break
            if numbered.sequence_number > after:
                last = numbered.sequence_number
                yield max(0.0, due_s - asked_s), frame
        if self._ended_s is not None and not self._is_over():
            yield 0.0, self._cancelled_frame(last + 1)

    def end(self) -> dict[str, Any]:
        """Stops the response; returns its current state."""
        if self._ended_s is None:
            self._ended_s = self._age()
        return self.state()

    def state(self) -> dict[str, Any]:
        """Returns the current state of the response."""
        now = self._age()
        made = [s.response for due, s, _ in self._frames if due <= now and not self._is_dropped(due)]
        response = next((r for r in reversed(made) if r is not None), self._queued)
        ended = self._ended_s is not None and not self._is_over()
        return {**response, "status": "cancelled"} if ended else response

    def _age(self) -> float:
        return self._clock() - self._began

    def _is_dropped(self, due_s: float) -> bool:
        return self._ended_s is not None and due_s > self._ended_s

    def _is_over(self) -> bool:
        """Whether it was complete before it was stopped."""
        last_s = self._frames[-1][0] if self._frames else -math.inf
        return not self._is_dropped(last_s)

    def _cancelled_frame(self, number: int) -> bytes:
        numbered = {"type": "response.cancelled", "sequence_number": number, "response": self.state()}
        return b"event: response.cancelled\ndata: " + msgspec.json.encode(numbered) + b"\n\n"


class BackgroundResponses:
    """The stored responses of a simulator: the latest 256."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._responses: dict[str, BackgroundResponse] = {}

    def begin(self, pieces: list[tuple[float, bytes]], turn: Turn) -> Iterator[tuple[float, bytes]]:
        """Stores a response; returns the pieces for its first reader.

        pieces: one for each event of the turn
        """
        response = self._store(pieces)
        count = turn.fault.after_events if isinstance(turn.fault, Cut | Stall) else len(pieces)
        # A fault counts events, a reader frames; an event may have none or several.
        shown = sum(data.count(b"\n\n") for _, data in pieces[:count])
        return itertools.islice(response.rest(-1), shown if count < len(pieces) else None)

    def begin_unread(self, pieces: list[tuple[float, bytes]]) -> HttpResponse:
        """Stores a response without a streaming reader; returns its first state."""
        return _page(self._store(pieces).state())

    def _store(self, pieces: list[tuple[float, bytes]]) -> BackgroundResponse:
        response = BackgroundResponse(pieces, self._clock)
        self._responses[response.response_id] = response
        if len(self._responses) > _MAX_STORED:
            del self._responses[next(iter(self._responses))]
        return response

    def find(self, wanted: BackgroundRequest) -> BackgroundResponse:
        """Finds the requested response.

        raises: NotFound with the vendor's message
        """
        response_id = wanted.position.response_id
        found = self._responses.get(response_id)
        if found is None:
            raise NotFound(f"Response with id '{response_id}' not found.", status=404, reason="not_found")
        return found

    @staticmethod
    def parse(http: HttpRequest, sides: Iterable[ServerSide]) -> tuple[ServerSide, BackgroundRequest] | None:
        """Parses a request for a stored response; None for any other request."""
        for side in sides:
            dialect = side.dialect
            if not isinstance(dialect, OpenAIResponses):
                continue
            wanted = read_background_request(http, dialect.quirks.path)
            if wanted is not None:
                return side, wanted
        return None

    def page(self, wanted: BackgroundRequest) -> HttpResponse:
        """Returns the current state of a response as JSON; stops it first if requested."""
        response = self.find(wanted)
        return _page(response.end() if wanted.action == "cancel" else response.state())


def _page(response: dict[str, Any]) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(response), {"content-type": "application/json"})


def _numbered(frame: bytes) -> _Numbered:
    _, _, data = frame.partition(b"data: ")
    return msgspec.json.decode(data, type=prepared(_Numbered))


# Responses in several parts: the rest of a turn after a cut, stored under a token.

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
