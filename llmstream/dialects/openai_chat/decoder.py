"""Decodes a Chat Completions stream into events.

The wire marks neither the start of a block nor the end of a call: the first fragment opens a block, and
`dialects/tool_calls.py` decides where a call ends. The finish reason comes before the last chunks, such as
that of the usage, so `finish` is held back until `[DONE]` or the end of the body.

Where to look: `_read_pieces` is the loop over chunks, and handles nearly all of them itself; `on` maps every
other chunk; `reasoning.py` and `attachments.py` have the parts of an answer that are not plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.openai_chat import wire as wire
from llmstream.dialects.openai_chat.attachments import Attachments
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.reasoning import AnswerReasoning, ThinkTags, reasoning_text
from llmstream.dialects.openai_chat.wire import Chunk, FullChunk, finish_reason, read_usage
from llmstream.dialects.payload_size import most_held
from llmstream.dialects.tool_calls import CUSTOM_CALL, OpenCall, ToolCallTracker, mint_call_id
from llmstream.dialects.wire_values import UsageCounts, unix_time
from llmstream.errors import DecodeError, LimitExceeded, LLMStreamError
from llmstream.events import (
    Custom,
    ErrorEvent,
    Metadata,
    ReasoningDelta,
    ResponseMetadata,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from llmstream.framing.sse import SSEDecoder
from llmstream.grammar import TRUNCATING

__all__ = ["OpenAIChatDecoder"]

_DONE: Final = b"[DONE]"
# Where the last chunks begin: finish reason, usage and `[DONE]`, as OpenAI sends them.
_LAST: Final = -3
# The ids that Bedrock gives to calls, again in each answer; see `ToolQuirks.numbered_call_ids`.
_NUMBERED_ID: Final = re.compile(r"call_\d+")


class OpenAIChatDecoder(PayloadDecoder[Chunk]):
    """Decodes one response body; see `dialects.base.Decoder`.

    Reasoning closes before text opens, and text before a call's input.

    new_call_id: makes the ids of calls that come without one
    """

    # Google's signature, where it comes in a delta without a call.
    _extra: Any = None
    _raw_reason: str | None = None
    _refused = False

    def __init__(
        self,
        quirks: Quirks,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        super().__init__(
            SSEDecoder(limits.max_event_bytes),
            cast("msgspec.json.Decoder[Chunk]", wire.full_chunks),
            provider=provider,
            include_raw=include_raw,
            limits=limits,
        )
        self._quirks = quirks
        self._blocks = Blocks(self, Block, key=provider, closing=self._closing)
        self._tools = ToolCallTracker(limits=limits, new_id=new_call_id, ids=self._blocks.ids)
        self._new_call_id = new_call_id
        self._counts = UsageCounts(self._read_usage, self.hold)
        self._tags = None
        if quirks.reasoning.tags != "none":
            self._tags = ThinkTags(opened=quirks.reasoning.tags == "opened", tag=quirks.reasoning.tag)
        # Whether a fragment is an event unchanged: it contains no tag, and repeats no other fragment.
        self._plain = self._tags is None and not quirks.reasoning.dedupe
        self._reasoning = AnswerReasoning(self, dedupe=quirks.reasoning.dedupe)
        self._attachments = Attachments(self, new_call_id)
        self._named = False
        self._beginning = True
        self._answered = False

    def _read_usage(self, raw: dict[str, Any]) -> Usage:
        return read_usage(raw, self._quirks.usage)

    # The loop over chunks.

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes chunks, to `[DONE]`."""
        if self._include_raw or payloads[-1:] != [_DONE]:
            self._read_pieces(payloads)
            return
        # The fast decoder would raise an exception for `[DONE]`, which is not JSON, and for a chunk before it
        # that is not a plain piece.
        self._read_pieces(payloads[:_LAST])
        if not self.done:
            self._decode = wire.full_chunks.decode  # they may have the fields beside the answer
            super()._read(payloads[_LAST:-1])
        if not self.done:
            self.on_done()

    def _read_pieces(self, payloads: list[bytes]) -> None:
        """Decodes chunks. A measured hot loop: a piece of an open block becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        decode, out, blocks, tools, misses = wire.plain_chunks.decode, self.out, self._blocks, self._tools, 0
        ready = self._plain and not self._beginning
        growing: OpenCall | None = None  # a call whose latest fragments are not counted yet
        index, most = -1, 0
        for payload in payloads:
            if ready:
                try:
                    delta = decode(payload).choices[0].delta
                except UNREADABLE:
                    misses += 1
                else:
                    text, thought, calls = delta.content, delta.reasoning_content, delta.tool_calls
                    if calls is not None:
                        if not text and thought is None and (piece := calls[0].function.arguments):
                            if growing is None or calls[0].index != index:
                                index, most = calls[0].index, most or most_held(payloads)
                                growing = tools.growing(index, piece, growing, most)
                            if growing is not None:
                                growing.parts.append(piece)
                                out.append(ToolInputDelta(piece, growing.id or ""))
                                continue
                    elif thought is None:
                        if text and blocks.text_id is not None:
                            out.append(TextDelta(text, blocks.text_id))
                            continue
                    elif thought and not text and blocks.reasoning_id is not None:
                        out.append(ReasoningDelta(thought, blocks.reasoning_id))
                        continue
            if growing is not None:
                tools.count(growing)
                growing = None
            self._read_one(payload)
            if self.done:
                return
            ready = self._plain and not self._beginning
        if growing is not None:
            tools.count(growing)
        if misses or self._misses:
            self._count_misses(misses, len(payloads))

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._counts.usage

    def on_sentinel(self, payload: bytes) -> bool:
        """Handles `[DONE]`, `null` and an error in a list; returns False for any other payload."""
        if super().on_sentinel(payload):
            return True
        # Google's server of this wire sends errors as `[{"error": ...}]`.
        if not payload.lstrip().startswith(b"["):
            return False
        try:
            value = json.loads(payload)
        except UNREADABLE:
            return False
        if value and isinstance(value[0], dict) and value[0].get("error"):
            self.fail(error_from_value(encodable_value(value), provider=self.provider))
            return True
        return False

    def on_done(self) -> None:
        """Ends the stream, also one without a finish reason."""
        # Disputed: Vercel's AI SDK fails, others take the answer as complete (can1357/oh-my-pi#9433).
        # An error would gain nothing: the content has arrived.
        self.end_at("[DONE]", has_content=self._answered)

    def on(self, wire: Chunk) -> None:
        """Maps one chunk to events."""
        choices = wire.choices
        if self._beginning:
            self._begin(wire)
        if wire.usage is not None:
            self._count(wire.usage)
        if wire.x_groq is not None:
            self._on_x_groq(wire.x_groq)
        # Before the choices: OpenRouter sends an error beside a choice with the reason "error".
        if wire.error or (not choices and self._is_error(wire)):
            self._fail_as_reported()
        if self.done:
            return
        if not choices or wire.citations is not None or wire.search_results is not None or wire.moderation:
            self._attachments.look(wire)
        for choice in choices or ():
            if choice is not None and _is_first(choice.index):
                self._on_choice(choice, wire)
                if self.done:
                    return
        for found in (wire.search_results, wire.citations):
            if found is not None:
                self._attachments.add_sources(found)

    def end(self) -> None:
        """Ends the response, if the vendor has sent a finish reason or `[DONE]`."""
        if self.complete:
            self.finish()
        else:
            self._release()

    def fail(self, error: LLMStreamError) -> None:
        """Ends the stream with an error; emits text that was held back as the possible start of a tag.

        The finish still has the fields beside the answer.
        """
        self._release()
        error.provider_metadata = self._attachments.metadata()
        super().fail(error)

    # Parts of a chunk.

    def _begin(self, chunk: Chunk) -> None:
        """Reads what every chunk repeats, up to the chunk with the first text."""
        self._attachments.look(chunk)
        if isinstance(chunk, FullChunk) and not self._named:
            self._name(chunk)
            if not self._named or not _has_text(chunk):
                return
        # From here on the decoder of smaller structs: id, model and time are in every chunk, and decoding
        # them each time would be waste.
        self._beginning = False
        self._decode = wire.chunks.decode

    def _name(self, chunk: FullChunk) -> None:
        """Emits the id and the model of the response, once."""
        model = chunk.model if isinstance(chunk.model, str) and chunk.model else None
        number = chunk.id if isinstance(chunk.id, (str, int)) and chunk.id else None
        # Azure's first chunk has no choices; its id and its model are empty.
        if not chunk.choices or (model is None and number is None):
            return
        when = unix_time(chunk.created)
        self.out.append(ResponseMetadata(model, None if number is None else str(number), when))
        self._named = True

    def _count(self, usage: object) -> None:
        self._counts.add(self.encodable(usage))

    def _on_x_groq(self, extra: object) -> None:
        if isinstance(extra, dict):
            self._count(extra.get("usage"))
            if extra.get("error"):
                self.fail(
                    error_from_value(encodable_value({"error": extra["error"]}), provider=self.provider)
                )

    def _is_error(self, chunk: Chunk) -> bool:
        """Whether a chunk without choices is an error without the usual `error` object."""
        if chunk.error is not None and chunk.error != "" and chunk.error is not False:
            # `"error": {}`: something failed, without a message.
            return True
        if chunk.usage is not None:
            return False
        value = _generic(self.payload)
        if not isinstance(value, dict):
            return False
        # vLLM sends {"object": "error", "message": ...} (block/goose#8031).
        named = value.get("object") == "error" or value.get("type") == "error"
        message = value.get("message", value.get("detail"))
        return named or ("choices" not in value and isinstance(message, str))

    def _fail_as_reported(self) -> None:
        self.fail(error_from_value(_generic(self.payload), provider=self.provider))

    def _on_choice(self, choice: wire.Choice, chunk: Chunk) -> None:
        delta = choice.delta
        if choice.usage is not None:
            self._count(choice.usage)
        if choice.logprobs is not None:
            self._blocks.add_logprobs(choice.logprobs)
        if delta is not None:
            self._answered = True
            self._on_delta(delta)
        elif not self._answered and bytes(choice.message) not in (b"", b"null"):
            self._on_message(choice.message)
        if choice.finish_reason and not self.done:
            self._on_reason(choice.finish_reason, chunk)

    def _on_message(self, message: msgspec.Raw) -> None:
        """Reads a complete answer, which some servers send although a stream was requested."""
        try:
            delta = wire.deltas.decode(message)
        except UNREADABLE as error:
            self.defect(f"a message could not be read: {error}")
            return
        self._answered = True
        # The calls of a complete answer have no index.
        for place, call in enumerate(delta.tool_calls or ()):
            if call is not None and call.index is None:
                call.index = place
        self._on_delta(delta)

    # What a delta adds: reasoning, text, calls, and other fields.

    def _on_delta(self, delta: wire.Delta) -> None:
        if thought := self._reasoning.read(delta):
            # A server that separates reasoning itself leaves no tags in the content.
            self._without_tags()
            self._blocks.reasoning(thought)
        if delta.content:
            self._on_content(delta.content)
        if delta.refusal:
            self._refused = True
            self._blocks.text(delta.refusal)
        if delta.audio:
            self._blocks.text(self._attachments.add_audio(delta.audio))
        for image in delta.images or ():
            self._attachments.add_image(image)
        if delta.annotations:
            self._attachments.add_sources(delta.annotations)
        if delta.executed_tools:
            self._blocks.close_prose()
            self._attachments.add_executed(delta.executed_tools)
        if delta.tool_calls:
            self._on_tool_calls(delta.tool_calls)
        if delta.function_call is not None:
            # The form before `tool_calls`, which OpenAI replaced in 2023-11 and some compatible servers still
            # send. It has one call and no id.
            legacy = wire.ToolCallFragment(function=delta.function_call)
            self._on_tool_calls([legacy])
        if delta.extra_content and not delta.tool_calls:
            self._extra = delta.extra_content

    def _without_tags(self) -> None:
        self._release()
        self._tags = None
        self._plain = not self._quirks.reasoning.dedupe

    def _on_content(self, content: object) -> None:
        if isinstance(content, str):
            self._content_text(content)
        elif isinstance(content, list):
            for part in content:
                self._on_part(part)
        else:
            self.defect(f"content is neither text nor a list: {str(content)[:80]!r}")

    def _content_text(self, content: str) -> None:
        if self._tags is None:
            self._blocks.text(content)
            return
        for inside, text in self._tags.feed(content):
            (self._blocks.reasoning if inside else self._blocks.text)(text)
        if self._tags.over:
            self._without_tags()

    def _on_part(self, part: object) -> None:
        """One part of a content list, which some servers send as Mistral does."""
        if isinstance(part, str):
            self._content_text(part)
        elif isinstance(part, dict):
            kind = part.get("type")
            if kind in ("text", "output_text", None) and isinstance(part.get("text"), str):
                self._content_text(part["text"])
            elif kind == "refusal" and isinstance(part.get("refusal"), str):
                self._refused = True
                self._blocks.text(part["refusal"])
            elif kind in ("thinking", "reasoning"):
                # Databricks has it as the Responses API does, in a list called summary (seen 2026-11).
                self._blocks.reasoning(
                    reasoning_text(part.get("thinking") or part.get("text") or part.get("summary"))
                )
            elif kind == "image_url":
                self._attachments.add_image(part)

    def _on_tool_calls(self, fragments: Iterable[wire.ToolCallFragment | None]) -> None:
        tools = self._tools
        tools.next_chunk()
        for fragment in fragments:
            if fragment is None:
                continue
            started = tools.started
            function, custom = fragment.function, None
            extra = fragment.extra_content
            call_id = fragment.id
            if self._quirks.tools.numbered_call_ids and _NUMBERED_ID.fullmatch(str(call_id)):
                call_id = None
            name = function.name if function else None
            arguments = function.arguments if function else None
            if function is None and isinstance(fragment.custom, dict):
                custom = self._metadata("type", CUSTOM_CALL)
                name, arguments = fragment.custom.get("name"), fragment.custom.get("input")
                name = name if isinstance(name, str) else None
            try:
                events = tools.add(
                    index=fragment.index,
                    id=call_id,
                    name=name,
                    arguments=arguments,
                    custom=custom,
                    metadata=self._metadata("extra_content", extra) if extra else None,
                )
            except LimitExceeded as error:
                self.fail(error)
                return
            except DecodeError as error:
                self.defect(error.message)
                continue
            # The events of the call are not in `out` yet: text closes before an input opens.
            if tools.started != started:
                self._release()
                self._blocks.close_prose()
            self.out.extend(events)

    # The end.

    def _on_reason(self, raw: str, chunk: Chunk) -> None:
        """Handles a finish reason: the answer is complete, though chunks may follow."""
        # The first one counts: OpenRouter repeats it on the usage chunk.
        if self._raw_reason is None:
            self._raw_reason = raw
        self.complete = True
        self._attachments.look(chunk)
        self._end_calls()
        self._release()
        self._blocks.close_prose()

    def _end_calls(self) -> None:
        if not self._tools.open:
            return
        truncated = finish_reason(self._raw_reason, self._quirks.finish_reasons) in TRUNCATING
        started = self._tools.started
        events = self._tools.finish(truncated=truncated)
        if self._tools.started != started:
            self._blocks.close_prose()
        self.out.extend(events)

    def _closing(self, block: Block) -> Metadata | None:
        return self._reasoning.take() if block.kind == "reasoning" else None

    def finish(self) -> None:
        """Closes open blocks, then emits finish."""
        self._release()
        self._end_calls()
        self._blocks.close_prose()
        self._attachments.end_audio()
        # Signatures that arrived after their reasoning had closed; the history still needs them.
        for metadata in (self._reasoning.take_details(), self._reasoning.take_signature()):
            if metadata is not None:
                self._custom(metadata)
        if self._extra:
            self._custom(self._metadata("extra_content", self._extra))
        if self._tools.nameless():
            self.defect("a tool call came without a name. It was left out.")
        raw = self._raw_reason
        reason = finish_reason(raw, self._quirks.finish_reasons)
        # OpenAI ends a refusal in "stop".
        if self._refused and reason in ("stop", "unknown"):
            reason = "content-filter"
        if reason == "error":
            error_value = {"message": f"the vendor ended the answer with {raw!r}", "code": raw}
            self.out.append(ErrorEvent(error_from_value(error_value, provider=self.provider).info))
        # The tracker has emitted the calls, and the blocks know of none; the finish reason depends on them.
        self._blocks.client_called = self._tools.called > 0
        self._blocks.finish(reason, raw, self._attachments.metadata())

    def _release(self) -> None:
        """Emits text that was held back as the possible start of a tag."""
        if self._tags is not None:
            for inside, text in self._tags.close():
                (self._blocks.reasoning if inside else self._blocks.text)(text)

    def _custom(self, metadata: Metadata) -> None:
        """Emits metadata that belongs to no block, named by its one key."""
        for own in metadata.values():
            self.out.extend(Custom(f"{self.provider}.{key}", metadata) for key in own)

    def _metadata(self, key: str, value: Any) -> Metadata:
        return {self.provider: {key: value}}


def _has_text(chunk: Chunk) -> bool:
    """Whether a chunk holds text, which the next chunk may continue."""
    for choice in chunk.choices or ():
        delta = None if choice is None else choice.delta
        if delta is not None and (delta.content or delta.reasoning_content):
            return True
    return False


def _is_first(index: object) -> bool:
    """Whether a choice is the first; the others, of requests with `n`, are not read."""
    return not index or index == "0"


def _generic(payload: bytes) -> object:
    try:
        return encodable_value(json.loads(payload.decode("utf-8", "replace")))
    except UNREADABLE:
        return {}
