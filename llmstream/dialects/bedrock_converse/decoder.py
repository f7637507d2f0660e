"""Decodes the stream of one Converse response into events."""

from __future__ import annotations

import base64
import sys
from collections.abc import Hashable, Iterator
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.bedrock_converse.wire import (
    FINISH_METADATA,
    FINISH_REASONS,
    KEY,
    SERVER_TOOL,
    WireDelta,
    WireEvent,
    WireReasoning,
    WireStop,
    converse_frames,
    decode_event,
    decode_plain_event,
    read_usage,
    source_of_citation,
)
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.json_text import encoded_json, json_object
from llmstream.dialects.payload_size import held_size, most_held
from llmstream.dialects.wire_values import objects_in
from llmstream.errors import LimitExceeded, LLMStreamError
from llmstream.events import File, FinishReason, Metadata, ReasoningDelta, TextDelta, ToolInputDelta
from llmstream.framing.aws_event_stream import encode_message
from llmstream.grammar import TRUNCATING

__all__ = ["BedrockConverseDecoder", "streamed_form"]

_COMPACT = msgspec.json.Encoder()
# Fields of the start of a call that have a place in our events.
_OF_TOOL_USE: Final = frozenset({"toolUseId", "name"})
# Memory of an entry in a CPython list.
_SLOT_BYTES: Final = 8


class OpenBlock(Block, eq=False):
    """A content block: text, reasoning, a call, a result, or an image.

    wire:       fields from `contentBlockStart`
    pieces:     of a result, as the wire has them
    data:       bytes of an image in base64, piece by piece; or of redacted reasoning
    url, owner: URL of an image in a bucket, and the account that owns the bucket
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
        """Adds a piece of the signature; False if it repeats the complete signature."""
        if len(piece) == self.signature_size and piece == "".join(self.signatures):
            return False
        self.signatures.append(piece)
        self.signature_size += len(piece)
        return True

    @property
    def end_metadata(self) -> Metadata | None:
        """Returns metadata of text or reasoning that has to be sent back."""
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
        """Returns the image of the block; None if it is empty.

        raises: ValueError for invalid base64
        """
        media_type = f"image/{self.wire.get('format') or 'png'}"
        if self.url:
            owned = None if self.owner is None else {KEY: {"bucket_owner": self.owner}}
            return File(media_type, self.url, owned)
        if not self.data:
            return None
        return File(media_type, base64.b64decode(_joined_base64(self.data), validate=True))


class BedrockConverseDecoder(PayloadDecoder[WireEvent]):
    """Decodes one response of ConverseStream.

    Text and reasoning have their index as id, tool inputs the id of their call. Calls, results and images
    have a start on the wire; text and reasoning usually open with their first delta. The response is
    complete once `messageStop` has arrived; finish waits for `metadata`, which usually follows it.
    """

    def __init__(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> None:
        framing = converse_frames(provider=provider, max_bytes=limits.max_event_bytes)
        super().__init__(framing, decode_event, provider=provider, include_raw=include_raw, limits=limits)
        self._blocks = Blocks(self, OpenBlock, key=KEY, closing=self._closing)
        self._opened = self._blocks.opened
        # Citations that arrived before their text.
        self._early_citations: dict[Hashable, list[dict[str, Any]]] = {}
        self._raw_reason: str | None = None
        self._counted = False
        self._defective = False
        self._of_finish: dict[str, Any] = {}

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes events. A measured hot loop: a piece of an open text or call becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        decode, out, opened, misses = decode_plain_event.decode, self.out, self._opened, 0
        growing: OpenBlock | None = None  # a call whose latest fragments are not counted yet
        most = 0
        for payload in payloads:
            # Outside of blocks nothing fits, and after the end nothing counts.
            if opened and not self.complete:
                try:
                    event = decode(payload).content_block_delta
                except UNREADABLE:
                    misses += 1
                else:
                    block, delta = opened.get(event.content_block_index), event.delta
                    if block is None:
                        pass
                    elif block.kind == "text":
                        if (text := delta.text) and delta.tool_use is None:
                            out.append(TextDelta(text, block.id))
                            continue
                    elif block.kind == "tool" and (given := delta.tool_use) is not None:
                        if block is not growing:
                            most = most or most_held(payloads)
                            growing = self.growing(block, growing, most)
                        if growing is not None and given.input and delta.text is None:
                            block.parts.append(given.input)
                            out.append(ToolInputDelta(given.input, block.id))
                            continue
            self._read_other(payload, growing)
            growing = None
            if self.done:
                return
        self._end_plain(growing, misses, len(payloads))

    def on(self, wire: WireEvent) -> None:
        """Maps one event. Text deltas, the most frequent ones, are checked first."""
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
        """Ends the input; `messageStop` without `metadata` completes the response."""
        if self.complete:
            self.finish()
        else:
            self._release_citations()

    def fail(self, error: LLMStreamError) -> None:
        """Ends the stream with an error; citations held for their text are emitted first."""
        self._release_citations()
        super().fail(error)

    def defect(self, message: str) -> None:
        """Reports an event that could not be decoded; the finish reason depends on it."""
        self._defective = True
        super().defect(message)

    # End of the message.

    def _message_stop(self, wire: WireStop) -> None:
        self._raw_reason = wire.stop_reason
        self.complete = True
        if wire.additional_model_response_fields is not None:
            self._of_finish["additional_model_response_fields"] = wire.additional_model_response_fields
        # Calls without input were held until it is known whether the token limit has cut them.
        if self._reason() not in TRUNCATING:
            self._blocks.release()
        # Each of the two events may come first, and the finish has the values of both.
        if self._counted:
            self.finish()

    def _metadata(self, wire: dict[str, Any]) -> None:
        """Stores usage and metrics; in recordings they also come before `messageStop`."""
        usage = wire.get("usage")
        if isinstance(usage, dict):
            self.reported_usage = read_usage(usage)
        for name, ours in FINISH_METADATA.items():
            if wire.get(name) is not None:
                self._of_finish[ours] = wire[name]
        self._counted = True
        if self.complete:
            self.finish()

    def finish(self) -> None:
        """Closes open blocks, then emits finish."""
        reason = self._reason()
        self._release_citations()
        if self._blocks.end(reason) and self._defective:
            # An incomplete input with an error leaves no other reason.
            reason = "error"
        metadata = {KEY: self._of_finish} if self._of_finish else None
        self._blocks.finish(reason, self._raw_reason, metadata)

    def _reason(self) -> FinishReason:
        return "unknown" if self._raw_reason is None else FINISH_REASONS.get(self._raw_reason, "other")

    # Start and end of blocks.

    def _block_start(self, index: Hashable, start: dict[str, Any] | None) -> None:
        if start is not None and type(wire := start.get("toolUse")) is dict:
            # Without a pattern of a dict, which takes 2 % of all instructions of a call.
            self._tool_start(index, wire)
            return
        match start:
            case {"toolResult": dict(wire)}:
                self._blocks.open(index, OpenBlock("result", wire=wire), held=self.held_of(wire))
            case {"image": dict(wire)}:
                self._blocks.open(index, OpenBlock("image", wire=wire), held=self.held_of(wire))

    def _tool_start(self, index: Hashable, wire: dict[str, Any]) -> None:
        known = self._opened.get(index)
        if known is not None and known.kind == "tool" and known.wire == wire and not known.parts:
            # Some gateways send a start twice.
            return
        self._blocks.close_prose()
        # A missing id or name is no reason to lose the call: the name is checked where it would run.
        wire_id, name = wire.get("toolUseId"), wire.get("name")
        rest = {}
        if not wire.keys() <= _OF_TOOL_USE:  # rare, and a comprehension takes longer than the comparison
            rest = {key: value for key, value in wire.items() if key not in _OF_TOOL_USE}
        block = OpenBlock(
            "tool",
            self._blocks.fresh_id(wire_id or f"call_{0 if index is None else index}"),
            name=name if isinstance(name, str) else "",
            wire_id=str(wire_id),
            provider_executed=wire.get("type") == SERVER_TOOL,
            metadata={KEY: rest} if rest else None,
            wire=wire,
        )
        self._blocks.open(index, block, held=self.held_of(wire))

    def _prose(self, index: Hashable, kind: str) -> OpenBlock | None:
        """Returns the block of text or reasoning, opened if needed."""
        block = self._opened.get(index)
        if block is not None and block.kind == kind:
            return block
        if block is not None and block.kind not in ("text", "reasoning"):
            self._blocks.orphan(index, f"{kind} was sent for block {index} of kind {block.kind}")
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
            # The token limit may have been reached before its first argument.
            self._blocks.hold_back(index)
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
        """Emits the result of a tool that the vendor ran."""
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

    # Deltas.

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
            self._blocks.orphan(index, f"tool input was sent for block {index}, which is not an open call")
            return
        self._blocks.input(block, fragment)

    def _citation(self, index: Hashable, citation: dict[str, Any]) -> None:
        block = self._opened.get(index)
        # A citation may come before the first delta of its text, and belongs into the metadata of that block.
        self._early_citations.setdefault(index, []).append(citation)
        self.hold(held_size(citation))
        if block is None:
            self._blocks.release()
        elif block.kind == "text":
            self._cite_all(index, block)

    def _cite_all(self, index: Hashable, block: OpenBlock | None = None) -> None:
        """Emits the sources of an index; those of a text also go into its metadata."""
        for citation in self._early_citations.pop(index, ()):
            if block is not None:
                block.citations.append(citation)
            self.out.append(source_of_citation(citation, self._blocks.source_id()))

    def _release_citations(self) -> None:
        """Emits citations whose text never arrived."""
        for index in list(self._early_citations):
            self._cite_all(index)

    def _piece(self, index: Hashable, pieces: Any) -> None:
        block = self._opened.get(index)
        if block is None or block.kind != "result":
            self._blocks.orphan(
                index, f"a piece of a result was sent for block {index}, which is not an open result"
            )
            return
        block.pieces.extend(pieces if isinstance(pieces, list) else [pieces])
        self._grow(block, len(_COMPACT.encode(pieces)), held_size(pieces))

    def _image_piece(self, index: Hashable, delta: dict[str, Any]) -> None:
        block = self._opened.get(index)
        if block is None or block.kind != "image":
            self._blocks.orphan(
                index, f"a piece of an image was sent for block {index}, which is not an open image"
            )
            return
        match delta.get("error"):
            case {"message": message}:
                self.defect(f"the vendor could not generate an image: {message}")
        match delta.get("source"):
            case {"bytes": str(data)}:
                self._gather(block, data)
            case {"s3Location": {"uri": str(uri), **rest}}:
                block.url, block.owner = uri, rest.get("bucketOwner")

    def _gather(self, block: OpenBlock, data: str) -> None:
        block.data.append(data)
        self._grow(block, len(data), sys.getsizeof(data) + _SLOT_BYTES)

    def _grow(self, block: OpenBlock, size: int, held: int) -> None:
        """Limits the pieces of a block to the size of one event, which could hold all of them."""
        block.size += size
        self._blocks.retain(block, held)
        # Bounds what a stream of small pieces can add up to.
        if block.size > self.limits.max_event_bytes:
            limit = self.limits.max_event_bytes
            self.fail(LimitExceeded(f"block {block.id or block.kind!r} is longer than {limit} bytes"))


def _joined_base64(pieces: list[str]) -> str:
    """Joins pieces of base64; a single piece is returned unchanged."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        # Each piece has its own padding, so the texts cannot be joined.
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except ValueError:
        return "".join(pieces)


# A complete response: the body of Converse as the messages of ConverseStream, so that one decoder reads both.
# source: Amazon Bedrock API reference, Converse and ConverseStream


_OF_STOP: Final = ("stopReason", "additionalModelResponseFields")
_OF_METADATA: Final = ("usage", "metrics", "trace", "performanceConfig", "serviceTier")


def streamed_form(body: bytes) -> bytes:
    """The messages of a stream with the same content; none for a body that is no response of Converse."""
    response = json_object(body)
    if response is None or "output" not in response:
        return _frame("unreadable", body)
    output = response["output"]
    message = output.get("message") if isinstance(output, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    frames = [_message("messageStart", {"role": "assistant"})]
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict):
            frames += [
                _message(name, {**members, "contentBlockIndex": index}) for name, members in _streamed(block)
            ]
            frames.append(_message("contentBlockStop", {"contentBlockIndex": index}))
    if response.get("stopReason") is not None:
        frames.append(_message("messageStop", _selected(response, _OF_STOP)))
        frames.append(_message("metadata", _selected(response, _OF_METADATA)))
    return b"".join(frames)


def _streamed(block: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Start and deltas of a block."""
    match block:
        case {"toolUse": {"input": given, **fields}}:
            yield "contentBlockStart", {"start": {"toolUse": fields}}
            # An empty input stays away, as in a stream: the token limit may have cut it.
            if given:
                yield _delta({"toolUse": {"input": encoded_json(given).decode()}})
        case {"toolUse": dict(begun)}:
            yield "contentBlockStart", {"start": {"toolUse": begun}}
        case {"toolResult": {"content": pieces, **about}}:
            yield "contentBlockStart", {"start": {"toolResult": about}}
            yield _delta({"toolResult": pieces})
        case {"image": dict(image)}:
            start = {name: value for name, value in image.items() if name not in ("source", "error")}
            yield "contentBlockStart", {"start": {"image": start}}
            yield _delta({"image": _selected(image, ("source", "error"))})
        case {"reasoningContent": {"reasoningText": dict(thought)}}:
            for name in ("text", "signature"):
                if thought.get(name):
                    yield _delta({"reasoningContent": {name: thought[name]}})
        case {"reasoningContent": {"redactedContent": data}}:
            yield _delta({"reasoningContent": {"redactedContent": data}})
        case {"citationsContent": dict(cited)}:
            for piece in objects_in(cited.get("content")):
                yield _delta({"text": str(piece.get("text") or "")})
            for citation in objects_in(cited.get("citations")):
                yield _delta({"citation": citation})
        case {"text": str(text)}:
            yield _delta({"text": text})


def _delta(delta: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "contentBlockDelta", {"delta": delta}


def _selected(holder: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: holder[name] for name in names if holder.get(name) is not None}


def _message(name: str, members: dict[str, Any]) -> bytes:
    return _frame(name, encoded_json(members))


def _frame(name: str, payload: bytes) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_message(headers, payload)
