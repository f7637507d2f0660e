"""Bytes of a Messages answer to events: the message around its blocks."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from llmstream.dialects.anthropic.wire import (
    FINISH_REASONS,
    KEY,
    OpenBlock,
    WireDelta,
    WireEvent,
    WireMessage,
    block_kind,
    count,
    decode_event,
    encodable,
    encodable_value,
    read_usage,
    source_of_citation,
    source_of_hit,
)
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.decoder import Framing, PayloadDecoder, held_size
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import is_json
from llmstream.dialects.token_counts import UsageCounts
from llmstream.errors import IncompleteStream, LimitExceeded, ProtocolError
from llmstream.events import (
    Custom,
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.unique_ids import UniqueIds

__all__ = ["AnthropicDecoder"]


# Content blocks of a Messages answer: opened, grown by deltas and closed, as events.

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
        self._seen: set[Hashable] = set()
        self._orphans: set[Hashable] = set()
        self._used = UniqueIds(hold=self.hold)
        self._tool_names: dict[str, str] = {}
        self._settled: set[str] = set()
        self._sources = 0
        self._blocks = 0
        self._held: list[Hashable] = []

    def block_start(self, index: Hashable, wire: dict[str, Any] | None) -> None:
        """A block opens; results of the vendor's tools come whole here."""
        if wire is None or not isinstance(wire.get("type"), str):
            self.defect("a content_block_start came without a block or its type")
            return
        if self._held:
            self.release_calls()
        if index in self.open_blocks:
            if self._is_same(self.open_blocks[index], wire):
                return
            self.close_block(index)
        self._blocks += 1
        if self._blocks > self.limits.max_blocks:
            self.fail(LimitExceeded(f"the answer has more than {self.limits.max_blocks} blocks and calls"))
            return
        self._seen.add(index)
        kind = block_kind(wire["type"])
        if kind == "tool":
            block = OpenBlock(kind, self._fresh(wire.get("id") or f"call_{_number(index)}"), wire)
            self._tool_start(block)
        elif kind == "result":
            block = OpenBlock(kind, "", wire)
            self._result(wire)
        elif kind == "custom":
            block = OpenBlock(kind, "", dict(wire))
        else:
            block = OpenBlock(kind, self._fresh(_number(index)), wire)
            self._prose_start(block)
        self._keep(block, held_size(wire))
        self.open_blocks[index] = block

    def _is_same(self, block: OpenBlock, wire: dict[str, Any]) -> bool:
        """Whether a start is sent a second time, before anything of the block came."""
        return block.wire == wire and (block.kind != "tool" or not block.parts)

    def _prose_start(self, block: OpenBlock) -> None:
        wire = block.wire
        if block.kind == "text":
            self.out.append(TextStart(block.id))
            self._text(block, wire.get("text"))
            citations = wire.get("citations")
            for citation in citations if isinstance(citations, list) else ():
                self._cite(block, citation)
            return
        data = wire.get("data")
        redacted = {KEY: {"redacted_data": data}} if block.type == "redacted_thinking" else None
        self.out.append(ReasoningStart(block.id, redacted))
        self._thinking(block, wire.get("thinking"))
        self._sign(block, wire.get("signature"))

    def _tool_start(self, block: OpenBlock) -> None:
        if not block.tool_name:
            self.defect(f"the tool call {block.id!r} has no name")
        by_vendor = not block.is_client_call
        self._tool_names.setdefault(str(block.wire.get("id")), block.tool_name)
        dynamic = block.type == "mcp_tool_use"
        self.out.append(
            ToolInputStart(block.tool_name, block.id, by_vendor, dynamic, provider_metadata=block.metadata)
        )

    def _result(self, wire: dict[str, Any]) -> None:
        """A tool that the vendor ran: the whole result comes in the block's start."""
        given = wire.get("tool_use_id")
        call_id = str(given) if given else self._fresh("result")
        if call_id in self._settled:
            self.defect(f"the call {call_id!r} got a second result, which was left out")
            return
        self._settled.add(call_id)
        content = wire.get("content")
        failed = wire.get("is_error") is True or (
            isinstance(content, dict) and str(content.get("type")).endswith("_error")
        )
        name = self._tool_names.get(call_id) or wire["type"].removesuffix("_tool_result")
        rest = {k: v for k, v in wire.items() if k not in ("tool_use_id", "content", "is_error")}
        self.out.append(
            ToolResult(content, call_id, name, failed, provider_executed=True, provider_metadata={KEY: rest})
        )
        if wire["type"] == "web_search_tool_result" and isinstance(content, list):
            for hit in content:
                source = source_of_hit(hit, self._source_id())
                if source is not None:
                    self.out.append(source)

    def block_stop(self, index: Hashable) -> None:
        """The wire says that a block is over.

        A call without any input is held: the token limit may have come before its first
        argument, which only the next block or the stop reason tells.
        """
        block = self.open_blocks.get(index)
        if block is None:
            if index not in self._seen:
                self._orphan(index, "content_block_stop")
        elif block.is_client_call and not block.parts and not block.wire.get("input"):
            self._held.append(index)
        else:
            self.close_block(index)

    def release_calls(self) -> None:
        """The calls that were held are whole: they take no arguments."""
        held, self._held = self._held, []
        for index in held:
            if index in self.open_blocks:
                self.close_block(index)

    def close_block(self, index: Hashable) -> None:
        """Ends an open block: a call is complete, and what only this vendor knows is whole."""
        block = self.open_blocks.pop(index)
        self.let_go(block.held)
        if block.kind == "text":
            cited = {KEY: {"citations": block.citations}} if block.citations else None
            self.out.append(TextEnd(block.id, provider_metadata=cited))
        elif block.kind == "reasoning":
            self.out.append(ReasoningEnd(block.id, provider_metadata=block.reasoning_metadata))
        elif block.kind == "tool":
            self._tool_stop(block)
        elif block.kind == "custom":
            self.out.append(Custom(f"{KEY}.{block.type}", {KEY: block.whole}))

    def _tool_stop(self, block: OpenBlock) -> None:
        given = block.wire.get("input")
        if not block.parts and given:
            whole = _COMPACT.encode(given).decode()
            block.parts.append(whole)
            self.out.append(ToolInputDelta(whole, block.id))
        text = "".join(block.parts) or "{}"
        by_vendor = not block.is_client_call
        self.client_called = self.client_called or not by_vendor
        self.out.append(ToolInputEnd(block.id))
        self.out.append(
            ToolCall(
                block.tool_name,
                text,
                block.id,
                provider_executed=by_vendor,
                dynamic=block.type == "mcp_tool_use",
                invalid=not block.tool_name or not is_json(text),
                provider_metadata=block.metadata,
            )
        )

    # deltas

    def block_delta(self, index: Hashable, block: OpenBlock | None, delta: WireDelta) -> None:
        """A delta of anything but text in its place."""
        if block is None:
            block = self._orphaned(index, delta)
            if block is None:
                return
        match delta.type, block.kind:
            case "input_json_delta", "tool":
                self._input(block, delta.partial_json)
            case "thinking_delta", "reasoning":
                self._thinking(block, delta.thinking, delta.estimated_tokens)
            case "text_delta", "text":
                self._text(block, delta.text)
            case "signature_delta", "reasoning":
                self._sign(block, delta.signature)
            case "citations_delta", "text":
                self._cite(block, delta.citation)
            case _, "custom":
                self._extend(block)
            case (("input_json_delta" | "thinking_delta" | "text_delta"), _):
                self.defect(f"a {delta.type} came for block {index}, which is {block.type}")

    def _input(self, block: OpenBlock, fragment: str | None) -> None:
        if not fragment:
            return
        block.parts.append(fragment)
        block.size += len(fragment)
        self._keep(block, sys.getsizeof(fragment) + _SLOT_BYTES)
        if block.size > self.limits.max_tool_input_bytes:
            limit = self.limits.max_tool_input_bytes
            self.fail(LimitExceeded(f"the input of {block.tool_name!r} is longer than {limit} bytes"))
            return
        self.out.append(ToolInputDelta(fragment, block.id))

    def _text(self, block: OpenBlock, text: Any) -> None:
        if isinstance(text, str) and text:
            self.out.append(TextDelta(text, block.id))

    def _thinking(self, block: OpenBlock, text: Any, tokens: Any = None) -> None:
        """Where the text is left out, the vendor estimates its tokens, delta by delta.

        The end tells their sum: a delta without text would be an event without news.
        source: anthropic 2.12.0, `BetaThinkingDelta.estimated_tokens`
        """
        metadata = None
        if tokens is not None and (estimate := count(tokens)):
            block.thought += estimate
            metadata = {KEY: {"estimated_tokens": estimate}}
        if isinstance(text, str) and text:
            self.out.append(ReasoningDelta(text, block.id, metadata))

    def _sign(self, block: OpenBlock, signature: Any) -> None:
        """An empty signature erases none."""
        if isinstance(signature, str) and signature:
            block.signature = signature

    def _cite(self, block: OpenBlock, citation: Any) -> None:
        if isinstance(citation, dict):
            if self._joiner is not None:
                citation = encodable_value(citation)
            block.citations.append(citation)
            self._keep(block, held_size(citation))
            self.out.append(source_of_citation(citation, self._source_id()))

    def _extend(self, block: OpenBlock) -> None:
        """Blocks that only this vendor knows grow field by field, as compaction does."""
        try:
            delta = self.whole_payload()["delta"]
        except RecursionError:
            self.defect(f"a delta of a {block.type} block could not be read: it is nested too deeply")
            return
        for name, value in delta.items():
            if name != "type" and value is not None:
                known = block.wire.get(name)
                if isinstance(known, str) and isinstance(value, str):
                    # Joined at the end: what is there would be copied for each piece.
                    block.grown.setdefault(name, [known]).append(value)
                else:
                    block.grown.pop(name, None)
                    block.wire[name] = value
                self._keep(block, held_size(value))

    def _keep(self, block: OpenBlock, size: int) -> None:
        block.held += size
        self.hold(size)

    # what has no place

    def _orphaned(self, index: Hashable, delta: WireDelta) -> OpenBlock | None:
        """A block for text that came without one, so that nothing is lost; the rest has none."""
        known = ("input_json_delta", "signature_delta", "citations_delta")
        if delta.type in known or delta.text or delta.thinking:
            self._orphan(index, str(delta.type))
        kind = "text" if delta.text else "thinking" if delta.thinking else None
        if kind is None or delta.type in known:
            return None
        self.block_start(index, {"type": kind})
        return self.open_blocks.get(index)

    def _orphan(self, index: Hashable, what: str) -> None:
        if index not in self._orphans:
            self._orphans.add(index)
            self.defect(f"a {what} came for block {index}, which is not open")

    def _source_id(self) -> str:
        self._sources += 1
        return self._fresh(f"source-{self._sources}")

    def _fresh(self, wish: Any) -> str:
        """An id that nothing else in the answer has, as near to the wish as can be."""
        return self._used.fresh(str(wish))


def _number(index: Hashable) -> str:
    """What a block is called: its index; blocks inside `message_start` count on their own."""
    return str(index[-1] if isinstance(index, tuple) else 0 if index is None else index)


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
