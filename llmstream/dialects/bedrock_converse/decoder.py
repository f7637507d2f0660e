"""Bytes of a Converse answer to events: the message around its blocks."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.bedrock_converse.block_decoder import BlockDecoder
from llmstream.dialects.bedrock_converse.blocks import FINISH_REASONS, KEY
from llmstream.dialects.bedrock_converse.frames import ConverseFrames
from llmstream.dialects.bedrock_converse.usage import read_usage
from llmstream.dialects.bedrock_converse.wire import WireEvent, WireStop
from llmstream.events import Finish, FinishReason, TextDelta, ToolInputEnd

__all__ = ["LAST_WORDS", "BedrockConverseDecoder"]

_CUTTING: Final = frozenset({"length", "content-filter", "error"})
"""Reasons after which an input may have been cut."""

LAST_WORDS: Final = {
    "metrics": "metrics",
    "trace": "trace",
    "performanceConfig": "performance_config",
    "serviceTier": "service_tier",
}
"""What the `metadata` event says beside usage: its name on the wire, and in the metadata of finish."""


class BedrockConverseDecoder(BlockDecoder):
    """One answer of ConverseStream.

    Text and reasoning have their index as id, tool inputs the id of their call. The answer is
    complete once `messageStop` came; finish waits for `metadata`, which usually follows it.
    """

    def __init__(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> None:
        framing = ConverseFrames(provider=provider, max_bytes=limits.max_event_bytes)
        super().__init__(framing, provider=provider, include_raw=include_raw, limits=limits)
        self._raw_reason: str | None = None
        self._counted = False
        self._defective = False
        self._last_words: dict[str, Any] = {}

    def on(self, wire: WireEvent) -> None:
        """Turns one event into ours; the deltas of text, which are most of them, go first."""
        event = wire.content_block_delta
        if event is not None:
            delta = event.delta
            if delta is None or self.complete:
                return
            block = self.open_blocks.get(event.content_block_index)
            if delta.text and block is not None and block.kind == "text":
                self.out.append(TextDelta(delta.text, block.id))
            else:
                self.block_delta(event.content_block_index, delta)
        elif wire.content_block_start is not None and not self.complete:
            self.block_start(wire.content_block_start.content_block_index, wire.content_block_start.start)
        elif wire.content_block_stop is not None and not self.complete:
            self.block_stop(wire.content_block_stop.content_block_index)
        elif wire.message_stop is not None:
            self._message_stop(wire.message_stop)
        elif wire.metadata is not None:
            self._metadata(wire.metadata)

    def end(self) -> None:
        """The body is over: `messageStop` without `metadata` is a complete answer."""
        if self.complete:
            self._finish()
        else:
            self.release_citations()

    def defect(self, message: str) -> None:
        """A known event could not be read; reading goes on."""
        self._defective = True
        super().defect(message)

    def _message_stop(self, wire: WireStop) -> None:
        self._raw_reason = wire.stop_reason
        self.complete = True
        if wire.additional_model_response_fields is not None:
            self._last_words["additional_model_response_fields"] = wire.additional_model_response_fields
        if self._reason() not in _CUTTING:
            self.release_calls()
        if self._counted:
            self._finish()

    def _metadata(self, wire: dict[str, Any]) -> None:
        """Usage and measurements; recordings show them before `messageStop` as well."""
        usage = wire.get("usage")
        if isinstance(usage, dict):
            self.usage = read_usage(usage)
        for name, ours in LAST_WORDS.items():
            if wire.get(name) is not None:
                self._last_words[ours] = wire[name]
        self._counted = True
        if self.complete:
            self._finish()

    def _finish(self) -> None:
        reason = self._reason()
        cut = reason in _CUTTING
        self.release_citations()
        for index, block in list(self.open_blocks.items()):
            if block.kind == "tool" and cut:
                del self.open_blocks[index]
                self.out.append(ToolInputEnd(block.id, incomplete=True))
                if self._defective:  # an input broken off beside an error leaves no other reason
                    reason = "error"
            else:
                self.close_block(index)
        if self.client_called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        metadata = {KEY: self._last_words} if self._last_words else None
        self.complete = self.done = True
        self.out.append(Finish(reason, self.usage, self._raw_reason, metadata))

    def _reason(self) -> FinishReason:
        return "unknown" if self._raw_reason is None else FINISH_REASONS.get(self._raw_reason, "other")
