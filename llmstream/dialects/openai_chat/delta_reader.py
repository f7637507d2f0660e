"""Turns what one chunk adds to an answer into events: reasoning, text, calls, and what stands beside them."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import LazyBlocks
from llmstream.dialects.decoder import held_size
from llmstream.dialects.openai_chat import wire as wire
from llmstream.dialects.openai_chat.attachments import AudioFile, ExecutedTools, Sources, image_file
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.wire import Chunk
from llmstream.dialects.tool_calls import CUSTOM_CALL, ToolCallTracker, mint_call_id
from llmstream.errors import DecodeError, LimitExceeded
from llmstream.events import Metadata
from llmstream.events.types import merge_metadata
from llmstream.framing.sse import SSEDecoder

__all__ = ["DeltaReader", "ReasoningDetails", "ThinkTags", "joined"]


# Takes `<think>…</think>` out of content, for servers that leave a model's tags in its text.
#
# Tags may be cut across chunks. Only tags at the beginning of the answer count, after white space
# at most, so that an answer about tags stays as it is. Qwen3 and R1 templates put the opening tag
# into the prompt: `opened=True` begins inside the reasoning. Bedrock calls the tag `reasoning`.


class ThinkTags:
    """Content in, (is it reasoning, fragment) out."""

    def __init__(self, *, opened: bool = False, tag: str = "think") -> None:
        self._open, self._close = f"<{tag}>", f"</{tag}>"
        self._inside = opened
        self._behind = False
        self._opened = opened
        self._strip = True
        self._held = ""

    @property
    def over(self) -> bool:
        """The tags are behind us, and whatever comes is text as it is."""
        return self._behind and not self._strip

    def feed(self, content: str) -> Iterator[tuple[bool, str]]:
        """The fragments that are certain by now; what may be part of a tag is held."""
        text = self._held + content
        self._held = ""
        if not self._inside and not self._behind:
            text = self._beginning(text)
        elif self._opened:
            text = self._own_opening_tag(text)
        if self._held:
            return
        if self._inside:
            yield from self._reasoning(text)
        elif text:
            yield from self._text(text)

    def close(self) -> Iterator[tuple[bool, str]]:
        """The content is over: what was held is what it looks like."""
        held, self._held = self._held, ""
        if held:
            yield self._inside, held

    def _beginning(self, text: str) -> str:
        """Looks for the opening tag at the beginning; holds what may become one."""
        bare = text.lstrip()
        if bare.startswith(self._open):
            self._inside = True
            return bare[len(self._open) :]
        if self._open.startswith(bare):
            self._held = text
            return ""
        self._behind = True
        self._strip = False
        return text

    def _own_opening_tag(self, text: str) -> str:
        """A tag that came although the prompt was said to hold it."""
        bare = text.lstrip()
        if bare and len(bare) < len(self._open) and self._open.startswith(bare):
            self._held = text
            return ""
        if bare:
            self._opened = False
        return bare.removeprefix(self._open)

    def _reasoning(self, text: str) -> Iterator[tuple[bool, str]]:
        if self._strip:
            text = text.lstrip()
        end = text.find(self._close)
        if end < 0:
            longest = len(self._close) - 1
            keep = next(
                (n for n in range(min(len(text), longest), 0, -1) if self._close.startswith(text[-n:])), 0
            )
            self._held = text[len(text) - keep :]
            text = text[: len(text) - keep]
            if text:
                self._strip = False
                yield True, text
            return
        if text[:end]:
            yield True, text[:end]
        self._inside, self._behind, self._strip = False, True, True
        yield from self._text(text[end + len(self._close) :])

    def _text(self, text: str) -> Iterator[tuple[bool, str]]:
        """What follows the closing tag, without the empty lines between."""
        if self._strip:
            text = text.lstrip()
        if text:
            self._strip = False
            yield False, text


# OpenRouter's `reasoning_details`: fragments of typed reasoning, put together to be echoed unmodified.
#
# Fragments belong together by (type, index); an id that differs, or text after a signature, starts
# a detail of its own. An Anthropic signature comes as a detail without text, even after tool calls.

_GROWING: Final = ("text", "summary", "data")
_DETAIL_BYTES: Final = 600  # two dicts, a tuple, a place in a list and in a dict
_SLOT_BYTES: Final = 16


class ReasoningDetails:
    """Fragments in, whole details out.

    held: what they take, in bytes
    """

    def __init__(self) -> None:
        self.held = 0
        self._found: list[tuple[dict[str, Any], dict[str, list[str]]]] = []
        self._latest: dict[tuple[object, object], tuple[dict[str, Any], dict[str, list[str]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def items(self) -> list[dict[str, Any]]:
        """Whole details in order of appearance."""
        return [{**fixed, **{key: "".join(p) for key, p in grown.items()}} for fixed, grown in self._found]

    def add(self, fragments: Iterable[object]) -> str:
        """Takes the fragments of one chunk; returns the readable text they add."""
        said = ""
        for fragment in fragments:
            if isinstance(fragment, dict):
                self._add(fragment)
                for key in ("text", "summary"):
                    if isinstance(fragment.get(key), str):
                        said += fragment[key]
        return said

    def clear(self) -> None:
        """What was read has been handed on."""
        self._found = []
        self._latest = {}
        self.held = 0

    def _add(self, fragment: dict[str, Any]) -> None:
        index = fragment.get("index")
        key = (str(fragment.get("type")), index if isinstance(index, int) else None)
        latest = self._latest.get(key)
        if latest is None or _is_another(latest[0], fragment):
            latest = ({}, {})
            self._latest[key] = latest
            self._found.append(latest)
            self.held += _DETAIL_BYTES
        fixed, grown = latest
        for name, value in fragment.items():
            if name in _GROWING and isinstance(value, str):
                grown.setdefault(name, []).append(value)
                self.held += sys.getsizeof(value) + _SLOT_BYTES
            elif value is not None or name not in fixed:
                if fixed.get(name) != value or name not in fixed:  # fragments repeat type and index
                    self.held += held_size(name) + held_size(value) + _SLOT_BYTES
                fixed[name] = value


def _is_another(known: dict[str, Any], fragment: dict[str, Any]) -> bool:
    if fragment.get("id") and known.get("id") and fragment["id"] != known["id"]:
        return True
    return bool(known.get("signature")) and bool(fragment.get("text"))


def joined(lists: Iterable[object]) -> list[dict[str, Any]]:
    """The details of one assistant message from all its parts, as the vendor wants them back."""
    whole = ReasoningDetails()
    for details in lists:
        if isinstance(details, list):
            whole.add(details)
    return whole.items


_NUMBERED: Final = re.compile(r"call_\d+")


class DeltaReader(LazyBlocks[Chunk]):
    """Base of the decoder: `read_delta` takes a chunk's delta, or a whole message where that came instead.

    Reasoning closes before text, text before a call's input opens.
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
        self._tools = ToolCallTracker(limits=limits, new_id=new_call_id, reserved=self._is_block_id)
        self._new_call_id = new_call_id
        self._tags = None
        if quirks.reasoning.tags != "none":
            self._tags = ThinkTags(opened=quirks.reasoning.tags == "opened", tag=quirks.reasoning.tag)
        # Whether a fragment of text or reasoning is what it looks like, without a second look at it.
        self._plain = self._tags is None and not quirks.reasoning.dedupe
        self._last_reasoning = ""
        self._extra: Any = None
        self._opaque: Any = None
        self._refused = False

    # Made when the first of its kind comes, which for most answers is never.

    @functools.cached_property
    def _executed(self) -> ExecutedTools:
        return ExecutedTools(self._new_call_id)

    @functools.cached_property
    def _details(self) -> ReasoningDetails:
        return ReasoningDetails()

    @functools.cached_property
    def _sources(self) -> Sources:
        return Sources(self.provider)

    @functools.cached_property
    def _audio(self) -> AudioFile:
        return AudioFile(self.provider)

    def read_delta(self, delta: wire.Delta) -> None:
        """One delta; nothing in it says nothing."""
        self._on_reasoning(delta)
        if delta.content:
            self._on_content(delta.content)
        if delta.refusal:
            self._refused = True
            self.text(delta.refusal)
        if delta.audio:
            before = self._audio.held
            self.text(self._audio.add(delta.audio))
            self.hold(self._audio.held - before)
        for image in delta.images or ():
            self._on_image(image)
        if delta.annotations:
            self._give_sources(delta.annotations)
        if delta.executed_tools:
            self.end_reasoning()
            self.end_text()
            self._give_executed(delta.executed_tools)
        if delta.tool_calls:
            self._on_tool_calls(delta.tool_calls)
        if delta.function_call is not None:
            legacy = wire.ToolCallFragment(function=delta.function_call)
            self._on_tool_calls([legacy])
        if delta.extra_content and not delta.tool_calls:
            self._extra = delta.extra_content

    def _give_sources(self, found: object) -> None:
        before = self._sources.held
        self.out.extend(self._sources.read(found))
        self.hold(self._sources.held - before)

    def _give_executed(self, runs: Iterable[object]) -> None:
        self.out.extend(self._executed.read(runs))
        if self._executed.count > self.limits.max_blocks and not self.done:
            self.fail(LimitExceeded(f"the response holds more than {self.limits.max_blocks} calls"))

    def _on_reasoning(self, delta: wire.Delta) -> None:
        """`reasoning` and `reasoning_content` say the same where both are there, and so do typed details.

        Details that come alone are read themselves; beside `reasoning: ""` they repeat what was said.
        """
        if delta.reasoning_opaque:
            self._opaque = delta.reasoning_opaque
        found = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        if not (found or delta.reasoning_details):
            return
        said = _words(delta.reasoning_content) or _words(delta.reasoning) or _words(delta.reasoning_text)
        if delta.reasoning_details:
            before = self._details.held
            told = self._details.add(delta.reasoning_details)
            self.hold(self._details.held - before)
            if not said and delta.reasoning != "":
                said = told
        if not said or (self._quirks.reasoning.dedupe and said == self._last_reasoning):
            return
        self._last_reasoning = said
        self._without_tags()  # a server that parts the two itself leaves none
        self.reasoning(said)

    def _without_tags(self) -> None:
        self._release()
        self._tags = None
        self._plain = not self._quirks.reasoning.dedupe

    def _on_content(self, content: object) -> None:
        if isinstance(content, str):
            self._say(content)
        elif isinstance(content, list):
            for part in content:
                self._on_part(part)
        else:
            self.defect(f"content is neither text nor a list: {str(content)[:80]!r}")

    def _say(self, content: str) -> None:
        if self._tags is None:
            self.text(content)
            return
        for inside, words in self._tags.feed(content):
            (self.reasoning if inside else self.text)(words)
        if self._tags.over:
            self._without_tags()

    def _on_part(self, part: object) -> None:
        """One part of a content list, which some servers send as Mistral does."""
        if isinstance(part, str):
            self._say(part)
        elif isinstance(part, dict):
            kind = part.get("type")
            if kind in ("text", "output_text", None) and isinstance(part.get("text"), str):
                self._say(part["text"])
            elif kind == "refusal" and isinstance(part.get("refusal"), str):
                self._refused = True
                self.text(part["refusal"])
            elif kind in ("thinking", "reasoning"):
                # Databricks has it as the Responses API does, in a list called summary (seen 2026-11).
                self.reasoning(_words(part.get("thinking") or part.get("text") or part.get("summary")))
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
                self.end_reasoning()
                self.end_text()
            self.out.extend(events)

    def end_reasoning(self, metadata: Metadata | None = None) -> None:
        """Closes the open reasoning with the details and the signature that the vendor wants back."""
        if self._reasoning_id is not None and metadata is None:
            if self._details:
                metadata = self._take_details()
            if self._opaque:
                metadata = merge_metadata(metadata, self._take_opaque())
        super().end_reasoning(metadata)

    def next_id(self) -> str:
        """The next block id that no tool call has; past the cap on blocks the stream ends."""
        if self._blocks >= self.limits.max_blocks and not self.done:
            self.fail(LimitExceeded(f"the response holds more than {self.limits.max_blocks} blocks"))
        block_id = super().next_id()
        while block_id in self._tools.ids:
            block_id = super().next_id()
        return block_id

    def _is_block_id(self, call_id: str) -> bool:
        return call_id.isdecimal() and len(call_id) < 19 and int(call_id) < self._blocks

    def _release(self) -> None:
        """Gives out text that waited for the rest of a tag."""
        if self._tags is not None:
            for inside, words in self._tags.close():
                (self.reasoning if inside else self.text)(words)

    def _take_details(self) -> Metadata:
        metadata = self._metadata("reasoning_details", self._details.items)
        self.let_go(self._details.held)
        self._details.clear()
        return metadata

    def _take_opaque(self) -> Metadata:
        metadata = self._metadata("reasoning_opaque", self._opaque)
        self._opaque = None
        return metadata

    def _metadata(self, key: str, value: Any) -> Metadata:
        return {self.provider: {key: value}}


def _words(reasoning: object) -> str:
    """The text of reasoning given as text, as an object with text, or as a list of these."""
    if isinstance(reasoning, str):
        return reasoning
    if isinstance(reasoning, list):
        return "".join(_words(part) for part in reasoning)
    if isinstance(reasoning, dict):
        return _words(reasoning.get("text") or reasoning.get("content"))
    return ""
