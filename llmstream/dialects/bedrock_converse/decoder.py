"""Bytes of a Converse answer to events: the message around its blocks."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any, Final, Literal

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.bedrock_converse.wire import (
    FINISH_REASONS,
    KEY,
    ConverseFrames,
    OpenBlock,
    WireDelta,
    WireEvent,
    WireReasoning,
    WireStop,
    decode_event,
    read_usage,
    source_of_citation,
)
from llmstream.dialects.decoder import Framing, PayloadDecoder, held_size
from llmstream.errors import LimitExceeded, LLMStreamError
from llmstream.events import (
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.unique_ids import UniqueIds

__all__ = ["LAST_WORDS", "BedrockConverseDecoder"]


# Content blocks of a Converse answer: opened, grown by deltas and closed, as events.
#
# Text and reasoning usually have no start on the wire: their first delta opens them.

_COMPACT = msgspec.json.Encoder()
_SLOT_BYTES = 8


class BlockDecoder(PayloadDecoder[WireEvent]):
    """The part of the decoder that knows blocks; what stands around them is its subclass's.

    open_blocks:   by index, in the order of opening
    client_called: whether the caller has calls to run
    """

    def __init__(
        self,
        framing: Framing,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
    ) -> None:
        super().__init__(framing, decode_event, provider=provider, include_raw=include_raw, limits=limits)
        self.open_blocks: dict[Hashable, OpenBlock] = {}
        self.client_called = False
        self._cited: dict[Hashable, list[dict[str, Any]]] = {}  # before the text that rests on them
        self._held: list[Hashable] = []
        self._prose_at: dict[str, dict[Hashable, None]] = {"text": {}, "reasoning": {}}  # open, by kind
        self._orphans: set[Hashable] = set()
        self._used = UniqueIds(hold=self.hold)
        self._tool_names: dict[str, str] = {}
        self._settled: set[str] = set()
        self._sources = 0
        self._blocks = 0

    def fail(self, error: LLMStreamError) -> None:
        """The stream cannot go on; citations that wait for their text are given first."""
        self.release_citations()
        super().fail(error)

    def block_start(self, index: Hashable, start: dict[str, Any] | None) -> None:
        """A call, a result or an image opens; other kinds open by their first delta."""
        match start:
            case {"toolUse": dict(wire)}:
                self._tool_start(index, wire)
            case {"toolResult": dict(wire)}:
                if self._opens(index):
                    self._open(index, OpenBlock("result", "", wire))
            case {"image": dict(wire)}:
                if self._opens(index):
                    self._open(index, OpenBlock("image", "", wire))

    def block_stop(self, index: Hashable) -> None:
        """The wire says that a block is over.

        A call without any input is held: the token limit may have come before its first
        argument, which only the next block or the stop reason tells.
        """
        block = self.open_blocks.get(index)
        if index in self._cited:
            self._cite_all(index)
        if block is None:
            return
        if block.kind == "tool" and not block.by_vendor and not block.parts:
            self._held.append(index)
        else:
            self.close_block(index)

    def release_calls(self) -> None:
        """The calls that were held are whole: they take no arguments."""
        held, self._held = self._held, []
        for index in held:
            if index in self.open_blocks:
                self.close_block(index)

    def release_citations(self) -> None:
        """Citations whose text has not come."""
        for index in list(self._cited):
            self._cite_all(index)

    def close_block(self, index: Hashable) -> None:
        """Ends an open block: a call is complete, a result or an image is whole."""
        block = self.open_blocks.pop(index)
        self.let_go(block.held)
        if block.kind in self._prose_at:
            self._prose_at[block.kind].pop(index, None)
        if block.kind == "text":
            self.out.append(TextEnd(block.id, provider_metadata=block.end_metadata))
        elif block.kind == "reasoning":
            self.out.append(ReasoningEnd(block.id, provider_metadata=block.end_metadata))
        elif block.kind == "tool":
            self._tool_stop(block)
        elif block.kind == "result":
            self._result(block)
        else:
            self._image(block)

    def block_delta(self, index: Hashable, delta: WireDelta) -> None:
        """What a block grows by."""
        if delta.reasoning_content is not None:
            self._reasoning(index, delta.reasoning_content)
        if delta.text is not None:
            self._text(index, delta.text)
        if delta.tool_use is not None:
            self._input(index, delta.tool_use.input)
        if delta.citation is not None:
            self._citation(index, delta.citation)
        if delta.tool_result is not None:
            self._piece(index, delta.tool_result)
        if delta.image is not None:
            self._image_piece(index, delta.image)

    # opening

    def _opens(self, index: Hashable) -> bool:
        """Makes room for a block: what the wire has left open there is over. False past the cap."""
        self.release_calls()
        if index in self.open_blocks:
            self.close_block(index)
        self._blocks += 1
        if self._blocks > self.limits.max_blocks:
            self.fail(LimitExceeded(f"the answer has more than {self.limits.max_blocks} blocks and calls"))
            return False
        return True

    def _open(self, index: Hashable, block: OpenBlock) -> None:
        self._keep(block, held_size(block.wire))
        self.open_blocks[index] = block

    def _prose(self, index: Hashable, kind: Literal["text", "reasoning"]) -> OpenBlock | None:
        """The block of that kind, opened where it is not; text and reasoning close before each other."""
        block = self.open_blocks.get(index)
        if block is not None and block.kind == kind:
            return block
        if block is not None and block.kind not in ("text", "reasoning"):
            self._orphan(index, f"{kind} came for block {index}, which is a {block.kind}")
            return None
        if not self._opens(index):
            return None
        self._close_prose("text" if kind == "reasoning" else "reasoning")
        block = OpenBlock(kind, self._fresh(_number(index)))
        self.open_blocks[index] = block
        self._prose_at[kind][index] = None
        self.out.append(TextStart(block.id) if kind == "text" else ReasoningStart(block.id))
        if kind == "text" and index in self._cited:
            self._cite_all(index, block)
        return block

    def _close_prose(self, *kinds: str) -> None:
        for kind in kinds:
            for index in list(self._prose_at[kind]):
                self.close_block(index)

    def _tool_start(self, index: Hashable, wire: dict[str, Any]) -> None:
        known = self.open_blocks.get(index)
        if known is not None and known.kind == "tool" and known.wire == wire and not known.parts:
            return  # sent twice
        if not self._opens(index):
            return
        self._close_prose("text", "reasoning")
        given = wire.get("toolUseId")
        block = OpenBlock("tool", self._fresh(given or f"call_{_number(index)}"), wire)
        if not block.tool_name:
            self.defect(f"the tool call {block.id!r} has no name")
        self._tool_names.setdefault(str(given), block.tool_name)
        self._open(index, block)
        self.out.append(
            ToolInputStart(block.tool_name, block.id, block.by_vendor, provider_metadata=block.call_metadata)
        )

    # growing

    def _text(self, index: Hashable, text: str) -> None:
        block = self._prose(index, "text")
        if block is not None and text:
            self.out.append(TextDelta(text, block.id))

    def _reasoning(self, index: Hashable, delta: WireReasoning) -> None:
        block = self._prose(index, "reasoning")
        if block is None:
            return
        if delta.text:
            self.out.append(ReasoningDelta(delta.text, block.id))
        if delta.signature and block.sign(delta.signature):
            self._keep(block, sys.getsizeof(delta.signature) + _SLOT_BYTES)
        if delta.redacted_content:
            self._gather(block, delta.redacted_content)

    def _input(self, index: Hashable, given: Any) -> None:
        if given is None:
            return
        fragment = given if isinstance(given, str) else _COMPACT.encode(given).decode()
        if not fragment:
            return
        block = self.open_blocks.get(index)
        if block is None or block.kind != "tool":
            self._orphan(index, f"tool input came for block {index}, which is no open call")
            return
        block.parts.append(fragment)
        block.size += len(fragment)
        self._keep(block, sys.getsizeof(fragment) + _SLOT_BYTES)
        if block.size > self.limits.max_tool_input_bytes:
            limit = self.limits.max_tool_input_bytes
            self.fail(LimitExceeded(f"the input of {block.tool_name!r} is longer than {limit} bytes"))
            return
        self.out.append(ToolInputDelta(fragment, block.id))

    def _citation(self, index: Hashable, citation: dict[str, Any]) -> None:
        block = self.open_blocks.get(index)
        self._cited.setdefault(index, []).append(citation)
        self.hold(held_size(citation))
        if block is None:
            self.release_calls()
        elif block.kind == "text":
            self._cite_all(index, block)

    def _cite_all(self, index: Hashable, block: OpenBlock | None = None) -> None:
        for citation in self._cited.pop(index):
            if block is not None:
                block.citations.append(citation)
            self._sources += 1
            self.out.append(source_of_citation(citation, self._fresh(f"source-{self._sources}")))

    def _piece(self, index: Hashable, pieces: Any) -> None:
        block = self.open_blocks.get(index)
        if block is None or block.kind != "result":
            self._orphan(index, f"a piece of a result came for block {index}, which is no open result")
            return
        block.pieces.extend(pieces if isinstance(pieces, list) else [pieces])
        self._count(block, len(_COMPACT.encode(pieces)), held_size(pieces))

    def _image_piece(self, index: Hashable, delta: dict[str, Any]) -> None:
        block = self.open_blocks.get(index)
        if block is None or block.kind != "image":
            self._orphan(index, f"a piece of an image came for block {index}, which is no open image")
            return
        match delta.get("error"):
            case {"message": message}:
                self.defect(f"the vendor could not make an image: {message}")
        match delta.get("source"):
            case {"bytes": str(data)}:
                self._gather(block, data)
            case {"s3Location": {"uri": str(uri), **rest}}:
                block.url, block.owner = uri, rest.get("bucketOwner")

    def _gather(self, block: OpenBlock, data: str) -> None:
        block.data.append(data)
        self._count(block, len(data), sys.getsizeof(data) + _SLOT_BYTES)

    def _keep(self, block: OpenBlock, held: int) -> None:
        block.held += held
        self.hold(held)

    def _count(self, block: OpenBlock, size: int, held: int) -> None:
        block.size += size
        self._keep(block, held)
        if block.size > self.limits.max_event_bytes:
            limit = self.limits.max_event_bytes
            self.fail(LimitExceeded(f"block {block.id or block.kind!r} is longer than {limit} bytes"))

    # closing

    def _tool_stop(self, block: OpenBlock) -> None:
        self.client_called = self.client_called or not block.by_vendor
        self.out.append(ToolInputEnd(block.id))
        self.out.append(block.call)

    def _result(self, block: OpenBlock) -> None:
        """A tool that the vendor ran has given its result."""
        given = block.wire.get("toolUseId")
        call_id = str(given) if given else self._fresh("result")
        if call_id in self._settled:
            self.defect(f"the call {call_id!r} got a second result, which was left out")
            return
        self._settled.add(call_id)
        told = {key: value for key, value in block.wire.items() if key != "toolUseId"}
        name = self._tool_names.get(call_id) or str(told.get("type") or "").removesuffix("_result")
        self.out.append(
            ToolResult(
                block.pieces,
                call_id,
                name,
                told.get("status") == "error",
                provider_executed=True,
                provider_metadata={KEY: told} if told else None,
            )
        )

    def _image(self, block: OpenBlock) -> None:
        try:
            file = block.file
        except ValueError:
            self.defect("an image is not base64")
            return
        if file is not None:
            self.out.append(file)

    # names

    def _orphan(self, index: Hashable, message: str) -> None:
        if index not in self._orphans:
            self._orphans.add(index)
            self.defect(message)

    def _fresh(self, wish: Any) -> str:
        """An id that nothing else in the answer has, as near to the wish as can be."""
        return self._used.fresh(str(wish))


def _number(index: Hashable) -> str:
    """What a block is called: its index."""
    return "0" if index is None else str(index)


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
