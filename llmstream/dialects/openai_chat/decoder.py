"""Decodes a Chat Completions stream into events.

The wire marks neither blocks nor the end of a call, and its finish reason comes before its last
chunks: blocks open as they come, calls end as `tool_calls.py` decides, and `finish` is held until
`[DONE]` or the end of the body.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.openai_chat import wire as wire
from llmstream.dialects.openai_chat.attachments import (
    AnswerExtras,
    AudioFile,
    ExecutedTools,
    Sources,
    image_file,
)
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.reasoning import ReasoningDetails, ThinkTags, reasoning_text
from llmstream.dialects.openai_chat.wire import Chunk, FirstChunk, finish_reason, read_usage
from llmstream.dialects.token_counts import UsageCounts
from llmstream.dialects.tool_calls import CUSTOM_CALL, ToolCallTracker, mint_call_id
from llmstream.errors import DecodeError, LimitExceeded, LLMStreamError
from llmstream.events import (
    Custom,
    ErrorEvent,
    Metadata,
    ReasoningDelta,
    ResponseMetadata,
    TextDelta,
    Usage,
)
from llmstream.events.types import merge_metadata
from llmstream.framing.sse import SSEDecoder
from llmstream.grammar import TRUNCATING

__all__ = ["OpenAIChatDecoder"]

_NUMBERED: Final = re.compile(r"call_\d+")
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_YEAR_3000_S: Final = 32503680000


class OpenAIChatDecoder(PayloadDecoder[Chunk]):
    """One response body of this wire; see `dialects.base.Decoder`.

    Reasoning closes before text, text before a call's input opens.

    new_call_id: names calls that come without an id
    """

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
            cast("msgspec.json.Decoder[Chunk]", wire.first_chunks),
            provider=provider,
            include_raw=include_raw,
            limits=limits,
        )
        self._quirks = quirks
        self._blocks = Blocks(self, Block, key=provider, closing=self._closing)
        self._tools = ToolCallTracker(limits=limits, new_id=new_call_id, ids=self._blocks.ids)
        self._new_call_id = new_call_id
        self._counts = UsageCounts(lambda raw: read_usage(raw, quirks.usage), self.hold)
        self._tags = None
        if quirks.reasoning.tags != "none":
            self._tags = ThinkTags(opened=quirks.reasoning.tags == "opened", tag=quirks.reasoning.tag)
        # Whether a fragment of text or reasoning is what it looks like, without a second look at it.
        self._plain = self._tags is None and not quirks.reasoning.dedupe
        self._last_reasoning = ""
        self._opaque: Any = None  # the signature of the open reasoning (Copilot)
        self._extra: Any = None
        self._extras = AnswerExtras()
        # Made when the first of its kind comes, which for most answers is never.
        self._details: ReasoningDetails | None = None
        self._sources: Sources | None = None
        self._audio: AudioFile | None = None
        self._executed: ExecutedTools | None = None
        self._raw_reason: str | None = None
        self._named = False
        self._beginning = True
        self._answered = False
        self._refused = False

    # The stream, payload by payload.

    def _read(self, payloads: list[bytes]) -> None:
        decode, out, blocks = self._decode, self.out, self._blocks
        for payload in payloads:
            if self._include_raw:
                self._raw(payload)
            try:
                chunk = decode(payload)
            except _UNREADABLE as error:
                second = self._second_look(payload, error)
                if second is None:
                    if self.done:
                        return
                    continue
                chunk = second
            # Nearly every chunk goes on with the open text or reasoning and holds nothing else: that is
            # dealt with here. Written out, since a call costs as much as all of these looks (0.1 us a chunk).
            choices = chunk.choices
            if (
                choices is not None
                and len(choices) == 1
                and chunk.usage is None
                and chunk.error is None
                and chunk.citations is None
                and chunk.search_results is None
                and chunk.x_groq is None
                and chunk.moderation is None
            ):
                choice = choices[0]
                if (
                    choice is not None
                    and choice.finish_reason is None
                    and choice.usage is None
                    and choice.logprobs is None
                    and not choice.index
                ):
                    delta = choice.delta
                    if (
                        delta is not None
                        and delta.reasoning is None
                        and delta.tool_calls is None
                        and delta.refusal is None
                        and delta.reasoning_details is None
                        and delta.annotations is None
                        and delta.function_call is None
                        and delta.images is None
                        and delta.audio is None
                        and delta.executed_tools is None
                        and delta.extra_content is None
                        and delta.reasoning_text is None
                        and delta.reasoning_opaque is None
                        and self._plain
                    ):
                        content, thought = delta.content, delta.reasoning_content
                        if thought is None:
                            if blocks.text_id is not None and type(content) is str and content != "":
                                out.append(TextDelta(content, blocks.text_id))
                                continue
                        elif (
                            not content
                            and type(thought) is str
                            and thought
                            and blocks.reasoning_id is not None
                        ):
                            out.append(ReasoningDelta(thought, blocks.reasoning_id))
                            continue
            self.payload = payload
            self.on(chunk)
            if self.done:
                return
            decode = self._decode

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._counts.usage

    @usage.setter
    def usage(self, usage: Usage) -> None:
        """The base begins with none; from then on the chunks report it."""

    def on_sentinel(self, payload: bytes) -> bool:
        """Handles `[DONE]`, heartbeats, and errors in a list."""
        if super().on_sentinel(payload):
            return True
        if not payload.lstrip().startswith(b"["):
            return False
        try:
            value = json.loads(payload)
        except _UNREADABLE:
            return False
        if value and isinstance(value[0], dict) and value[0].get("error"):
            self.fail(error_from_value(encodable_value(value), provider=self.provider))
            return True
        return False

    def on_done(self) -> None:
        """Ends the stream, also one without a finish reason."""
        self.end_at("[DONE]", has_content=self._answered)

    def on(self, wire: Chunk) -> None:
        """Turns one chunk into events."""
        choices = wire.choices
        if self._beginning:
            self._begin(wire)
        if wire.usage is not None:
            self._count(wire.usage)
        if wire.x_groq is not None:
            self._on_x_groq(wire.x_groq)
        if wire.error or (not choices and self._is_error(wire)):
            self._fail_as_reported()
        if self.done:
            return
        if not choices or wire.citations is not None or wire.search_results is not None or wire.moderation:
            self._extras.look(self.payload)
        for choice in choices or ():
            if choice is not None and _is_first(choice.index):
                self._on_choice(choice)
                if self.done:
                    return
        for found in (wire.search_results, wire.citations):
            if found is not None:
                self._give_sources(found)

    def end(self) -> None:
        """The body is over: finish, if the vendor gave a reason or `[DONE]`."""
        if self.complete:
            self.finish()
        else:
            self._release()

    def fail(self, error: LLMStreamError) -> None:
        """The stream cannot go on; text that waited for the rest of a tag is given out first.

        Fields beside the answer stand in the finish all the same.
        """
        self._release()
        error.provider_metadata = self._beside()
        super().fail(error)

    # Parts of a chunk.

    def _begin(self, chunk: Chunk) -> None:
        """Reads what every chunk repeats, up to the chunk with the first text."""
        self._extras.look(self.payload)
        if isinstance(chunk, FirstChunk) and not self._named:
            self._name(chunk)
            if not self._named or not _has_text(chunk):
                return
        self._beginning = False
        self._decode = wire.chunks.decode

    def _name(self, chunk: FirstChunk) -> None:
        """The response's names, once. Azure's prelude, which has no choices, has empty ones."""
        model = chunk.model if isinstance(chunk.model, str) and chunk.model else None
        number = chunk.id if isinstance(chunk.id, (str, int)) and chunk.id else None
        if not chunk.choices or (model is None and number is None):
            return
        created = chunk.created
        when = None
        if isinstance(created, (int, float)) and 0 < created < _YEAR_3000_S:
            when = datetime.datetime.fromtimestamp(created, datetime.UTC)
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
            return True  # {} : something failed, and no message tells what
        if chunk.usage is not None:
            return False
        value = _generic(self.payload)
        if not isinstance(value, dict):
            return False
        named = value.get("object") == "error" or value.get("type") == "error"
        message = value.get("message", value.get("detail"))
        return named or ("choices" not in value and isinstance(message, str))

    def _fail_as_reported(self) -> None:
        self.fail(error_from_value(_generic(self.payload), provider=self.provider))

    def _on_choice(self, choice: wire.Choice) -> None:
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
            self._on_reason(choice.finish_reason)

    def _on_message(self, message: msgspec.Raw) -> None:
        """A complete answer where chunks were expected."""
        try:
            delta = wire.deltas.decode(message)
        except _UNREADABLE as error:
            self.defect(f"a message could not be read: {error}")
            return
        self._answered = True
        for place, call in enumerate(delta.tool_calls or ()):
            if call is not None and call.index is None:
                call.index = place
        self._on_delta(delta)

    # What a delta adds: reasoning, text, calls, and what stands beside them.

    def _on_delta(self, delta: wire.Delta) -> None:
        self._on_reasoning(delta)
        if delta.content:
            self._on_content(delta.content)
        if delta.refusal:
            self._refused = True
            self._blocks.text(delta.refusal)
        if delta.audio:
            self._on_audio(delta.audio)
        for image in delta.images or ():
            self._on_image(image)
        if delta.annotations:
            self._give_sources(delta.annotations)
        if delta.executed_tools:
            self._blocks.close_prose()
            self._give_executed(delta.executed_tools)
        if delta.tool_calls:
            self._on_tool_calls(delta.tool_calls)
        if delta.function_call is not None:
            legacy = wire.ToolCallFragment(function=delta.function_call)
            self._on_tool_calls([legacy])
        if delta.extra_content and not delta.tool_calls:
            self._extra = delta.extra_content

    def _on_audio(self, audio: Any) -> None:
        """A piece of a recording; its transcript is text."""
        if self._audio is None:
            self._audio = AudioFile(self.provider)
        before = self._audio.held
        self._blocks.text(self._audio.add(audio))
        self.hold(self._audio.held - before)

    def _give_recording(self, audio: AudioFile) -> None:
        try:
            recording = audio.take()
        except DecodeError as error:
            self.defect(error.message)
            return
        if recording is not None:
            self.out.append(recording)

    def _give_sources(self, found: object) -> None:
        if self._sources is None:
            self._sources = Sources(self.provider)
        before = self._sources.held
        self.out.extend(self._sources.read(found))
        self.hold(self._sources.held - before)

    def _give_executed(self, runs: Iterable[object]) -> None:
        if self._executed is None:
            self._executed = ExecutedTools(self._new_call_id)
        self.out.extend(self._executed.read(runs))
        if self._executed.count > self.limits.max_blocks and not self.done:
            self.fail(LimitExceeded(f"the response holds more than {self.limits.max_blocks} calls"))

    def _on_reasoning(self, delta: wire.Delta) -> None:
        """`reasoning` and `reasoning_content` are the same where both are there, and so are typed details.

        Details that come alone are read themselves; beside `reasoning: ""` they repeat what came before.
        """
        if delta.reasoning_opaque:
            self._opaque = delta.reasoning_opaque
        found = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        if not (found or delta.reasoning_details):
            return
        text = (
            reasoning_text(delta.reasoning_content)
            or reasoning_text(delta.reasoning)
            or reasoning_text(delta.reasoning_text)
        )
        if delta.reasoning_details:
            details = self._details
            if details is None:
                details = self._details = ReasoningDetails()
            before = details.held
            in_details = details.add(delta.reasoning_details)
            self.hold(details.held - before)
            if not text and delta.reasoning != "":
                text = in_details
        if not text or (self._quirks.reasoning.dedupe and text == self._last_reasoning):
            return
        self._last_reasoning = text
        self._without_tags()  # a server that parts the two itself leaves none
        self._blocks.reasoning(text)

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
                self._on_image(part)

    def _on_image(self, image: object) -> None:
        try:
            self.out.append(image_file(image))
        except DecodeError as error:
            self.defect(error.message)

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
            if self._quirks.tools.numbered_call_ids and _NUMBERED.fullmatch(str(call_id)):
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
            if tools.started != started:
                self._release()
                self._blocks.close_prose()
            self.out.extend(events)

    # The end.

    def _on_reason(self, raw: str) -> None:
        """A finish reason: the answer is complete. Some servers repeat it on the usage chunk."""
        if self._raw_reason is None:
            self._raw_reason = raw
        self.complete = True
        self._extras.look(self.payload)
        self._end_calls()
        self._release()
        self._blocks.close_prose()

    def _end_calls(self) -> None:
        truncated = finish_reason(self._raw_reason, self._quirks.finish_reasons) in TRUNCATING
        started = self._tools.started
        events = self._tools.finish(truncated=truncated)
        if self._tools.started != started:
            self._blocks.close_prose()
        self.out.extend(events)

    def _closing(self, block: Block) -> Metadata | None:
        """Reasoning closes with the details and the signature that the vendor wants back."""
        if block.kind != "reasoning":
            return None
        details = self._take_details(self._details) if self._details else None
        return merge_metadata(details, self._take_opaque()) if self._opaque else details

    def finish(self) -> None:
        """Emits finish, and what was open before it."""
        self._release()
        self._end_calls()
        self._blocks.close_prose()
        if self._audio is not None:
            self._give_recording(self._audio)
        if self._details:
            details = self._take_details(self._details)
            self.out.append(Custom(f"{self.provider}.reasoning_details", details))
        if self._opaque:
            self.out.append(Custom(f"{self.provider}.reasoning_opaque", self._take_opaque()))
        if self._extra:
            metadata = self._metadata("extra_content", self._extra)
            self.out.append(Custom(f"{self.provider}.extra_content", metadata))
        if self._tools.nameless():
            self.defect("a tool call came without a name. It was left out.")
        raw = self._raw_reason
        reason = finish_reason(raw, self._quirks.finish_reasons)
        if self._refused and reason in ("stop", "unknown"):
            reason = "content-filter"
        if reason == "error":
            error_value = {"message": f"the vendor ended the answer with {raw!r}", "code": raw}
            self.out.append(ErrorEvent(error_from_value(error_value, provider=self.provider).info))
        self._blocks.client_called = self._tools.called > 0
        self._blocks.finish(reason, raw, self._beside())

    def _release(self) -> None:
        """Gives out text that waited for the rest of a tag."""
        if self._tags is not None:
            for inside, text in self._tags.close():
                (self._blocks.reasoning if inside else self._blocks.text)(text)

    def _beside(self) -> Metadata | None:
        """Fields beside the answer that belong to no part of it."""
        fields = self._extras.metadata(self.provider)
        if self._audio is not None and self._audio.rest:
            fields = merge_metadata(fields, self._metadata("audio", self._audio.rest))
        return fields

    def _take_details(self, details: ReasoningDetails) -> Metadata:
        metadata = self._metadata("reasoning_details", details.items)
        self.let_go(details.held)
        details.clear()
        return metadata

    def _take_opaque(self) -> Metadata:
        metadata = self._metadata("reasoning_opaque", self._opaque)
        self._opaque = None
        return metadata

    def _metadata(self, key: str, value: Any) -> Metadata:
        return {self.provider: {key: value}}


def _has_text(chunk: Chunk) -> bool:
    """Whether a chunk holds text: the next one may continue it, and is looked at no more."""
    deltas = [choice.delta for choice in chunk.choices or () if choice is not None]
    return any(delta is not None and (delta.content or delta.reasoning_content) for delta in deltas)


def _is_first(index: object) -> bool:
    return not index or index == "0"


def _generic(payload: bytes) -> object:
    try:
        return encodable_value(json.loads(payload.decode("utf-8", "replace")))
    except _UNREADABLE:
        return {}
