"""The wire events of one answer as bytes: numbered blocks between message_start and message_stop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from llmstream.dialects.anthropic.invoke_frames import invoke_frame

__all__ = ["AnswerWriter", "WrittenBlock"]


@dataclasses.dataclass(slots=True)
class WrittenBlock:
    """A block that has been begun: its index, and whether a delta or a citation of it was sent.

    thought: tokens of reasoning that its deltas have told
    """

    index: int
    spoken: bool = False
    cited: bool = False
    thought: int = 0


class AnswerWriter:
    """Writes events in the server's framing. Blocks are numbered as they open.

    The message begins by itself before the first block, and a ping follows that block's start,
    as is usual.
    """

    def __init__(
        self, model: str, *, framing: Literal["sse", "aws-event-stream"], new_id: Callable[[], str]
    ) -> None:
        self._model = model
        self._framing = framing
        self._new_id = new_id
        self._begun = False
        self._next_index = 0

    def begin(self, message_id: str | None = None, model: str | None = None) -> bytes:
        """The start of the message, once; later calls say nothing."""
        if self._begun:
            return b""
        self._begun = True
        message: dict[str, Any] = {
            "id": message_id or self._new_id(),
            "type": "message",
            "role": "assistant",
            "model": model or self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return self.write({"type": "message_start", "message": message})

    def open_block(self, block: dict[str, Any]) -> tuple[WrittenBlock, bytes]:
        """A block and the bytes that begin it."""
        written = WrittenBlock(self._next_index)
        self._next_index += 1
        start = {"type": "content_block_start", "index": written.index, "content_block": block}
        ping = self.write({"type": "ping"}) if written.index == 0 else b""
        return written, self.begin() + self.write(start) + ping

    def whole(self, block: dict[str, Any]) -> bytes:
        """A block that has no deltas."""
        written, data = self.open_block(block)
        return data + self.stop(written)

    def delta(self, written: WrittenBlock, delta: dict[str, Any]) -> bytes:
        """What a block grows by."""
        return self.write({"type": "content_block_delta", "index": written.index, "delta": delta})

    def stop(self, written: WrittenBlock) -> bytes:
        """The end of a block."""
        return self.write({"type": "content_block_stop", "index": written.index})

    def write(self, wire: dict[str, Any]) -> bytes:
        """One event in the server's framing."""
        data = msgspec.json.encode(wire)
        if self._framing == "aws-event-stream":
            return invoke_frame(data)
        return b"event: %b\ndata: %b\n\n" % (wire["type"].encode(), data)
