"""Decodes the stream of one Messages response into events."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import msgspec

from llmstream.dialects.anthropic.wire import (
    FINISH_REASONS,
    KEY,
    TOOL_USES,
    WireDelta,
    WireEvent,
    WireMessage,
    decode_event,
    decode_plain_event,
    encodable,
    read_usage,
    source_of_citation,
    source_of_hit,
)
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import UNREADABLE, Framing, PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.payload_size import held_size, most_held
from llmstream.dialects.wire_values import UsageCounts, token_count
from llmstream.errors import ProtocolError
from llmstream.events import (
    Custom,
    FinishReason,
    Metadata,
    ReasoningDelta,
    ResponseMetadata,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from llmstream.grammar import TRUNCATING

__all__ = ["AnthropicDecoder"]

_COMPACT = msgspec.json.Encoder()

# Fields for the metadata of finish: of `message_start`, of the deltas in `message_delta`, and beside them.
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

# Fields of a tool's block that have a place in our events.
_OF_OTHER_USE: Final = frozenset({"id", "name", "input"})
_OF_TOOL_USE: Final = _OF_OTHER_USE | {"type"}


class OpenBlock(Block, eq=False):
    """A content block: text, reasoning, a call, a result, or a custom block.

    wire:      the block from `content_block_start`, with the values that deltas set in a custom block
    signature: of reasoning, to be sent back with it
    thought:   the vendor's estimate of reasoning tokens, if the text of reasoning is omitted
    citations: of a text
    grown:     text that deltas append to a custom block, by field
    """

    wire: dict[str, Any] = msgspec.field(default_factory=dict)
    signature: str = ""
    thought: int = 0
    citations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    grown: dict[str, list[str]] = msgspec.field(default_factory=dict)

    @property
    def type(self) -> str:
        """Type on the wire."""
        return str(self.wire.get("type"))

    @property
    def is_client_call(self) -> bool:
        """Whether the caller has to run it."""
        return self.kind == "tool" and not self.provider_executed


class AnthropicDecoder(PayloadDecoder[WireEvent]):
    """Decodes one response of the Messages API.

    Blocks have their index as id, tool inputs the id of their call. The response is complete
    once a stop reason has arrived; finish waits for `message_stop` or the end of the body.
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
        self._blocks = Blocks(self, OpenBlock, key=KEY, closing=self._closing)
        self._opened = self._blocks.opened
        # Indexes of all blocks so far.
        self._seen: set[Hashable] = set()
        self._counts = UsageCounts(read_usage, self.hold)
        self._message_id: str | int | None = None
        self._started = False
        self._raw_reason: str | None = None
        self._of_finish: dict[str, Any] = {}

    @property
    def usage(self) -> Usage:
        """Usage that the vendor has reported so far."""
        return self._counts.usage

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes events. A measured hot loop: a piece of an open block becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        decode, out, opened, misses = decode_plain_event.decode, self.out, self._opened, 0
        growing: OpenBlock | None = None  # a call whose latest fragments are not counted yet
        most = 0
        for payload in payloads:
            # Outside of blocks nothing fits.
            if opened:
                try:
                    event = decode(payload)
                except UNREADABLE:
                    misses += 1
                else:
                    block, delta = opened.get(event.index), event.delta
                    if block is None:
                        pass
                    elif delta is None:
                        if event.type == "content_block_stop":
                            if block is growing:  # the memory of a released block need not be counted
                                growing = None
                            self._block_stop(event.index)
                            continue
                    elif delta.type == "text_delta":
                        if block.kind == "text" and (text := delta.text):
                            out.append(TextDelta(text, block.id))
                            continue
                    elif delta.type == "input_json_delta":
                        if block.kind == "tool" and (text := delta.partial_json):
                            if block is not growing:
                                most = most or most_held(payloads)
                                growing = self.growing(block, growing, most)
                            if growing is not None:
                                block.parts.append(text)
                                out.append(ToolInputDelta(text, block.id))
                                continue
                    elif block.kind == "reasoning" and (text := delta.thinking):
                        out.append(ReasoningDelta(text, block.id))
                        continue
            self._read_other(payload, growing)
            growing = None
            if self.done:
                return
        self._end_plain(growing, misses, len(payloads))

    def on(self, wire: WireEvent) -> None:
        """Maps one event."""
        kind = wire.type
        if kind == "content_block_delta":
            delta = wire.delta
            if delta is None:
                return
            block = self._opened.get(wire.index)
            if delta.type == "text_delta" and block is not None and block.kind == "text":
                if delta.text:
                    self.out.append(TextDelta(delta.text, block.id))
            else:
                self._block_delta(wire.index, block, delta)
            return
        # Since the first half of a character, values of this stream may hold lone surrogates, which no JSON
        # encoder takes. Text deltas are joined in `out`; everything else is repaired before it is stored.
        if self._joiner is not None:
            wire = encodable(wire)
        if kind == "content_block_start":
            self._block_start(wire.index, wire.content_block)
        elif kind == "content_block_stop":
            self._block_stop(wire.index)
        elif kind == "message_start":
            self._message_start(wire)
        elif kind == "message_delta":
            self._message_delta(wire)
        elif kind == "message_stop":
            self._message_stop()
        elif kind == "error" or (not kind and wire.error is not None):
            error = {"error": wire.error, "request_id": wire.request_id}
            self.fail(error_from_value(error, provider=self.provider))

    # Start and end of the message.

    def _message_start(self, wire: WireEvent) -> None:
        message = wire.message
        if message is None:
            self.defect("a message_start has no message")
            return
        if self._started:
            if message.id is not None and message.id != self._message_id:
                self.fail(
                    ProtocolError(
                        f"the message {message.id!r} started inside {self._message_id!r}: the stream "
                        "mixes two responses. Send the request again."
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
                self._block_start(("start", number), block)
                self._block_stop(("start", number))
        # The message is complete, but only message_stop ends the stream.
        if message.stop_reason:
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
            # The model ended without an error or limit, so a call without input is complete.
            if self._reason() not in TRUNCATING:
                self._blocks.release()

    def _message_stop(self) -> None:
        self.end_at("message_stop", has_content=self._started or self._blocks.count > 0)

    def _remember(self, holder: WireEvent | WireMessage | WireDelta, names: tuple[str, ...]) -> None:
        # Values are cumulative: later ones replace earlier ones.
        for name in names:
            value = getattr(holder, name)
            if value is not None:
                self._of_finish[name] = value

    def finish(self) -> None:
        """Closes open blocks, then emits finish."""
        metadata = {KEY: self._of_finish} if self._of_finish else None
        self._blocks.finish(self._reason(), self._raw_reason, metadata)

    def _reason(self) -> FinishReason:
        return "unknown" if self._raw_reason is None else FINISH_REASONS.get(self._raw_reason, "other")

    # Start and end of blocks.

    def _block_start(self, index: Hashable, wire: dict[str, Any] | None) -> None:
        if wire is None or not isinstance(wire.get("type"), str):
            self.defect("a content_block_start has no block or no type")
            return
        self._blocks.release()
        known = self._opened.get(index)
        if known is not None and known.wire == wire and not known.parts:
            # Some gateways send a start twice.
            return
        self._seen.add(index)
        block = self._block_of(index, wire)
        if not self._blocks.open(index, block, held=self.held_of(wire)):
            return
        if block.kind == "text":
            self._text(block, wire.get("text"))
            citations = wire.get("citations")
            for citation in citations if isinstance(citations, list) else ():
                self._cite(block, citation)
        elif block.kind == "reasoning":
            self._thinking(block, wire.get("thinking"))
            self._sign(block, wire.get("signature"))
        elif block.kind == "result":
            self._result(wire)

    def _block_of(self, index: Hashable, wire: dict[str, Any]) -> OpenBlock:
        """Creates the block of a start, with its id."""
        kind = wire["type"]
        if kind in TOOL_USES:
            return OpenBlock(
                "tool",
                self._blocks.fresh_id(wire.get("id") or f"call_{_number(index)}"),
                name=wire["name"] if isinstance(wire.get("name"), str) else "",
                wire_id=str(wire.get("id")),
                provider_executed=kind != "tool_use",
                # Tools of an MCP server are not in the request, so the caller knows neither name nor schema.
                dynamic=kind == "mcp_tool_use",
                metadata=_call_metadata(wire),
                wire=wire,
            )
        if kind == "text":
            return OpenBlock("text", self._blocks.fresh_id(_number(index)), wire=wire)
        if kind in ("thinking", "redacted_thinking"):
            redacted = {KEY: {"redacted_data": wire.get("data")}} if kind == "redacted_thinking" else None
            return OpenBlock("reasoning", self._blocks.fresh_id(_number(index)), metadata=redacted, wire=wire)
        if kind.endswith("_tool_result"):
            return OpenBlock("result", wire=wire)
        return OpenBlock("custom", wire=dict(wire))

    def _block_stop(self, index: Hashable) -> None:
        block = self._opened.get(index)
        if block is None:
            if index not in self._seen:
                self._orphan(index, "content_block_stop")
        elif block.is_client_call and not block.parts and not block.wire.get("input"):
            # The token limit may have been reached before its first argument.
            self._blocks.hold_back(index)
        else:
            self._blocks.close(index)

    def _closing(self, block: OpenBlock) -> Metadata | None:
        if block.kind == "text":
            return {KEY: {"citations": block.citations}} if block.citations else None
        if block.kind == "reasoning":
            return _reasoning_metadata(block)
        if block.kind == "tool":
            given = block.wire.get("input")
            # The start had the complete input.
            if given and not block.parts:
                self._blocks.input(block, _COMPACT.encode(given).decode())
        elif block.kind == "custom":
            grown = {name: "".join(pieces) for name, pieces in block.grown.items()}
            self.out.append(Custom(f"{KEY}.{block.type}", {KEY: block.wire | grown}))
        return None

    def _result(self, wire: dict[str, Any]) -> None:
        """Emits the result of a tool that the vendor ran; the start of its block is complete."""
        content = wire.get("content")
        failed = wire.get("is_error") is True or (
            isinstance(content, dict) and str(content.get("type")).endswith("_error")
        )
        rest = {k: v for k, v in wire.items() if k not in ("tool_use_id", "content", "is_error")}
        # A result that was sent before has given its sources already.
        first = self._blocks.result(
            wire.get("tool_use_id"),
            content,
            name=wire["type"].removesuffix("_tool_result"),
            is_error=failed,
            metadata={KEY: rest},
        )
        if first and wire["type"] == "web_search_tool_result" and isinstance(content, list):
            for hit in content:
                source = source_of_hit(hit, self._blocks.source_id())
                if source is not None:
                    self.out.append(source)

    # Deltas.

    def _block_delta(self, index: Hashable, block: OpenBlock | None, delta: WireDelta) -> None:
        """Handles all deltas except text of an open text block."""
        if block is None:
            block = self._orphaned(index, delta)
            if block is None:
                return
        match delta.type, block.kind:
            case "input_json_delta", "tool":
                if delta.partial_json:
                    self._blocks.input(block, delta.partial_json)
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
            # Only deltas with content are reported. Unknown ones are new features, for which the union has no
            # event.
            case (("input_json_delta" | "thinking_delta" | "text_delta"), _):
                self.defect(f"a {delta.type} was sent for block {index} of type {block.type}")

    def _text(self, block: OpenBlock, text: Any) -> None:
        if isinstance(text, str) and text:
            self._blocks.delta(block, text)

    def _thinking(self, block: OpenBlock, text: Any, tokens: Any = None) -> None:
        """Adds thinking. If its text is omitted, each delta has an estimate of its tokens.

        The sum goes to the end of the block, because a delta without text has no use.
        source: anthropic 2.12.0, `BetaThinkingDelta.estimated_tokens`
        """
        metadata = None
        if tokens is not None and (estimate := token_count(tokens)):
            block.thought += estimate
            metadata = {KEY: {"estimated_tokens": estimate}}
        if isinstance(text, str) and text:
            self._blocks.delta(block, text, metadata)

    def _sign(self, block: OpenBlock, signature: Any) -> None:
        # An empty signature does not replace an earlier one.
        if isinstance(signature, str) and signature:
            block.signature = signature

    def _cite(self, block: OpenBlock, citation: Any) -> None:
        if isinstance(citation, dict):
            citation = self.encodable(citation)
            block.citations.append(citation)
            self._blocks.retain(block, held_size(citation))
            self.out.append(source_of_citation(citation, self._blocks.source_id()))

    def _extend(self, block: OpenBlock) -> None:
        """Extends a block that only this vendor has, such as compaction, field by field."""
        try:
            delta = self.untyped_payload()["delta"]
        except RecursionError:
            self.defect(f"a delta of a {block.type} block could not be decoded: it is nested too deeply")
            return
        for name, value in delta.items():
            if name != "type" and value is not None:
                known = block.wire.get(name)
                if isinstance(known, str) and isinstance(value, str):
                    # Joined at the end, because appending would copy the text for each piece.
                    block.grown.setdefault(name, [known]).append(value)
                else:
                    block.grown.pop(name, None)
                    block.wire[name] = value
                self._blocks.retain(block, held_size(value))

    def _orphaned(self, index: Hashable, delta: WireDelta) -> OpenBlock | None:
        """Opens a block for text without one, so that no text is lost; other deltas get none."""
        known = ("input_json_delta", "signature_delta", "citations_delta")
        if delta.type in known or delta.text or delta.thinking:
            self._orphan(index, str(delta.type))
        kind = "text" if delta.text else "thinking" if delta.thinking else None
        if kind is None or delta.type in known:
            return None
        self._block_start(index, {"type": kind})
        return self._opened.get(index)

    def _orphan(self, index: Hashable, what: str) -> None:
        self._blocks.orphan(index, f"a {what} was sent for block {index}, which is not open")


def _number(index: Hashable) -> str:
    # Blocks inside `message_start` have their own numbering.
    return str(index[-1] if isinstance(index, tuple) else 0 if index is None else index)


def _call_metadata(wire: dict[str, Any]) -> Metadata | None:
    """Returns further fields of a tool's block, and the type of a call that the vendor runs."""
    own = _OF_TOOL_USE if wire["type"] == "tool_use" else _OF_OTHER_USE
    if wire.keys() <= own:
        return None
    rest = {key: value for key, value in wire.items() if key not in own}
    return {KEY: rest}


def _reasoning_metadata(block: OpenBlock) -> Metadata | None:
    """Returns the signature to send back, and the number of reasoning tokens."""
    found: dict[str, Any] = {}
    if block.signature:
        found["signature"] = block.signature
    if block.thought:
        found["estimated_tokens"] = block.thought
    return {KEY: found} if found else None
