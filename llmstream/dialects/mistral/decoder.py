"""Reads a Mistral chat stream into events.

The wire marks neither blocks nor the end of a call: text and thinking open as they come, calls end
with the finish reason, and `finish` is held until `[DONE]` or the end of the body.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import LazyBlocks
from llmstream.dialects.decoder import held_size
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.media import read_data_uri
from llmstream.dialects.mistral.wire import (
    KEY,
    CallFragment,
    Choice,
    Chunk,
    decode_chunk,
    finish_reason,
    read_usage,
)
from llmstream.dialects.token_counts import UsageCounts
from llmstream.dialects.tool_calls import ToolCallTracker, mint_call_id
from llmstream.errors import DecodeError, IncompleteStream, LimitExceeded
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    Finish,
    Metadata,
    ReasoningStart,
    ResponseMetadata,
    Source,
    TextDelta,
    Usage,
)
from llmstream.events.types import merge_metadata
from llmstream.framing.sse import SSEDecoder

__all__ = ["MistralDecoder"]


# Parts of a Mistral answer's content list: text, thinking, references and files, as events.


class ContentDecoder(LazyBlocks[Chunk]):
    """Base of the decoder: `content` takes the content of one delta, where it is no plain text."""

    _signature: str | None = None
    _sources = 0

    def has_block(self, call_id: str) -> bool:
        """Whether a block or a source has this id."""
        if call_id.startswith("source-"):
            return True
        return call_id.isdecimal() and len(call_id) < 19 and int(call_id) < self._blocks

    def has_call(self, block_id: str) -> bool:
        """Whether a call has this id."""
        raise NotImplementedError

    def content(self, content: object) -> None:
        """A list of parts, or one; other things are a defect."""
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self.text(part)
            elif isinstance(part, dict):
                self._part(part)
            else:
                self.defect(f"content is neither text nor a list of parts: {str(content)[:80]!r}")

    def _part(self, part: dict[str, Any]) -> None:
        kind = part.get("type")
        if kind in ("text", None) and isinstance(part.get("text"), str):
            self.text(part["text"])
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

    # thinking

    def _thinking(self, part: dict[str, Any]) -> None:
        """A fragment of thinking: its text, what it refers to, and perhaps a signature.

        `closed` says nothing here: it is true on every fragment.
        """
        for words in _fragments(part.get("thinking")):
            if isinstance(words, str):
                if words and self._signature is not None:
                    self.end_reasoning()  # what was signed is over
                self.reasoning(words)
            elif words.get("type") == "reference":
                self._references(words)
            elif words.get("type") == "tool_reference":
                self._page(words)
        signature = part.get("signature")
        if isinstance(signature, str) and signature:
            if self._reasoning_id is None:
                self.end_text()
                self._reasoning_id = self.next_id()
                self.out.append(ReasoningStart(self._reasoning_id))
            self._signature = signature

    def end_reasoning(self, metadata: Metadata | None = None) -> None:
        """Closes the open reasoning with the signature that the vendor wants back."""
        if self._signature is not None and metadata is None:
            metadata = {KEY: {"signature": self._signature}}
        self._signature = None
        super().end_reasoning(metadata)

    # what stands beside

    def _references(self, part: dict[str, Any]) -> None:
        """What the answer rests on, by the numbers the request gave them."""
        numbers = part.get("reference_ids")
        for place, number in enumerate(numbers if isinstance(numbers, list) else []):
            if isinstance(number, (int, str)):
                kept: Metadata = {KEY: {"reference_ids": numbers, "reference": place}}
                name = self._source_id()
                self.out.append(Source("document", name, title=str(number), provider_metadata=kept))

    def _page(self, part: dict[str, Any]) -> None:
        """What a tool of the vendor found."""
        url, title, name = part.get("url"), part.get("title"), self._source_id()
        url = url if isinstance(url, str) and url else None
        title = title if isinstance(title, str) and title else None
        kind: Literal["url", "document"] = "document" if url is None else "url"
        self.out.append(Source(kind, name, url, title, provider_metadata={KEY: part}))

    def _file(self, kind: str, part: dict[str, Any]) -> None:
        held = part.get(kind)
        url = held.get("url") if isinstance(held, dict) else held
        usual = "image/*" if kind == "image_url" else "application/pdf"
        if not isinstance(url, str) or ":" not in url:
            self.defect(f"a part of type {kind} has no URL")
            return
        try:
            inline = read_data_uri(url)
        except ValueError as error:
            self.defect(str(error))
            return
        beside = {**part, **(held if isinstance(held, dict) else {})}
        said = {name: beside[name] for name in ("document_name", "detail") if beside.get(name)}
        kept: Metadata | None = {KEY: said} if said else None
        if inline is None:
            self.out.append(File(usual, url, kept))
        else:
            self.out.append(File(inline[0] or usual, inline[1], kept))

    # ids

    def next_id(self) -> str:
        """The next block id that no tool call has; past the cap on blocks the stream ends."""
        if self._blocks >= self.limits.max_blocks and not self.done:
            self.fail(LimitExceeded(f"the response holds more than {self.limits.max_blocks} blocks"))
        block_id = super().next_id()
        while self.has_call(block_id):
            block_id = super().next_id()
        return block_id

    def _source_id(self) -> str:
        self._sources += 1
        while self.has_call(f"source-{self._sources}"):
            self._sources += 1
        return f"source-{self._sources}"


def _fragments(thinking: object) -> Iterator[str | dict[str, Any]]:
    """What thinking says: text, or parts that are text or something else."""
    parts: Iterable[object] = thinking if isinstance(thinking, list) else [thinking]
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            words = part.get("text")
            if isinstance(words, str):
                yield words
            else:
                yield part


_YEAR_3000_S = 32503680000


class MistralDecoder(ContentDecoder):
    """One answer of the chat API; of several choices the first.

    new_call_id: names calls that come without an id
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
        self._tools = ToolCallTracker(limits=limits, new_id=new_call_id, reserved=self.has_block)
        self._named = False
        self._answered = False
        self._raw_reason: str | None = None
        self._counts = UsageCounts(read_usage, self.hold)
        self._beside: dict[str, Any] = {}

    def on(self, wire: Chunk) -> None:
        """Turns one chunk into events."""
        if not self._named:
            self._name(wire)
        if wire.usage is not None:
            self._counts.add(wire.usage if self._joiner is None else encodable_value(wire.usage))
        if not wire.choices:
            self._maybe_fail(wire)
            return
        if wire.error:
            self._maybe_fail(wire)
        for choice in wire.choices:
            if choice is not None and not choice.index and not self.done:
                self._on_choice(choice)

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._counts.usage

    @usage.setter
    def usage(self, usage: Usage) -> None:
        """The base begins with none; from then on the chunks say it."""

    def on_sentinel(self, payload: bytes) -> bool:
        """`[DONE]` ends the body; `null` says nothing."""
        text = payload.strip()
        if text.startswith(b"[DONE]"):
            self._on_done()
            return True
        return text == b"null"

    def end(self) -> None:
        """The body is over: finish, if the vendor gave a reason or `[DONE]`."""
        if self.complete:
            self._finish()

    def has_call(self, block_id: str) -> bool:
        """Whether a call has this id."""
        return block_id in self._tools.ids

    def _name(self, chunk: Chunk) -> None:
        """The response's names, once."""
        model = chunk.model if isinstance(chunk.model, str) and chunk.model else None
        number = str(chunk.id) if isinstance(chunk.id, (str, int)) and chunk.id else None
        if model is None and number is None:
            return
        created, when = chunk.created, None
        if isinstance(created, (int, float)) and 0 < created < _YEAR_3000_S:
            when = datetime.datetime.fromtimestamp(created, datetime.UTC)
        self._named = True
        self.out.append(ResponseMetadata(model, number, when))

    def _maybe_fail(self, chunk: Chunk) -> None:
        """An error in place of a chunk, in any of the vendor's forms; other things are no chunk of ours."""
        told = {"error": chunk.error, "message": chunk.message, "detail": chunk.detail}
        words = chunk.message if isinstance(chunk.message, str) else None
        if not (chunk.error or chunk.detail or words or chunk.object == "error"):
            return
        told |= {"type": chunk.type, "code": chunk.code, "status": chunk.raw_status_code}
        self.fail(error_from_value(encodable_value(told), provider=self.provider))

    def _on_choice(self, choice: Choice) -> None:
        delta = choice.delta
        if delta is None and not self._answered:
            delta = choice.message  # a whole answer where chunks were expected
        if choice.logprobs is not None:
            self.keep_logprobs(choice.logprobs, KEY)
        if choice.prompt_logprobs is not None:
            self._say_beside("prompt_logprobs", choice.prompt_logprobs)
        if delta is not None:
            self._answered = True
            if delta.metadata is not None:
                self._say_beside("metadata", delta.metadata)
            content = delta.content
            if delta.reasoning_content:
                self.content([{"type": "thinking", "thinking": delta.reasoning_content}])
            if type(content) is str:
                if content and self._text_id is not None and choice.logprobs is None:
                    self.out.append(TextDelta(content, self._text_id))
                else:
                    self.text(content)
            elif content is not None:
                self.content(content)
            if delta.tool_calls and not self.done:
                self._on_calls(delta.tool_calls)
        if choice.finish_reason and not self.done:
            self._on_reason(choice.finish_reason)

    def _say_beside(self, name: str, value: Any) -> None:
        """What belongs to no part of the answer; objects of several chunks are one."""
        if not value:
            return
        value = value if self._joiner is None else encodable_value(value)
        known = self._beside.get(name)
        if name == "metadata" and isinstance(known, dict) and isinstance(value, dict):
            self.hold(sum(held_size((name, one)) for name, one in value.items() if name not in known))
            known.update(value)  # the first of them is nobody else's
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
            if tools.started != started:
                self.end_reasoning()
                self.end_text()
            self.out.extend(events)

    def _on_reason(self, raw: str) -> None:
        """A finish reason: the answer is complete; usage may follow with another choice."""
        if self._raw_reason is None:
            self._raw_reason = raw
        self.complete = True
        self._end_blocks()

    def _end_blocks(self) -> None:
        """Ends what is open. A call that the token limit cut is given, but as one that cannot be run:
        this wire sends a call in one piece, so no more of it will ever be told.
        """
        reason = finish_reason(self._raw_reason)
        cut = reason in ("length", "content-filter", "error")
        started = self._tools.started
        events = self._tools.finish(truncated=cut, in_one_piece=True, keep_cut=reason == "length")
        if self._tools.started != started:
            self.end_reasoning()
            self.end_text()
        self.out.extend(events)
        self.end_reasoning()
        self.end_text()

    def _on_done(self) -> None:
        if self._answered or self.complete:
            self.complete = True
            self._finish()
            return
        self.fail(
            IncompleteStream(
                "the stream said [DONE] before any answer. Look at the model's name, or ask again.",
                provider=self.provider,
            )
        )

    def _finish(self) -> None:
        self._end_blocks()
        if self._tools.nameless():
            self.defect("a tool call came without a name. It was left out.")
        raw = self._raw_reason
        reason = finish_reason(raw)
        if self._tools.called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        if reason == "error":
            told = {"message": f"the vendor ended the answer with {raw!r}", "code": raw}
            self.out.append(ErrorEvent(error_from_value(told, provider=self.provider).info))
        self.done = True
        said: Metadata | None = {KEY: self._beside} if self._beside else None
        if self._logprobs is not None:
            said = merge_metadata(said, self._logprobs.of_rest())
        self.out.append(Finish(reason, self.usage, raw, said))
