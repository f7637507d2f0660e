"""Background responses: stored by the vendor, and read over several bodies by the numbers of their events."""

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
from llmstream.dialects.openai_responses.prose_items import OpenItem
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.wire import KEY, WireEvent
from llmstream.dialects.requests import options_of
from llmstream.dialects.wire_values import objects_in
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
from llmstream.first_use import prepared
from llmstream.framing.sse import SSEDecoder
from llmstream.request import Request

__all__ = [
    "RESPONSE_ID",
    "BackgroundResponsesDecoder",
    "cancel_request",
    "is_made",
    "is_stored",
    "resume_request",
    "state_request",
    "stored",
]


# A pointer in a list of CPython.
_SLOT_BYTES: Final = 8


class _NumberedEvent(WireEvent, gc=False):
    """An event with its number in the response, from 0."""

    sequence_number: Any = None


_numbered: Final = msgspec.json.Decoder(_NumberedEvent)


class BackgroundResponsesDecoder(PayloadDecoder[_NumberedEvent]):
    """Decodes one background response over several bodies; see `dialects.base.ResumableDecoder`.

    Only here the numbers of events are used: servers without background responses may not number them.
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
        self._emitted: dict[str, list[str]] = {}  # deltas of the blocks that are open
        self._waiting: deque[bytes] = deque()

    @property
    def position(self) -> Position | None:
        """How far the response is read; None while it has no id, or if the vendor does not store it."""
        if self._response.response_id is None or self._refused:
            return None
        return Position(self._response.response_id, self._last)

    @property
    def held(self) -> bool:
        """Whether `feed(b"")` returns more events."""
        return bool(self._waiting) and not self.done

    def reconnect(self) -> None:
        """Prepares for another body; drops unread payloads of the current one."""
        self._framing = SSEDecoder(max_bytes=self.limits.max_event_bytes)
        self._waiting.clear()
        self.gap = None

    def catch_up(self, body: bytes) -> None:
        """Reads the complete response: ends its items, each with its content not emitted yet."""
        try:
            response = msgspec.json.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            response = None
        if not isinstance(response, dict):
            self.fail(DecodeError("the stored response could not be read", provider=self.provider))
            return
        self._catching_up = True
        output = response.get("output")
        for place, item in enumerate(output if isinstance(output, list) else ()):
            self._wait_for({"type": "response.output_item.done", "output_index": place, "item": item})
        self._wait_for({"type": f"response.{response.get('status')}", "response": response})

    def on(self, wire: _NumberedEvent) -> None:
        """Reads each event once and in order; stops where one is missing."""
        self._counted = True
        number = wire.sequence_number
        if not isinstance(number, int) or isinstance(number, bool) or wire.type == "error":
            if self._catching_up and wire.type == "response.output_item.done":
                self._emit_missing(wire)
            # An error ends the response, whatever its number.
            self._response.on(wire)
            return
        if number <= self._last:
            self.out.clear()
            return
        if number > self._last + 1 and (self._last >= 0 or self._response.response_id is not None):
            self._report_gap(number)
            return
        if self._last == self._wanted_after and self._wanted_after >= 0:
            self.out[:0] = self._resumed_events()
        if wire.response is not None and wire.response.get("background") is False:
            self._refused = True
        self._response.on(wire)
        self._store_deltas()
        self._last = number
        if number <= self._wanted_after and not self.done:
            self._names = next((e for e in self.out if isinstance(e, ResponseMetadata)), self._names)
            self.out.clear()

    def end(self) -> None:
        """Reads the payloads that were held back."""
        while self.held and not self.done and self.gap is None:
            self._read_next()
        if self.gap is not None and not self.done:
            self.fail(self.gap)

    def _read(self, payloads: list[bytes]) -> None:
        """Reads payloads until one yields an event; holds the others back, so that `position` is exact."""
        self._waiting.extend(payloads)
        broken = self._framing.error is not None
        while self.held and self.gap is None and (broken or not self.out):
            self._read_next()

    def _read_next(self) -> None:
        """Reads one payload. One that cannot be decoded still counts as an event."""
        before, defects = self._last, self.defects
        self._counted = False
        self._read_one(self._waiting.popleft())
        if not self._counted and self.defects > defects:
            self._last = before + 1

    def _report_gap(self, number: int) -> None:
        self.out.clear()
        self._waiting.clear()
        self.gap = ProtocolError(
            f"events {self._last + 1} to {number - 1} of the response are missing",
            provider=self.provider,
            reason="sequence-gap",
            retryable=True,
        )

    def _resumed_events(self) -> list[Event]:
        """Returns events that reopen the response at the resumed position: its names and its open blocks.

        An input is of no use without its beginning, which is emitted again.
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

    # The rest of a response in one piece, with items whose beginning was already emitted.

    def _wait_for(self, wire: dict[str, Any]) -> None:
        self._waiting.append(msgspec.json.encode(wire))

    def _store_deltas(self) -> None:
        """Stores the deltas of open blocks, in case the rest comes in one piece."""
        for event in self.out:
            if isinstance(event, TextDelta | ReasoningDelta):
                self._emitted.setdefault(event.id, []).append(event.delta)
                self.hold(sys.getsizeof(event.delta) + _SLOT_BYTES)
            elif isinstance(event, TextEnd | ReasoningEnd):
                given = self._emitted.pop(event.id, ())
                self.let_go(sum(sys.getsizeof(delta) + _SLOT_BYTES for delta in given))

    def _emit_missing(self, wire: WireEvent) -> None:
        """Emits the rest of an item of which a part was emitted."""
        item, found = self._response.items.find(wire), wire.item or {}
        if item is None or item.done or item.block is None or found.get("type") not in (item.kind, None):
            return
        if item.kind == "message":
            self._emit_message(item, item.block, objects_in(found.get("content")))
        elif item.kind == "reasoning" and item.slot is not None:
            kind, place = item.slot
            pieces = [str(piece.get("text") or "") for piece in objects_in(found.get(kind))]
            complete = "".join(pieces) if kind == "content" else "".join(pieces[place : place + 1])
            self._response.reasoning.delta(item, item.slot, self._missing(item.block, complete))

    def _emit_message(self, item: OpenItem, block_id: str, content: list[dict[str, Any]]) -> None:
        messages = self._response.messages
        complete = "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
        messages.text(item, self._missing(block_id, complete), ("content", 0))
        item.given |= {("content", place) for place in range(len(content))}
        for annotation in (note for part in content for note in objects_in(part.get("annotations"))):
            if annotation not in item.annotations:
                messages.cite(item, annotation)

    def _missing(self, block_id: str, complete: str) -> str:
        """Returns the rest of a complete text, after the emitted part."""
        given = "".join(self._emitted.get(block_id, ()))
        return complete[len(given) :] if complete.startswith(given) else ""


# Requests about responses that OpenAI makes in the background and stores for a while.
#
# source: "Background mode" in OpenAI's documents: `background` requires `store`; an event has a
# `sequence_number`, and `starting_after` returns those behind it

RESPONSE_ID: Final = re.compile(r"[^/?#]+")


class _Response(msgspec.Struct):
    status: str | None = None


def stored(request: Request, *, provider: str) -> Request:
    """Returns the request that has the response stored.

    raises: InvalidRequest if the request forbids storing
    """
    options = options_of(request, KEY, provider)
    for name in ("background", "store"):
        if options.get(name) is False:
            raise InvalidRequest(
                f"background=True needs {provider} to store the response, but provider_options have "
                f"{name}=False. Leave out one of the two."
            )
    ours = {**request.provider_options.get(KEY, {}), "background": True, "store": True}
    return msgspec.structs.replace(request, provider_options={**request.provider_options, KEY: ours})


def is_stored(request: Request, *, provider: str) -> bool:
    """Whether a request is for a background response."""
    return options_of(request, KEY, provider).get("background") is True


def resume_request(path: str, position: Position) -> HttpRequest:
    """Returns the request for the events after a position, as a stream."""
    after = f"&starting_after={position.sequence_number}" if position.sequence_number >= 0 else ""
    url = f"{path}/{_segment(position.response_id)}?stream=true{after}"
    return HttpRequest(url, b"", {"accept": "text/event-stream"}, "GET")


def cancel_request(path: str, response_id: str) -> HttpRequest:
    """Returns the request that stops a response."""
    return HttpRequest(f"{path}/{_segment(response_id)}/cancel", b"", {"accept": "application/json"})


def state_request(path: str, response_id: str) -> HttpRequest:
    """Returns the request for the current state of a response, in one piece."""
    return HttpRequest(f"{path}/{_segment(response_id)}", b"", {"accept": "application/json"}, "GET")


def is_made(body: bytes) -> bool:
    """Whether a response is final; waiting does not help if the body is no response."""
    try:
        response = msgspec.json.decode(body, type=prepared(_Response))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return True
    return response.status not in ("queued", "in_progress")


def _segment(response_id: str) -> str:
    """Quotes an id as one segment of a path.

    raises: InvalidRequest
    """
    # The id is from a vendor or a stored token, so it may try to lead to another path.
    if response_id in ("", ".", ".."):
        raise InvalidRequest(f"{response_id!r} is not the id of a response")
    return quote(response_id, safe="-_.~")


class ResponsesBackground(msgspec.Struct, frozen=True):
    """Background responses; see `dialects.base.Background`."""

    quirks: Quirks

    def store(self, request: Request, *, provider: str) -> Request | None:
        """Returns the request for a background response; None if the vendor has none.

        raises: InvalidRequest if the request forbids storing
        """
        return stored(request, provider=provider) if self.quirks.delivery.background else None

    def is_stored(self, request: Request, *, provider: str) -> bool:
        """Whether a request is for a background response."""
        return is_stored(request, provider=provider)

    def resume(self, position: Position) -> HttpRequest:
        """Returns the request for the events after a position, as a stream."""
        return resume_request(self.quirks.path, position)

    def look_up(self, response_id: str) -> HttpRequest:
        """Returns the request for the current state of a response, in one piece."""
        return state_request(self.quirks.path, response_id)

    def is_made(self, body: bytes) -> bool:
        """Whether the body of a response shows that it is final."""
        return is_made(body)

    def cancel(self, response_id: str) -> HttpRequest:
        """Returns the request that stops a response."""
        return cancel_request(self.quirks.path, response_id)

    def following_decoder(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        after: Position | None = None,
    ) -> BackgroundResponsesDecoder:
        """Creates a decoder of a background response, over any number of bodies."""
        return BackgroundResponsesDecoder(
            provider=provider, include_raw=include_raw, limits=limits, after=after
        )
