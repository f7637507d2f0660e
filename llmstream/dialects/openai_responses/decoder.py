"""Decodes a Responses stream into events: the response. Its items are in modules of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.media import Base64Pieces, audio_type
from llmstream.dialects.openai_responses.call_items import CALL_EVENTS, Calls
from llmstream.dialects.openai_responses.items import CALL_ITEMS, RESULT_ITEMS
from llmstream.dialects.openai_responses.prose_items import (
    MESSAGE_EVENTS,
    REASONING_EVENTS,
    Messages,
    OpenItem,
    OpenItems,
    ReasoningItems,
    Sources,
)
from llmstream.dialects.openai_responses.wire import (
    KEY,
    TERMINAL,
    Place,
    WireEvent,
    events,
    finish_fields,
    pages_of,
    plain_events,
    read_usage,
    reason_of,
)
from llmstream.dialects.payload_size import most_held
from llmstream.dialects.wire_values import objects_in, unix_time
from llmstream.errors import NotAStream
from llmstream.events import (
    Custom,
    File,
    Finish,
    FinishReason,
    Metadata,
    ResponseMetadata,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from llmstream.framing.sse import SSEDecoder

__all__ = ["OpenAIResponsesDecoder", "ResponseReader"]

_log: Final = logging.getLogger("llmstream")


class OpenAIResponsesDecoder(PayloadDecoder[WireEvent]):
    """Decodes one response body; see `dialects.base.Decoder`."""

    def __init__(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> None:
        framing = SSEDecoder(max_bytes=limits.max_event_bytes)
        super().__init__(framing, events, provider=provider, include_raw=include_raw, limits=limits)
        self._response = ResponseReader(self)
        # Assigned, not called: a method in between would cost 3 % of the decoding time.
        self.on = self._response.on  # type: ignore[method-assign]

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes events. A measured hot loop: a piece of an open text or input becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        decode, out, misses, by_place = plain_events.decode, self.out, 0, self._response.items.by_place
        growing: OpenItem | None = None  # a call whose latest fragments are not counted yet
        most = 0
        for payload in payloads:
            try:
                event = decode(payload)
            except UNREADABLE:
                pass
            else:
                item, delta = by_place.get(event.output_index), event.delta
                if item is not None and delta:
                    if event.type == "response.output_text.delta":
                        if item.block is not None and event.content_index == 0 and not event.logprobs:
                            if not item.given:
                                item.given.add(("content", 0))
                            out.append(TextDelta(delta, item.block))
                            continue
                    elif event.type == "response.function_call_arguments.delta" and item.call_id is not None:
                        if item is not growing:
                            most = most or most_held(payloads)
                            growing = self._response.calls.growing(item, growing, most)
                        if growing is not None:
                            item.parts.append(delta)
                            out.append(ToolInputDelta(delta, item.call_id))
                            continue
                elif item is not None and event.type == "response.function_call_arguments.done":
                    if growing is not None:
                        self.count(growing)
                        growing = None
                    if self._response.calls.has_input(item, event.arguments):
                        continue
                elif (
                    event.item is not None
                    and event.output_index >= 0
                    and (on_item := _ITEM_EVENTS.get(event.type)) is not None
                    and type(event.item.get("id")) is type(event.item.get("type")) is str
                ):
                    # To decode an item once more takes a tenth of what all of a call takes.
                    if growing is not None:
                        self.count(growing)
                        growing = None
                    self.payload = payload
                    on_item(self._response, event.output_index, event.item)
                    if self.done:
                        return
                    continue
                elif (
                    item is not None
                    and item.kind == "message"
                    and self._response.messages.on_plain(item, event)
                ):
                    continue
            misses += 1
            self._read_other(payload, growing)
            growing = None
            if self.done:
                return
        self._end_plain(growing, misses, len(payloads))

    def end(self) -> None:
        """Does nothing: a response without its last event is not complete."""


class ResponseReader:
    """Maps the events of a response to ours, for the decoder that reads them from a body.

    A message is one text block, each summary of a reasoning item one reasoning block. The response is
    complete after its last event, `response.completed`, `.incomplete`, `.failed` or `.cancelled`.

    reader: the decoder; events go to its `out`
    """

    # Defaults on the class: to set each takes as long as to append an event, and most never change.
    response_id: str | None = None
    _named = False
    _broken = False  # whether the input of a call was interrupted
    _earlier: Usage | None = None  # of the responses that this one succeeds
    _audio: Base64Pieces | None = None
    _transcript_item: OpenItem | None = None

    def __init__(self, reader: PayloadDecoder[Any]) -> None:
        self.items = OpenItems(reader)
        sources = Sources(reader)
        self.messages = Messages(reader, self.items, sources)
        self.reasoning = ReasoningItems(reader, self.items)
        self.calls = Calls(reader, self.items, self.messages, sources)
        self._sources = sources
        self._by_place = self.items.by_place
        self._reader = reader

    def on(self, wire: WireEvent) -> None:
        """Maps one event to ours. Most events are deltas of text, which are checked first."""
        kind = wire.type
        if kind == "response.output_text.delta":
            item = self._by_place.get(wire.output_index)
            if (
                item is not None
                and item.block is not None
                and not wire.logprobs
                and type(wire.delta) is str
                and wire.delta
                and wire.content_index == 0
            ):
                if not item.given:
                    item.given.add(("content", 0))
                self._reader.out.append(TextDelta(wire.delta, item.block))
                return
        if self._reader.has_half_characters:
            wire = _encodable(wire)
        if kind is None:
            self._on_untyped(wire)
        elif (on_call := CALL_EVENTS.get(kind)) is not None:
            on_call(self.calls, wire)
        elif (on_reasoning := REASONING_EVENTS.get(kind)) is not None:
            on_reasoning(self.reasoning, wire)
        elif (on_message := MESSAGE_EVENTS.get(kind)) is not None:
            on_message(self.messages, wire)
        elif (on_response := _RESPONSE_EVENTS.get(kind)) is not None:
            on_response(self, wire)
        elif kind in TERMINAL:
            # Perplexity reports an error beside the response, not in it.
            self.conclude(kind, wire.response or ({"error": wire.error} if wire.error else None))
        elif kind.endswith("error"):
            self._on_error(wire)

    def conclude(self, kind: str, response: dict[str, Any] | None) -> None:
        """Handles the last event of the response."""
        response = response or {}
        self._introduce(response)
        usage = read_usage(response.get("usage"))
        if usage.raw is not None:
            self._reader.reported_usage = usage
        reason, raw = reason_of(kind, response)
        if reason == "error":
            error = response.get("error") or {"message": "the response failed", "code": "server_error"}
            self._fail_with({"error": error}, response)
            return
        self._add_unseen(response.get("output"))
        self._finish(reason, raw, response)

    def succeed(self, response: dict[str, Any]) -> None:
        """Prepares for another response that succeeds this one: closes what is open; places count from 0.

        response: the current one, from its last event
        """
        for item in list(self._by_place.values()):
            self._settle(item, cut=True)
        self._end_audio()
        self._broken = False
        self._earlier = (self._earlier or Usage()) + read_usage(response.get("usage"))
        self._by_place.clear()
        self._named = False
        self._transcript_item = None

    # The response.

    def _on_response(self, wire: WireEvent) -> None:
        # A stream that was resumed may begin with any event.
        if wire.response is not None:
            self._introduce(wire.response)

    def _introduce(self, response: dict[str, Any]) -> None:
        """Emits id and model of the response, once."""
        if self._named:
            return
        model, number = response.get("model"), response.get("id")
        model = model if isinstance(model, str) and model else None
        self.response_id = str(number) if isinstance(number, (str, int)) and number != "" else None
        if model is None and self.response_id is None:
            return
        self._named = True
        when = unix_time(response.get("created_at"))
        self._reader.out.append(ResponseMetadata(model, self.response_id, when))

    def _on_untyped(self, wire: WireEvent) -> None:
        if wire.error:
            self._on_error(wire)
        elif wire.choices is not None or str(wire.object).startswith("chat.completion"):
            self._reader.fail(
                NotAStream(
                    "these are chunks of Chat Completions, not events of the Responses API: the URL "
                    "belongs to the other API. Use the path /responses, or the dialect openai-chat.",
                    provider=self._reader.provider,
                )
            )
        elif isinstance(wire.message, str) or wire.detail:
            self._on_error(wire)

    def _on_error(self, wire: WireEvent) -> None:
        """Handles an error event, flat or nested; a `response.failed` that follows repeats it."""
        self._fail_with(_as_value(wire))

    def _fail_with(self, value: dict[str, Any], response: dict[str, Any] = {}) -> None:
        inner = value.get("error")
        code = inner.get("code") if isinstance(inner, dict) else value.get("code")
        # Images that cannot be used are an error of the caller (image_too_large, image_file_not_found ...).
        status = 400 if isinstance(code, str) and ("image" in code or code == "invalid_prompt") else None
        failure = error_from_value(value, provider=self._reader.provider, status=status)
        failure.provider_metadata = self._finish_metadata(response)
        self._reader.fail(failure)

    def _add_unseen(self, output: object) -> None:
        """Reads the items of a response that has not streamed any: some gateways send only the last event."""
        if self._by_place or not isinstance(output, list):
            return
        for place, item in enumerate(output):
            if isinstance(item, dict) and not self._reader.done:
                self.item_done(place, item)

    def _finish(self, reason: FinishReason, raw: str, response: dict[str, Any]) -> None:
        reader = self._reader
        if self._earlier is not None:
            reader.reported_usage = self._earlier + reader.usage
        if reader.done:
            return
        for item in list(self._by_place.values()):
            self._settle(item, cut=reason in ("length", "content-filter"))
        self._end_audio()
        if self._broken and (reader.defects or reason not in ("length", "content-filter")):
            # An interrupted input, explained only by an error.
            reason = "error"
        elif self.messages.refused and reason == "stop":
            reason = "content-filter"
        elif self.calls.client_called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        reader.complete = reader.done = True
        reader.out.append(Finish(reason, reader.usage, raw, self._finish_metadata(response)))

    def _finish_metadata(self, response: dict[str, Any]) -> Metadata | None:
        metadata = {"response_id": self.response_id} if self.response_id else {}
        metadata |= finish_fields(response)
        if "input_transformations" in response:
            self._warn_of_removed(response["input_transformations"])
        return {KEY: metadata} if metadata else None

    def _warn_of_removed(self, changes: object) -> None:
        """Logs that the vendor removed reasoning from the conversation."""
        reasons = {str(c.get("reason")) for c in objects_in(changes) if c.get("action") == "removed"}
        if reasons:
            message = (
                "%s: reasoning of earlier answers was not used (%s); see input_transformations of the finish"
            )
            _log.warning(message, self._reader.provider, ", ".join(sorted(reasons)))

    # Start and end of items.

    def _on_added(self, wire: WireEvent) -> None:
        item = wire.item
        if item is None or not isinstance(item.get("type"), str):
            self._reader.defect("an output item came without its type")
            return
        self.item_added(wire.output_index, item, wire.item_id)

    def item_added(self, place: Place, item: dict[str, Any], item_id: Place = None) -> None:
        """Handles the start of an item."""
        kind, known = item["type"], self.items.at(place, item_id)
        if known is not None and not known.done:
            if known.kind == kind and known.wire.get("id") == item.get("id"):
                return
            self._settle(known)
        opened = self.items.enter(place, item, item_id)
        if kind in CALL_ITEMS:
            self.calls.start(opened)
        elif kind == "reasoning":
            self.reasoning.delta(opened, ("summary", 0))

    def _on_done(self, wire: WireEvent) -> None:
        if wire.item is None:
            self._reader.defect("an output item ended without its type")
            return
        self.item_done(wire.output_index, wire.item, wire.item_id)

    def item_done(self, place: Place, item: dict[str, Any], item_id: Place = None) -> None:
        """Handles a complete item, whether it was streamed or not."""
        opened = self.items.at(place, item_id)
        if opened is not None and opened.done:
            return
        kind = item.get("type")
        if not isinstance(kind, str):
            kind = "unknown" if opened is None else opened.kind
            item = {**item, "type": kind}
        if opened is not None and opened.kind != kind:
            self._settle(opened)
            opened = None
        if opened is None:
            opened = self.items.enter(place, item, item_id)
        opened.done = True
        if kind in CALL_ITEMS:
            self.calls.end(opened, item)
        elif kind == "message":
            self.messages.end(opened, item)
        elif kind == "reasoning":
            self.reasoning.end(opened, item)
        elif kind in RESULT_ITEMS:
            self.calls.result_item(item)
        else:
            for page in pages_of(item):
                self._sources.found(page)
            metadata = {"type": kind, "provider": self._reader.provider, "item": item}
            self._reader.out.append(Custom(f"{KEY}.{kind}", {KEY: metadata}))

    def _settle(self, item: OpenItem, *, cut: bool = False) -> None:
        """Closes an item that has no end; a call that is not complete is dropped.

        cut: a limit or a filter ended the response
        """
        if item.done or item.ended:
            return
        if item.kind == "message":
            self.messages.close(item)
        elif item.kind == "reasoning":
            self.reasoning.close(item)
        elif self.calls.settle(item, cut=cut):
            self._broken = True
            if not cut:
                self._reader.defect(f"the tool call {item.call_id!r} has no end. It was left out.")

    # Audio.

    def _on_audio(self, wire: WireEvent) -> None:
        if isinstance(wire.delta, str):
            if self._audio is None:
                self._audio = Base64Pieces()
            before = self._audio.size
            self._audio.add(wire.delta)
            self._reader.hold(self._audio.size - before)

    def _on_transcript(self, wire: WireEvent) -> None:
        if self._transcript_item is None:
            message = {"type": "message", "id": "transcript"}
            self._transcript_item = self.items.enter(-1, message)
        self.messages.text(self._transcript_item, wire.delta, ("content", 0))

    def _end_audio(self, _: WireEvent | None = None) -> None:
        recording, self._audio = self._audio, None
        if recording is None or not recording:
            return
        self._reader.let_go(recording.size)
        try:
            data = recording.joined()
        except ValueError:
            self._reader.defect("the audio is not base64")
            return
        self._reader.out.append(File(audio_type(data), data))


def _as_value(wire: WireEvent) -> dict[str, Any]:
    """Returns the error object of an error event in any of its forms."""
    if wire.error:
        return {"error": wire.error}
    return {"message": wire.message, "code": wire.code, "detail": wire.detail, "param": wire.param}


def _encodable(wire: WireEvent) -> WireEvent:
    """Replaces lone surrogates, except in a delta, where the next one may have the other half."""
    repaired = msgspec.convert(encodable_value(msgspec.to_builtins(wire)), WireEvent)
    if isinstance(wire.delta, str):
        repaired.delta = wire.delta
    return repaired


_R = ResponseReader
# Those that the hot loop reads.
_ITEM_EVENTS: Final[dict[str, Callable[[ResponseReader, int, dict[str, Any]], None]]] = {
    "response.output_item.added": _R.item_added,
    "response.output_item.done": _R.item_done,
}
# Events that are in no table repeat what others have, or are unknown.
_RESPONSE_EVENTS: Final[dict[str, Callable[[ResponseReader, WireEvent], None]]] = {
    "response.output_item.added": _R._on_added,
    "response.output_item.done": _R._on_done,
    "response.created": _R._on_response,
    "response.queued": _R._on_response,
    "response.in_progress": _R._on_response,
    "response.audio.delta": _R._on_audio,
    "response.audio.done": _R._end_audio,
    "response.audio.transcript.delta": _R._on_transcript,
}
