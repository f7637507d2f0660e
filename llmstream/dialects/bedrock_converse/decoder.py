"""Decodes the stream of one Converse answer into events."""

from __future__ import annotations

import base64
import sys
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.bedrock_converse.wire import (
    FINISH_METADATA,
    FINISH_REASONS,
    KEY,
    SERVER_TOOL,
    ConverseFrames,
    WireDelta,
    WireEvent,
    WireReasoning,
    WireStop,
    decode_event,
    read_usage,
    source_of_citation,
)
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import PayloadDecoder, held_size
from llmstream.errors import LimitExceeded, LLMStreamError
from llmstream.events import File, FinishReason, Metadata, ReasoningDelta, TextDelta
from llmstream.grammar import TRUNCATING

__all__ = ["BedrockConverseDecoder"]

_COMPACT = msgspec.json.Encoder()
_SLOT_BYTES: Final = 8  # a place in a list


class OpenBlock(Block, eq=False):
    """A content block. Beside text, reasoning and calls there are results and images.

    wire:       what `contentBlockStart` has of it
    pieces:     of a result, as the wire has them
    data:       bytes of an image in base64, piece by piece; or of redacted reasoning
    url, owner: where an image lies instead, and the account whose bucket that is
    signatures, signature_size: pieces of the signature of reasoning, and their length together
    citations:  of a text
    """

    wire: dict[str, Any] = msgspec.field(default_factory=dict)
    pieces: list[Any] = msgspec.field(default_factory=list)
    data: list[str] = msgspec.field(default_factory=list)
    url: str = ""
    owner: Any = None
    signatures: list[str] = msgspec.field(default_factory=list)
    signature_size: int = 0
    citations: list[dict[str, Any]] = msgspec.field(default_factory=list)

    def sign(self, piece: str) -> bool:
        """Takes a piece of the signature; False where it repeats all of it."""
        if len(piece) == self.signature_size and piece == "".join(self.signatures):
            return False
        self.signatures.append(piece)
        self.signature_size += len(piece)
        return True

    @property
    def end_metadata(self) -> Metadata | None:
        """What the vendor wants back of a text or of reasoning."""
        found: dict[str, Any] = {}
        if self.citations:
            found["citations"] = self.citations
        if self.signatures:
            found["signature"] = "".join(self.signatures)
        if self.data:
            found["redacted_data"] = _joined_base64(self.data)
        return {KEY: found} if found else None

    @property
    def file(self) -> File | None:
        """The image that a block is; None where nothing of it came.

        raises: ValueError for bytes that are no base64
        """
        media_type = f"image/{self.wire.get('format') or 'png'}"
        if self.url:
            owned = None if self.owner is None else {KEY: {"bucket_owner": self.owner}}
            return File(media_type, self.url, owned)
        if not self.data:
            return None
        return File(media_type, base64.b64decode(_joined_base64(self.data), validate=True))


class BedrockConverseDecoder(PayloadDecoder[WireEvent]):
    """One answer of ConverseStream.

    Text and reasoning have their index as id, tool inputs the id of their call. The wire starts calls,
    results and images; text and reasoning usually have no start: their first delta opens them. The
    answer is complete once `messageStop` came; finish waits for `metadata`, which usually follows it.
    """

    def __init__(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> None:
        framing = ConverseFrames(provider=provider, max_bytes=limits.max_event_bytes)
        super().__init__(framing, decode_event, provider=provider, include_raw=include_raw, limits=limits)
        self._blocks = Blocks(self, OpenBlock, key=KEY, closing=self._closing)
        self._opened = self._blocks.opened
        self._early_citations: dict[Hashable, list[dict[str, Any]]] = {}  # before the text that rests on them
        self._raw_reason: str | None = None
        self._counted = False
        self._defective = False
        self._of_finish: dict[str, Any] = {}

    def on(self, wire: WireEvent) -> None:
        """Turns one event into ours; the deltas of text, which are most of them, go first."""
        event = wire.content_block_delta
        if event is not None:
            delta = event.delta
            if delta is None or self.complete:
                return
            block = self._opened.get(event.content_block_index)
            if delta.text and block is not None and block.kind == "text":
                self.out.append(TextDelta(delta.text, block.id))
            else:
                self._block_delta(event.content_block_index, delta)
        elif wire.content_block_start is not None and not self.complete:
            self._block_start(wire.content_block_start.content_block_index, wire.content_block_start.start)
        elif wire.content_block_stop is not None and not self.complete:
            self._block_stop(wire.content_block_stop.content_block_index)
        elif wire.message_stop is not None:
            self._message_stop(wire.message_stop)
        elif wire.metadata is not None:
            self._metadata(wire.metadata)

    def end(self) -> None:
        """The body is over: `messageStop` without `metadata` is a complete answer."""
        if self.complete:
            self._finish()
        else:
            self._release_citations()

    def fail(self, error: LLMStreamError) -> None:
        """The stream cannot go on; citations that wait for their text are emitted first."""
        self._release_citations()
        super().fail(error)

    def defect(self, message: str) -> None:
        """A known event could not be read; reading goes on."""
        self._defective = True
        super().defect(message)

    # The message around the blocks.

    def _message_stop(self, wire: WireStop) -> None:
        self._raw_reason = wire.stop_reason
        self.complete = True
        if wire.additional_model_response_fields is not None:
            self._of_finish["additional_model_response_fields"] = wire.additional_model_response_fields
        if self._reason() not in TRUNCATING:
            self._blocks.release()
        if self._counted:
            self._finish()

    def _metadata(self, wire: dict[str, Any]) -> None:
        """Usage and measurements; recordings show them before `messageStop` as well."""
        usage = wire.get("usage")
        if isinstance(usage, dict):
            self.usage = read_usage(usage)
        for name, ours in FINISH_METADATA.items():
            if wire.get(name) is not None:
                self._of_finish[ours] = wire[name]
        self._counted = True
        if self.complete:
            self._finish()

    def _finish(self) -> None:
        reason = self._reason()
        self._release_citations()
        if self._blocks.end(reason) and self._defective:
            reason = "error"  # an input broken off beside an error leaves no other reason
        metadata = {KEY: self._of_finish} if self._of_finish else None
        self._blocks.finish(reason, self._raw_reason, metadata)

    def _reason(self) -> FinishReason:
        return "unknown" if self._raw_reason is None else FINISH_REASONS.get(self._raw_reason, "other")

    # Blocks begin and end.

    def _block_start(self, index: Hashable, start: dict[str, Any] | None) -> None:
        match start:
            case {"toolUse": dict(wire)}:
                self._tool_start(index, wire)
            case {"toolResult": dict(wire)}:
                self._blocks.open(index, OpenBlock("result", wire=wire), held=held_size(wire))
            case {"image": dict(wire)}:
                self._blocks.open(index, OpenBlock("image", wire=wire), held=held_size(wire))

    def _tool_start(self, index: Hashable, wire: dict[str, Any]) -> None:
        known = self._opened.get(index)
        if known is not None and known.kind == "tool" and known.wire == wire and not known.parts:
            return  # some gateways send a start twice
        self._blocks.close_prose()
        wire_id, name = wire.get("toolUseId"), wire.get("name")
        rest = {key: value for key, value in wire.items() if key not in ("toolUseId", "name")}
        block = OpenBlock(
            "tool",
            self._blocks.fresh_id(wire_id or f"call_{0 if index is None else index}"),
            name=name if isinstance(name, str) else "",
            wire_id=str(wire_id),
            provider_executed=wire.get("type") == SERVER_TOOL,
            metadata={KEY: rest} if rest else None,
            wire=wire,
        )
        self._blocks.open(index, block, held=held_size(wire))

    def _prose(self, index: Hashable, kind: str) -> OpenBlock | None:
        """The block of text or reasoning, opened where it is not."""
        block = self._opened.get(index)
        if block is not None and block.kind == kind:
            return block
        if block is not None and block.kind not in ("text", "reasoning"):
            self._blocks.orphan(index, f"{kind} came for block {index}, which is a {block.kind}")
            return None
        block = self._blocks.prose(kind, index)
        if block is not None and kind == "text":
            self._cite_all(index, block)
        return block

    def _block_stop(self, index: Hashable) -> None:
        block = self._opened.get(index)
        self._cite_all(index)
        if block is None:
            return
        if block.kind == "tool" and not block.provider_executed and not block.parts:
            self._blocks.hold_back(index)  # the token limit may have come before its first argument
        else:
            self._blocks.close(index)

    def _closing(self, block: OpenBlock) -> Metadata | None:
        if block.kind in ("text", "reasoning"):
            return block.end_metadata
        if block.kind == "result":
            self._result(block)
        elif block.kind == "image":
            self._image(block)
        return None

    def _result(self, block: OpenBlock) -> None:
        """A tool that the vendor ran has given its result."""
        rest = {key: value for key, value in block.wire.items() if key != "toolUseId"}
        self._blocks.result(
            block.wire.get("toolUseId"),
            block.pieces,
            name=str(rest.get("type") or "").removesuffix("_result"),
            is_error=rest.get("status") == "error",
            metadata={KEY: rest} if rest else None,
        )

    def _image(self, block: OpenBlock) -> None:
        try:
            file = block.file
        except ValueError:
            self.defect("an image is not base64")
            return
        if file is not None:
            self.out.append(file)

    # Blocks grow.

    def _block_delta(self, index: Hashable, delta: WireDelta) -> None:
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
            self._blocks.retain(block, sys.getsizeof(delta.signature) + _SLOT_BYTES)
        if delta.redacted_content:
            self._gather(block, delta.redacted_content)

    def _input(self, index: Hashable, given: Any) -> None:
        if given is None:
            return
        fragment = given if isinstance(given, str) else _COMPACT.encode(given).decode()
        if not fragment:
            return
        block = self._opened.get(index)
        if block is None or block.kind != "tool":
            self._blocks.orphan(index, f"tool input came for block {index}, which is no open call")
            return
        self._blocks.input(block, fragment)

    def _citation(self, index: Hashable, citation: dict[str, Any]) -> None:
        block = self._opened.get(index)
        self._early_citations.setdefault(index, []).append(citation)
        self.hold(held_size(citation))
        if block is None:
            self._blocks.release()
        elif block.kind == "text":
            self._cite_all(index, block)

    def _cite_all(self, index: Hashable, block: OpenBlock | None = None) -> None:
        """Emits the sources that came for an index; those of a text also go into its metadata."""
        for citation in self._early_citations.pop(index, ()):
            if block is not None:
                block.citations.append(citation)
            self.out.append(source_of_citation(citation, self._blocks.source_id()))

    def _release_citations(self) -> None:
        """Citations whose text has not come."""
        for index in list(self._early_citations):
            self._cite_all(index)

    def _piece(self, index: Hashable, pieces: Any) -> None:
        block = self._opened.get(index)
        if block is None or block.kind != "result":
            self._blocks.orphan(index, f"a piece of a result came for block {index}, which is no open result")
            return
        block.pieces.extend(pieces if isinstance(pieces, list) else [pieces])
        self._grow(block, len(_COMPACT.encode(pieces)), held_size(pieces))

    def _image_piece(self, index: Hashable, delta: dict[str, Any]) -> None:
        block = self._opened.get(index)
        if block is None or block.kind != "image":
            self._blocks.orphan(index, f"a piece of an image came for block {index}, which is no open image")
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
        self._grow(block, len(data), sys.getsizeof(data) + _SLOT_BYTES)

    def _grow(self, block: OpenBlock, size: int, held: int) -> None:
        """What a block gathers may not be longer than one event, which could have held all of it."""
        block.size += size
        self._blocks.retain(block, held)
        if block.size > self.limits.max_event_bytes:
            limit = self.limits.max_event_bytes
            self.fail(LimitExceeded(f"block {block.id or block.kind!r} is longer than {limit} bytes"))


def _joined_base64(pieces: list[str]) -> str:
    """The base64 of what the pieces hold together; one piece stays as it is."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except ValueError:
        return "".join(pieces)
