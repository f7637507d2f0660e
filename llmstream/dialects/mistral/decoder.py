"""Decodes a Mistral chat stream into events.

The wire marks neither blocks nor the end of a call: text and thinking open with their first fragment, calls
end with the finish reason, and `finish` is held until `[DONE]` or the end of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.media import read_data_uri
from llmstream.dialects.mistral.wire import (
    KEY,
    CallFragment,
    Choice,
    Chunk,
    decode_chunk,
    decode_plain_chunk,
    finish_reason,
    read_usage,
)
from llmstream.dialects.payload_size import held_size
from llmstream.dialects.tool_calls import ToolCallTracker, mint_call_id
from llmstream.dialects.wire_values import UsageCounts, unix_time
from llmstream.errors import DecodeError, LimitExceeded
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    Metadata,
    ResponseMetadata,
    Source,
    TextDelta,
    Usage,
)
from llmstream.framing.sse import SSEDecoder
from llmstream.grammar import TRUNCATING

__all__ = ["MistralDecoder"]


class MistralDecoder(PayloadDecoder[Chunk]):
    """Decodes one response of the chat API; of several choices the first.

    new_call_id: makes ids for calls without one
    """

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        framing = SSEDecoder(limits.max_event_bytes)
        super().__init__(framing, decode_chunk, provider=provider, include_raw=include_raw, limits=limits)
        self._blocks = Blocks(self, Block, key=KEY, closing=self._closing)
        self._tools = ToolCallTracker(limits=limits, new_id=new_call_id, ids=self._blocks.ids)
        # Of the open reasoning.
        self._signature: str | None = None
        self._named = False
        self._answered = False
        self._raw_reason: str | None = None
        self._counts = UsageCounts(read_usage, self.hold)
        self._beside: dict[str, Any] = {}

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes chunks. A measured hot loop: a piece of the open text becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        decode, out, blocks, misses = decode_plain_chunk.decode, self.out, self._blocks, 0
        read_other = self._read_one
        for payload in payloads:
            text_id = blocks.text_id
            # Outside of an open text the chunk may name the response, or begin a block.
            if text_id is not None and self._named and self._raw_reason is None:
                try:
                    content = decode(payload).choices[0].delta.content
                except UNREADABLE:
                    misses += 1
                else:
                    if content:
                        out.append(TextDelta(content, text_id))
                    continue
            read_other(payload)
            if self.done:
                return
        if misses or self._misses:
            self._count_misses(misses, len(payloads))

    def on(self, wire: Chunk) -> None:
        """Maps one chunk to events."""
        if not self._named:
            self._name(wire)
        if wire.usage is not None:
            self._counts.add(self.encodable(wire.usage))
        if not wire.choices:
            self._maybe_fail(wire)
            return
        if wire.error:
            self._maybe_fail(wire)
        for choice in wire.choices:
            # The other choices, of a request with `n`, are not read.
            if choice is not None and not choice.index and not self.done:
                self._on_choice(choice)

    @property
    def usage(self) -> Usage:
        """Usage that the vendor has reported so far."""
        return self._counts.usage

    def on_done(self) -> None:
        """Ends the stream, also one without a finish reason."""
        self.end_at("[DONE]", has_content=self._answered)

    def _name(self, chunk: Chunk) -> None:
        """Emits id, model and time of the response, once."""
        model = chunk.model if isinstance(chunk.model, str) and chunk.model else None
        number = str(chunk.id) if isinstance(chunk.id, (str, int)) and chunk.id else None
        if model is None and number is None:
            return
        self._named = True
        self.out.append(ResponseMetadata(model, number, unix_time(chunk.created)))

    def _maybe_fail(self, chunk: Chunk) -> None:
        """Fails on an error instead of a chunk, in any of the vendor's forms; ignores other objects."""
        error = {"error": chunk.error, "message": chunk.message, "detail": chunk.detail}
        message = chunk.message if isinstance(chunk.message, str) else None
        if not (chunk.error or chunk.detail or message or chunk.object == "error"):
            return
        error |= {"type": chunk.type, "code": chunk.code, "status": chunk.raw_status_code}
        self.fail(error_from_value(encodable_value(error), provider=self.provider))

    def _on_choice(self, choice: Choice) -> None:
        delta = choice.delta
        if delta is None and not self._answered:
            # A complete response where chunks were expected.
            delta = choice.message
        if choice.logprobs is not None:
            self._blocks.add_logprobs(choice.logprobs)
        if choice.prompt_logprobs is not None:
            self._set_beside("prompt_logprobs", choice.prompt_logprobs)
        if delta is not None:
            self._answered = True
            if delta.metadata is not None:
                self._set_beside("metadata", delta.metadata)
            content = delta.content
            if delta.reasoning_content:
                self._content([{"type": "thinking", "thinking": delta.reasoning_content}])
            if isinstance(content, str):
                # The most frequent chunk by far: a fragment of the open text.
                if content and choice.logprobs is None and (text_id := self._blocks.text_id) is not None:
                    self.out.append(TextDelta(content, text_id))
                else:
                    self._blocks.text(content)
            elif content is not None:
                self._content(content)
            if delta.tool_calls and not self.done:
                self._on_calls(delta.tool_calls)
        if choice.finish_reason and not self.done:
            self._on_reason(choice.finish_reason)

    def _set_beside(self, name: str, value: Any) -> None:
        """Stores metadata of the response; objects of several chunks are merged."""
        if not value:
            return
        value = self.encodable(value)
        known = self._beside.get(name)
        if name == "metadata" and isinstance(known, dict) and isinstance(value, dict):
            self.hold(sum(held_size((name, one)) for name, one in value.items() if name not in known))
            # Safe, because the first of them is not shared.
            known.update(value)
        else:
            self._beside[name] = value

    def _on_calls(self, fragments: Iterable[CallFragment | None]) -> None:
        tools = self._tools
        tools.next_chunk()
        for fragment in fragments:
            if fragment is None:
                continue
            started, function = tools.started, fragment.function
            try:
                events = tools.add(
                    index=fragment.index,
                    id=fragment.id,
                    name=function.name if function else None,
                    arguments=function.arguments if function else None,
                )
            except LimitExceeded as error:
                self.fail(error)
                return
            except DecodeError as error:
                self.defect(error.message)
                continue
            # The events of the call are not in `out` yet: text closes before an input opens.
            if tools.started != started:
                self._blocks.close_prose()
            self.out.extend(events)

    def _on_reason(self, raw: str) -> None:
        """Completes the response; usage may follow with another choice."""
        # The first one counts: a later chunk may repeat it beside the usage.
        if self._raw_reason is None:
            self._raw_reason = raw
        self.complete = True
        self._end_blocks()

    def _end_blocks(self) -> None:
        """Closes what is open. A call that the token limit cut off is emitted as invalid.

        This wire sends a call in one piece, so no later chunk completes it.
        """
        reason = finish_reason(self._raw_reason)
        started = self._tools.started
        # A call in one piece is complete even in a response that was cut after it.
        events = self._tools.finish(
            truncated=reason in TRUNCATING, in_one_piece=True, keep_cut=reason == "length"
        )
        if self._tools.started != started:
            self._blocks.close_prose()
        self.out.extend(events)
        self._blocks.close_prose()

    def finish(self) -> None:
        """Closes open blocks, then emits finish."""
        self._end_blocks()
        if self._tools.nameless():
            self.defect("a tool call has no name. It was ignored.")
        raw = self._raw_reason
        reason = finish_reason(raw)
        # The tracker has emitted the calls, and the blocks know of none; the finish reason depends on them.
        self._blocks.client_called = self._tools.called > 0
        if reason == "error":
            error = {"message": f"the vendor ended the response with {raw!r}", "code": raw}
            self.out.append(ErrorEvent(error_from_value(error, provider=self.provider).info))
        self._blocks.finish(reason, raw, {KEY: self._beside} if self._beside else None)

    # Content: text, or a list of text, thinking, references and files.

    def _content(self, content: object) -> None:
        """Maps a list of parts, or a text."""
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self._blocks.text(part)
            elif isinstance(part, dict):
                self._part(part)
            else:
                self.defect(f"content is neither text nor a list of parts: {str(content)[:80]!r}")

    def _part(self, part: dict[str, Any]) -> None:
        kind = part.get("type")
        if kind in ("text", None) and isinstance(part.get("text"), str):
            self._blocks.text(part["text"])
        elif kind == "thinking":
            self._thinking(part)
        elif kind == "reference":
            self._references(part)
        elif kind == "tool_reference":
            self._page(part)
        elif kind in ("image_url", "document_url"):
            self._file(str(kind), part)
        else:
            self.out.append(Custom(f"{KEY}.{kind}", {KEY: part}))

    # Thinking.

    def _thinking(self, part: dict[str, Any]) -> None:
        """Adds a fragment of thinking: text, references, and possibly a signature.

        `closed` is ignored: it is true on every fragment.
        """
        for piece in _fragments(part.get("thinking")):
            if isinstance(piece, str):
                if piece and self._signature is not None:
                    # A signature ends its block.
                    self._blocks.close_prose("reasoning")
                self._blocks.reasoning(piece)
            elif piece.get("type") == "reference":
                self._references(piece)
            elif piece.get("type") == "tool_reference":
                self._page(piece)
        signature = part.get("signature")
        if isinstance(signature, str) and signature:
            # A signature may arrive without any text, and must be sent back too.
            self._blocks.prose("reasoning")
            self._signature = signature

    def _closing(self, block: Block) -> Metadata | None:
        """Returns the signature of the reasoning, to be sent back."""
        if block.kind != "reasoning" or self._signature is None:
            return None
        metadata: Metadata = {KEY: {"signature": self._signature}}
        self._signature = None
        return metadata

    # References and files.

    def _references(self, part: dict[str, Any]) -> None:
        """Emits sources by their numbers in the request."""
        numbers = part.get("reference_ids")
        for place, number in enumerate(numbers if isinstance(numbers, list) else []):
            if isinstance(number, (int, str)):
                metadata = {KEY: {"reference_ids": numbers, "reference": place}}
                name = self._blocks.source_id()
                self.out.append(Source("document", name, title=str(number), provider_metadata=metadata))

    def _page(self, part: dict[str, Any]) -> None:
        """Emits a page that a tool of the vendor found."""
        url, title, name = part.get("url"), part.get("title"), self._blocks.source_id()
        url = url if isinstance(url, str) and url else None
        title = title if isinstance(title, str) and title else None
        kind: Literal["url", "document"] = "document" if url is None else "url"
        self.out.append(Source(kind, name, url, title, provider_metadata={KEY: part}))

    def _file(self, kind: str, part: dict[str, Any]) -> None:
        inner = part.get(kind)
        url = inner.get("url") if isinstance(inner, dict) else inner
        usual = "image/*" if kind == "image_url" else "application/pdf"
        if not isinstance(url, str) or ":" not in url:
            self.defect(f"a part of type {kind} has no URL")
            return
        try:
            inline = read_data_uri(url)
        except ValueError as error:
            self.defect(str(error))
            return
        beside = {**part, **(inner if isinstance(inner, dict) else {})}
        found = {name: beside[name] for name in ("document_name", "detail") if beside.get(name)}
        metadata: Metadata | None = {KEY: found} if found else None
        if inline is None:
            self.out.append(File(usual, url, metadata))
        else:
            self.out.append(File(inline[0] or usual, inline[1], metadata))


def _fragments(thinking: object) -> Iterator[str | dict[str, Any]]:
    """Yields the pieces of thinking: text, and other parts."""
    parts: Iterable[object] = thinking if isinstance(thinking, list) else [thinking]
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            text = part.get("text")
            if isinstance(text, str):
                yield text
            else:
                yield part
