"""Bytes of a Responses stream to events: the response around its items."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.media import Base64Pieces, audio_type
from llmstream.dialects.openai_responses.item_decoder import ITEM_EVENTS, ItemDecoder
from llmstream.dialects.openai_responses.wire import (
    KEY,
    TERMINAL,
    OpenItem,
    WireEvent,
    read_usage,
    reason_of,
    said_beside,
)
from llmstream.errors import NotAStream
from llmstream.events import (
    File,
    Finish,
    FinishReason,
    Metadata,
    ResponseMetadata,
    TextDelta,
)
from llmstream.framing.sse import SSEDecoder

__all__ = ["OpenAIResponsesDecoder"]

_YEAR_3000_S: Final = 32503680000

_log: Final = logging.getLogger("llmstream")


class OpenAIResponsesDecoder(ItemDecoder):
    """One answer of the Responses API; see `dialects.base.Decoder`.

    A message is one text, each summary of a reasoning item one reasoning. The answer is complete
    with its last event, `response.completed`, `.incomplete`, `.failed` or `.cancelled`.
    """

    def __init__(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> None:
        framing = SSEDecoder(max_bytes=limits.max_event_bytes)
        super().__init__(framing, provider=provider, include_raw=include_raw, limits=limits)
        self._named = False
        self._defective = False
        self._response_id: str | None = None
        self._audio = Base64Pieces()
        self._spoken: OpenItem | None = None

    def on(self, wire: WireEvent) -> None:
        """Turns one event into ours; the deltas of text, which are most of them, go first."""
        kind = wire.type
        if kind == "response.output_text.delta":
            item = self.items.get(wire.output_index)
            if (
                item is not None
                and item.block is not None
                and not wire.logprobs
                and type(wire.delta) is str
                and wire.delta
                and wire.content_index == 0
            ):
                if not item.told:
                    item.told.add(("content", 0))
                self.out.append(TextDelta(wire.delta, item.block))
                return
        if self._joiner is not None:
            wire = _encodable(wire)
        if kind is None:
            self._on_untyped(wire)
            return
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, wire)
        elif kind in TERMINAL:
            # Perplexity says what failed beside the response, not in it.
            self._on_terminal(kind, wire.response or ({"error": wire.error} if wire.error else None))
        elif kind.endswith("error"):
            self._on_error(wire)

    def on_sentinel(self, payload: bytes) -> bool:
        """Gateways that also speak chat completions end with its mark; it says nothing here."""
        return payload.lstrip().startswith(b"[DONE]") or payload.strip() == b"null"

    def end(self) -> None:
        """The body is over; an answer without its last event is not complete."""

    def defect(self, message: str) -> None:
        """A known event could not be read; reading goes on."""
        self._defective = True
        super().defect(message)

    # The response.

    def _on_response(self, wire: WireEvent) -> None:
        """Names of the response; a resumed stream may begin with any of its events."""
        response = wire.response
        if self._named or response is None:
            return
        model, number = response.get("model"), response.get("id")
        model = model if isinstance(model, str) and model else None
        self._response_id = str(number) if isinstance(number, (str, int)) and number != "" else None
        if model is None and self._response_id is None:
            return
        self._named = True
        created, when = response.get("created_at"), None
        if isinstance(created, (int, float)) and 0 < created < _YEAR_3000_S:
            when = datetime.datetime.fromtimestamp(created, datetime.UTC)
        self.out.append(ResponseMetadata(model, self._response_id, when))

    def _on_untyped(self, wire: WireEvent) -> None:
        if wire.error:
            self._on_error(wire)
        elif wire.choices is not None or str(wire.object).startswith("chat.completion"):
            self.fail(
                NotAStream(
                    "these are chunks of Chat Completions, not events of the Responses API: the address "
                    "is of the other API. Use the path /responses, or the dialect openai-chat.",
                    provider=self.provider,
                )
            )
        elif isinstance(wire.message, str) or wire.detail:
            self._on_error(wire)

    def _on_error(self, wire: WireEvent) -> None:
        """An error event, flat or nested; a `response.failed` that follows says the same again."""
        self._fail_with(_as_value(wire))

    def _fail_with(self, said: dict[str, Any], response: dict[str, Any] = {}) -> None:
        inner = said.get("error")
        code = inner.get("code") if isinstance(inner, dict) else said.get("code")
        # Images that cannot be used are the caller's (image_too_large, image_file_not_found ...).
        status = 400 if isinstance(code, str) and ("image" in code or code == "invalid_prompt") else None
        failure = error_from_value(said, provider=self.provider, status=status)
        failure.provider_metadata = self._said_of(response)
        self.fail(failure)

    def _on_terminal(self, kind: str, response: dict[str, Any] | None) -> None:
        response = response or {}
        self._on_response(WireEvent(response=response))
        usage = read_usage(response.get("usage"))
        if usage.raw is not None:
            self.usage = usage
        reason, raw = reason_of(kind, response)
        if reason == "error":
            error = response.get("error") or {"message": "the response failed", "code": "server_error"}
            self._fail_with({"error": error}, response)
            return
        self._add_unseen(response.get("output"))
        self._finish(reason, raw, response)

    def _add_unseen(self, output: object) -> None:
        """Items of a response that were never streamed: some gateways send only the last event."""
        if self.items or not isinstance(output, list):
            return
        for place, item in enumerate(output):
            if isinstance(item, dict) and not self.done:
                self.item_done(WireEvent(output_index=place, item=item))

    def _finish(self, reason: FinishReason, raw: str, response: dict[str, Any]) -> None:
        if self.done:
            return
        for item in list(self.items.values()):
            self.settle(item, cut=reason in ("length", "content-filter"))
        self._end_audio()
        if self.broken and (self._defective or reason not in ("length", "content-filter")):
            reason = "error"  # an input that broke off beside an error leaves no other
        elif self.refused and reason == "stop":
            reason = "content-filter"
        elif self.client_called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        self.complete = self.done = True
        self.out.append(Finish(reason, self.usage, raw, self._said_of(response)))

    def _said_of(self, response: dict[str, Any]) -> Metadata | None:
        """The metadata of the finish."""
        said = {"response_id": self._response_id} if self._response_id else {}
        said |= said_beside(response)
        self._tell_forgotten(response.get("input_transformations"))
        return {KEY: said} if said else None

    def _tell_forgotten(self, changes: object) -> None:
        """Reasoning that the vendor took out of the conversation: the answer was made without it."""
        found = (
            [change for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
        )
        reasons = {str(change.get("reason")) for change in found if change.get("action") == "removed"}
        if reasons:
            words = (
                "%s: reasoning of earlier answers was not used (%s); see input_transformations of the finish"
            )
            _log.warning(words, self.provider, ", ".join(sorted(reasons)))

    # Audio.

    def _on_audio(self, wire: WireEvent) -> None:
        if isinstance(wire.delta, str):
            before = self._audio.size
            self._audio.add(wire.delta)
            self.hold(self._audio.size - before)

    def _on_transcript(self, wire: WireEvent) -> None:
        if self._spoken is None:
            self._spoken = self.enter(WireEvent(output_index=-1), {"type": "message", "id": "transcript"})
        self.text(self._spoken, wire.delta, ("content", 0))

    def _end_audio(self, _: WireEvent | None = None) -> None:
        recording, self._audio = self._audio, Base64Pieces()
        if not recording:
            return
        self.let_go(recording.size)
        try:
            data = recording.whole()
        except ValueError:
            self.defect("the audio is not base64")
            return
        self.out.append(File(audio_type(data), data))


def _as_value(wire: WireEvent) -> dict[str, Any]:
    """An error event as an error object, whichever of its shapes it has."""
    if wire.error:
        return {"error": wire.error}
    return {"message": wire.message, "code": wire.code, "detail": wire.detail, "param": wire.param}


def _encodable(wire: WireEvent) -> WireEvent:
    """The same event without halves of characters, which JSON could not hold again.

    Those of a fragment stay: the next one may bring the other half.
    """
    whole = msgspec.convert(encodable_value(msgspec.to_builtins(wire)), WireEvent)
    if isinstance(wire.delta, str):
        whole.delta = wire.delta
    return whole


_D = OpenAIResponsesDecoder
_HANDLERS: Final[dict[str, Callable[[Any, WireEvent], None]]] = {
    **ITEM_EVENTS,
    "response.created": _D._on_response,
    "response.queued": _D._on_response,
    "response.in_progress": _D._on_response,
    "response.audio.delta": _D._on_audio,
    "response.audio.done": _D._end_audio,
    "response.audio.transcript.delta": _D._on_transcript,
}
