"""Background responses: requested, read over several bodies by the numbers of their events, cancelled."""

from __future__ import annotations

import re
import sys
from collections import deque
from typing import Any, Final
from urllib.parse import quote

import msgspec

from llmstream.dialects.base import Position, StreamLimits
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.openai_responses.decoder import ResponseReader
from llmstream.dialects.openai_responses.open_items import OpenItem
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.wire import KEY, WireEvent
from llmstream.dialects.requests import options_of
from llmstream.errors import DecodeError, InvalidRequest, LLMStreamError, ProtocolError
from llmstream.events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    ToolInputDelta,
)
from llmstream.exchange import HttpRequest
from llmstream.framing.sse import SSEDecoder
from llmstream.request import Request

__all__ = [
    "RESPONSE_ID",
    "BackgroundResponsesDecoder",
    "cancel_request",
    "is_kept",
    "is_made",
    "kept",
    "resume_request",
    "whole_request",
]


_SLOT_BYTES: Final = 8


class _NumberedEvent(WireEvent, gc=False):
    """An event with its place in the answer, from 0."""

    sequence_number: Any = None


_numbered: Final = msgspec.json.Decoder(_NumberedEvent)


class BackgroundResponsesDecoder(PayloadDecoder[_NumberedEvent]):
    """Reads one background response over several bodies; see `dialects.base.FollowingDecoder`.

    Numbers are trusted here only, where they are promised: servers of the API without background
    responses count as they like, or not at all.
    """

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        after: Position | None = None,
    ) -> None:
        framing = SSEDecoder(max_bytes=limits.max_event_bytes)
        super().__init__(framing, _numbered, provider=provider, include_raw=include_raw, limits=limits)
        self.gap: LLMStreamError | None = None
        self._response = ResponseReader(self)
        self._last = -1
        self._wanted_after = -1 if after is None else after.sequence_number
        self._names: ResponseMetadata | None = None
        self._refused = False  # the vendor does not store the response after all
        self._counted = False
        self._catching_up = False
        self._given: dict[str, list[str]] = {}  # deltas of the blocks that are open
        self._waiting: deque[bytes] = deque()

    @property
    def position(self) -> Position | None:
        """How far the response is read; None without a name, or where the vendor does not store it."""
        if self._response.response_id is None or self._refused:
            return None
        return Position(self._response.response_id, self._last)

    @property
    def held(self) -> bool:
        """Whether `feed(b"")` has more to give."""
        return bool(self._waiting) and not self.done

    def reconnect(self) -> None:
        """Another body follows; what was half read of the last one is dropped."""
        self._framing = SSEDecoder(max_bytes=self.limits.max_event_bytes)
        self._waiting.clear()
        self.gap = None

    def catch_up(self, body: bytes) -> None:
        """The complete response has come: its items end now, each with what was not given of it."""
        try:
            response = msgspec.json.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            response = None
        if not isinstance(response, dict):
            self.fail(DecodeError("the answer that was kept could not be read", provider=self.provider))
            return
        self._catching_up = True
        output = response.get("output")
        for place, item in enumerate(output if isinstance(output, list) else ()):
            self._wait_for({"type": "response.output_item.done", "output_index": place, "item": item})
        self._wait_for({"type": f"response.{response.get('status')}", "response": response})

    def on(self, wire: _NumberedEvent) -> None:
        """Reads an event in its turn: once, and none after one that is missing."""
        self._counted = True
        number = wire.sequence_number
        if not isinstance(number, int) or isinstance(number, bool) or wire.type == "error":
            if self._catching_up and wire.type == "response.output_item.done":
                self._give_missing(wire)
            self._response.on(wire)  # an error ends the answer, whatever its number
            return
        if number <= self._last:
            self.out.clear()
            return
        if number > self._last + 1 and (self._last >= 0 or self._response.response_id is not None):
            self._miss(number)
            return
        if self._last == self._wanted_after and self._wanted_after >= 0:
            self.out[:0] = self._under_way()
        if wire.response is not None and wire.response.get("background") is False:
            self._refused = True
        self._response.on(wire)
        self._note()
        self._last = number
        if number <= self._wanted_after and not self.done:
            self._names = next((e for e in self.out if isinstance(e, ResponseMetadata)), self._names)
            self.out.clear()

    def end(self) -> None:
        """The body is over."""
        while self.held and not self.done and self.gap is None:
            self._read_next()
        if self.gap is not None and not self.done:
            self.fail(self.gap)

    def _read(self, payloads: list[bytes]) -> None:
        """As many payloads as it takes for one to give an event; the others of the body wait."""
        self._waiting.extend(payloads)
        broken = self._framing.error is not None
        while self.held and self.gap is None and (broken or not self.out):
            self._read_next()

    def _read_next(self) -> None:
        """One payload; what cannot be read has taken its place in the answer all the same."""
        before, defects = self._last, self.defects
        self._counted = False
        super()._read([self._waiting.popleft()])
        if not self._counted and self.defects > defects:
            self._last = before + 1

    def _miss(self, number: int) -> None:
        self.out.clear()
        self._waiting.clear()
        self.gap = ProtocolError(
            f"events {self._last + 1} to {number - 1} of the answer are missing",
            provider=self.provider,
            reason="sequence-gap",
            retryable=True,
        )

    def _under_way(self) -> list[Event]:
        """What was under way when the reader left: names, blocks that go on, and inputs from their beginning.

        An input is of use only from its beginning, so what had come of it is given once more.
        """
        events: list[Event] = [] if self._names is None else [self._names]
        self._names = None
        response = self._response
        for item in response.items.by_place.values():
            if item.call_id is not None and not item.ended:
                events.append(response.calls.start_event(item, item.call_id))
                if item.parts:
                    events.append(ToolInputDelta("".join(item.parts), item.call_id))
            elif item.block is not None and item.kind == "reasoning":
                events.append(response.reasoning.start_event(item, item.block))
            elif item.block is not None:
                events.append(response.messages.start_event(item, item.block))
        return events

    # The rest of a response comes in one piece, with items whose beginning was given already.

    def _wait_for(self, wire: dict[str, Any]) -> None:
        self._waiting.append(msgspec.json.encode(wire))

    def _note(self) -> None:
        """Stores the deltas of open blocks, for the time when the rest comes in one piece."""
        for event in self.out:
            if isinstance(event, TextDelta | ReasoningDelta):
                self._given.setdefault(event.id, []).append(event.delta)
                self.hold(sys.getsizeof(event.delta) + _SLOT_BYTES)
            elif isinstance(event, TextEnd | ReasoningEnd):
                given = self._given.pop(event.id, ())
                self.let_go(sum(sys.getsizeof(delta) + _SLOT_BYTES for delta in given))

    def _give_missing(self, wire: WireEvent) -> None:
        """An item is complete of which a part was given: its open block goes on where it was."""
        item, found = self._response.items.find(wire), wire.item or {}
        if item is None or item.done or item.block is None or found.get("type") not in (item.kind, None):
            return
        if item.kind == "message":
            self._give_message(item, item.block, _dicts(found.get("content")))
        elif item.kind == "reasoning" and item.slot is not None:
            kind, place = item.slot
            pieces = [str(piece.get("text") or "") for piece in _dicts(found.get(kind))]
            complete = "".join(pieces) if kind == "content" else "".join(pieces[place : place + 1])
            self._response.reasoning.delta(item, item.slot, self._missing(item.block, complete))

    def _give_message(self, item: OpenItem, block_id: str, content: list[dict[str, Any]]) -> None:
        messages = self._response.messages
        complete = "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
        messages.text(item, self._missing(block_id, complete), ("content", 0))
        item.given |= {("content", place) for place in range(len(content))}
        for annotation in (note for part in content for note in _dicts(part.get("annotations"))):
            if annotation not in item.annotations:
                messages.cite(item, annotation)

    def _missing(self, block_id: str, complete: str) -> str:
        """What was not given yet of the text of a block that is open."""
        given = "".join(self._given.get(block_id, ()))
        return complete[len(given) :] if complete.startswith(given) else ""


def _dicts(value: object) -> list[dict[str, Any]]:
    return [piece for piece in value if isinstance(piece, dict)] if isinstance(value, list) else []


# Requests around a response that OpenAI makes in the background and stores for a while.
#
# source: "Background mode" in OpenAI's documents: `background` wants `store`; an event has a
# `sequence_number`, and `starting_after` gives those behind it

RESPONSE_ID: Final = re.compile(r"[^/?#]+")


class _Response(msgspec.Struct):
    status: str | None = None


def kept(request: Request, *, provider: str) -> Request:
    """The request with the fields that make the vendor keep its answer.

    raises: InvalidRequest where the request wants nothing stored
    """
    said = options_of(request, KEY, provider)
    for name in ("background", "store"):
        if said.get(name) is False:
            raise InvalidRequest(
                f"background=True needs the answer to be kept at {provider}, but provider_options say "
                f"{name}=False. Leave out one of the two."
            )
    ours = {**request.provider_options.get(KEY, {}), "background": True, "store": True}
    return msgspec.structs.replace(request, provider_options={**request.provider_options, KEY: ours})


def is_kept(request: Request, *, provider: str) -> bool:
    """Whether a request asks for an answer in the background."""
    return options_of(request, KEY, provider).get("background") is True


def resume_request(path: str, position: Position) -> HttpRequest:
    """The request for what comes after a position, as a stream."""
    after = f"&starting_after={position.sequence_number}" if position.sequence_number >= 0 else ""
    url = f"{path}/{_segment(position.response_id)}?stream=true{after}"
    return HttpRequest(url, b"", {"accept": "text/event-stream"}, "GET")


def cancel_request(path: str, response_id: str) -> HttpRequest:
    """The request that ends the making of an answer."""
    return HttpRequest(f"{path}/{_segment(response_id)}/cancel", b"", {"accept": "application/json"})


def whole_request(path: str, response_id: str) -> HttpRequest:
    """The request for an answer in one piece, as far as it is made."""
    return HttpRequest(f"{path}/{_segment(response_id)}", b"", {"accept": "application/json"}, "GET")


def is_made(body: bytes) -> bool:
    """Whether a response is over; what is none will not change by waiting either."""
    try:
        response = msgspec.json.decode(body, type=_Response)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return True
    return response.status not in ("queued", "in_progress")


def _segment(response_id: str) -> str:
    """An id as one segment of a path; it comes from a vendor or a saved token, and is not trusted.

    raises: InvalidRequest
    """
    if response_id in ("", ".", ".."):
        raise InvalidRequest(f"{response_id!r} is no id of a response")
    return quote(response_id, safe="-_.~")


class ResponsesBackground(msgspec.Struct, frozen=True):
    """Responses in the background; see `dialects.base.Background`."""

    quirks: Quirks

    def keep(self, request: Request, *, provider: str) -> Request | None:
        """The request for an answer in the background; None where the vendor has none.

        raises: InvalidRequest where the request wants nothing stored
        """
        return kept(request, provider=provider) if self.quirks.delivery.background else None

    def is_kept(self, request: Request, *, provider: str) -> bool:
        """Whether a request asks for an answer in the background."""
        return is_kept(request, provider=provider)

    def resume(self, position: Position) -> HttpRequest:
        """The request for what comes behind a position of an answer in the background."""
        return resume_request(self.quirks.path, position)

    def look_up(self, response_id: str) -> HttpRequest:
        """The request for an answer in the background in one piece."""
        return whole_request(self.quirks.path, response_id)

    def is_made(self, body: bytes) -> bool:
        """Whether it is over, so that the answer is whole."""
        return is_made(body)

    def cancel(self, response_id: str) -> HttpRequest:
        """The request that ends the making of an answer in the background."""
        return cancel_request(self.quirks.path, response_id)

    def following_decoder(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        after: Position | None = None,
    ) -> BackgroundResponsesDecoder:
        """A decoder of an answer in the background, over any number of bodies."""
        return BackgroundResponsesDecoder(
            provider=provider, include_raw=include_raw, limits=limits, after=after
        )
