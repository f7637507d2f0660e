"""Bytes of a Messages answer to events: the message around its blocks."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.anthropic.block_decoder import BlockDecoder
from llmstream.dialects.anthropic.blocks import FINISH_REASONS, KEY
from llmstream.dialects.anthropic.usage import read_usage
from llmstream.dialects.anthropic.wire import WireDelta, WireEvent, WireMessage, encodable
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.decoder import Framing
from llmstream.dialects.usage_counts import UsageCounts
from llmstream.dialects.vendor_errors import error_from_value
from llmstream.errors import IncompleteStream, ProtocolError
from llmstream.events import Finish, FinishReason, ResponseMetadata, TextDelta, ToolInputEnd, Usage

__all__ = ["AnthropicDecoder"]

_CUTTING: Final = frozenset({"length", "content-filter"})
"""Reasons after which an input may have been cut."""

_OF_MESSAGE: Final = (
    "container",
    "stop_sequence",
    "stop_details",
    "context_management",
    "input_transformations",
    "diagnostics",
)
_OF_DELTA: Final = ("stop_sequence", "stop_details", "container")
_BESIDE_DELTA: Final = ("context_management", "input_transformations")
"""What the metadata of finish keeps: of `message_start`, of the `message_delta`s, and beside these."""


class AnthropicDecoder(BlockDecoder):
    """One answer of the Messages API.

    Blocks keep their index as id, tool inputs the id of their call. The answer is complete
    once a stop reason came; finish waits for `message_stop` or the end of the body.
    """

    def __init__(
        self,
        framing: Framing,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
    ) -> None:
        super().__init__(framing, provider=provider, include_raw=include_raw, limits=limits)
        self._message_id: str | int | None = None
        self._started = False
        self._counts = UsageCounts(read_usage, self.hold)
        self._raw_reason: str | None = None
        self._last_words: dict[str, Any] = {}

    def on(self, wire: WireEvent) -> None:
        """Turns one event into ours; the deltas of text, which are most of them, go first."""
        kind = wire.type
        if kind == "content_block_delta":
            delta = wire.delta
            if delta is None:
                return
            block = self.open_blocks.get(wire.index)
            if delta.type == "text_delta" and block is not None and block.kind == "text":
                if delta.text:
                    self.out.append(TextDelta(delta.text, block.id))
            else:
                self.block_delta(wire.index, block, delta)
            return
        if self._joiner is not None:
            wire = encodable(wire)
        if kind == "content_block_start":
            self.block_start(wire.index, wire.content_block)
        elif kind == "content_block_stop":
            self.block_stop(wire.index)
        elif kind == "message_start":
            self._message_start(wire)
        elif kind == "message_delta":
            self._message_delta(wire)
        elif kind == "message_stop":
            self._message_stop()
        elif kind == "error" or (not kind and wire.error is not None):
            said = {"error": wire.error, "request_id": wire.request_id}
            self.fail(error_from_value(said, provider=self.provider))

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._counts.usage

    @usage.setter
    def usage(self, usage: Usage) -> None:
        """The base begins with none; from then on the chunks say it."""

    def on_sentinel(self, payload: bytes) -> bool:
        """Gateways that also speak chat completions end with its mark; others keep alive with `null`."""
        return payload.lstrip().startswith(b"[DONE]") or payload.strip() == b"null"

    def end(self) -> None:
        """The body is over: a stop reason without `message_stop` is a complete answer."""
        if self.complete:
            self._finish()

    def _message_start(self, wire: WireEvent) -> None:
        message = wire.message
        if message is None:
            self.defect("a message_start came without its message")
            return
        if self._started:
            if message.id is not None and message.id != self._message_id:
                self.fail(
                    ProtocolError(
                        f"the message {message.id!r} began inside {self._message_id!r}: two answers "
                        "were spliced into one stream. Send the request again."
                    )
                )
            return
        self._started = True
        self._message_id = message.id
        self._counts.add(message.usage)
        self._remember(message, _OF_MESSAGE)
        message_id = None if message.id is None else str(message.id)
        if message.model or message_id:
            self.out.append(ResponseMetadata(message.model, message_id))
        for number, block in enumerate(message.content if isinstance(message.content, list) else ()):
            if isinstance(block, dict):
                self.block_start(("start", number), block)
                self.block_stop(("start", number))
        if message.stop_reason:  # of a message that is whole here; the end is still message_stop's to say
            self._raw_reason = message.stop_reason

    def _message_delta(self, wire: WireEvent) -> None:
        self._counts.add(wire.usage)
        self._remember(wire, _BESIDE_DELTA)
        delta = wire.delta
        if delta is None:
            return
        self._remember(delta, _OF_DELTA)
        if delta.stop_reason is not None:
            self._raw_reason = delta.stop_reason
            self.complete = True
            if self._reason() not in _CUTTING:
                self.release_calls()

    def _message_stop(self) -> None:
        if self._started or self.complete or self._blocks:
            self._finish()
            return
        self.fail(
            IncompleteStream(
                "the stream said message_stop before any answer. Look at the model's name, or ask again.",
                provider=self.provider,
            )
        )

    def _remember(self, holder: WireEvent | WireMessage | WireDelta, names: tuple[str, ...]) -> None:
        """Later values replace earlier ones, as the vendor means them."""
        for name in names:
            value = getattr(holder, name)
            if value is not None:
                self._last_words[name] = value

    def _finish(self) -> None:
        reason = self._reason()
        for index, block in list(self.open_blocks.items()):
            if block.kind == "tool" and reason in _CUTTING:
                del self.open_blocks[index]
                self.out.append(ToolInputEnd(block.id, incomplete=True))
            else:
                self.close_block(index)
        if self.client_called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        metadata = {KEY: self._last_words} if self._last_words else None
        self.complete = self.done = True
        self.out.append(Finish(reason, self.usage, self._raw_reason, metadata))

    def _reason(self) -> FinishReason:
        return "unknown" if self._raw_reason is None else FINISH_REASONS.get(self._raw_reason, "other")
