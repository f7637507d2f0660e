"""Reasoning in every form that servers use: a field of the delta, tags in the text, typed details."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from llmstream.dialects.openai_chat.wire import Delta
from llmstream.dialects.payload_size import held_size
from llmstream.events import Metadata, merge_metadata

if TYPE_CHECKING:
    from llmstream.dialects.decoder import PayloadDecoder


__all__ = ["AnswerReasoning", "ReasoningDetails", "ThinkTags", "joined", "reasoning_text"]


def reasoning_text(reasoning: object) -> str:
    """Reads the text of reasoning: a string, an object with text, or a list of these."""
    if isinstance(reasoning, str):
        return reasoning
    if isinstance(reasoning, list):
        return "".join(reasoning_text(part) for part in reasoning)
    if isinstance(reasoning, dict):
        return reasoning_text(reasoning.get("text") or reasoning.get("content"))
    return ""


class AnswerReasoning:
    """Reasoning of one response, except for tags in its content.

    dedupe: drops a fragment that repeats the one before; xAI sends some twice (Vercel's AI SDK does the same)
    """

    def __init__(self, reader: PayloadDecoder[Any], *, dedupe: bool) -> None:
        self._reader = reader
        self._dedupe = dedupe
        self._last = ""
        self._details: ReasoningDetails | None = None
        self._signature: Any = None

    def read(self, delta: Delta) -> str:
        """Returns the reasoning that a delta adds; stores its details and its signature."""
        if delta.reasoning_opaque:
            self._signature = delta.reasoning_opaque
        found = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        if not (found or delta.reasoning_details):
            return ""
        # vLLM renamed `reasoning_content` to `reasoning` (vllm-project/vllm#27755). Servers that send both
        # send the same text in both.
        text = (
            reasoning_text(delta.reasoning_content)
            or reasoning_text(delta.reasoning)
            or reasoning_text(delta.reasoning_text)
        )
        if delta.reasoning_details:
            in_details = self._add_details(delta.reasoning_details)
            # OpenRouter: details repeat the text beside them. Beside "" they repeat earlier text.
            if not text and delta.reasoning != "":
                text = in_details
        if self._dedupe and text == self._last:
            return ""
        self._last = text or self._last
        return text

    def _add_details(self, fragments: list[Any]) -> str:
        if self._details is None:
            self._details = ReasoningDetails()
        before = self._details.held
        text = self._details.add(fragments)
        self._reader.hold(self._details.held - before)
        return text

    def take(self) -> Metadata | None:
        """Returns and clears the data that the vendor wants back with the reasoning so far."""
        return merge_metadata(self.take_details(), self.take_signature())

    def take_details(self) -> Metadata | None:
        """Returns OpenRouter's details."""
        details = self._details
        if not details:
            return None
        items = details.items
        self._reader.let_go(details.held)
        details.clear()
        return {self._reader.provider: {"reasoning_details": items}}

    def take_signature(self) -> Metadata | None:
        """Returns Copilot's signature."""
        signature, self._signature = self._signature, None
        return {self._reader.provider: {"reasoning_opaque": signature}} if signature else None


# Takes `<think>…</think>` out of content, for servers that leave a model's tags in its text.
#
# Tags may be cut across chunks. Only tags at the beginning of the answer count, after white space
# at most, so that an answer about tags is not changed. Qwen3 and R1 templates put the opening tag
# into the prompt: `opened=True` begins inside the reasoning. Bedrock calls the tag `reasoning`.


class ThinkTags:
    """Content in, (whether it is reasoning, fragment) out."""

    def __init__(self, *, opened: bool = False, tag: str = "think") -> None:
        self._open, self._close = f"<{tag}>", f"</{tag}>"
        self._inside = opened
        self._behind = False
        self._opened = opened
        self._strip = True
        self._held = ""

    @property
    def over(self) -> bool:
        """Whether the reasoning has ended: all further content is text."""
        return self._behind and not self._strip

    def feed(self, content: str) -> Iterator[tuple[bool, str]]:
        """Yields the fragments that are certain; holds back what may be part of a tag."""
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
        """Ends the content; yields the buffered text."""
        held, self._held = self._held, ""
        if held:
            yield self._inside, held

    def _beginning(self, text: str) -> str:
        """Returns the text after the opening tag; buffers a possible beginning of one."""
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
        """Removes an opening tag that the model repeats although the prompt has it."""
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
        """Yields what follows the closing tag, without the empty lines between."""
        if self._strip:
            text = text.lstrip()
        if text:
            self._strip = False
            yield False, text


# OpenRouter's `reasoning_details`: fragments of typed reasoning, joined to be sent back unchanged.
#
# Fragments belong together by (type, index); Gemini's share an index, so another id, or text after a
# signature, starts another detail. An Anthropic signature comes as a detail without text, even after tool
# calls.

# The keys whose values are joined; of all others the last value counts.
_JOINED_KEYS: Final = ("text", "summary", "data")

# Memory of two dicts, a tuple, and places in a list and a dict.
_DETAIL_BYTES: Final = 600
# Pointers in a list of CPython, and their share of its spare places.
_SLOT_BYTES: Final = 16


class ReasoningDetails:
    """Fragments in, complete details out.

    held: memory they take, in bytes
    """

    def __init__(self) -> None:
        self.held = 0
        self._found: list[tuple[dict[str, Any], dict[str, list[str]]]] = []
        self._latest: dict[tuple[object, object], tuple[dict[str, Any], dict[str, list[str]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def items(self) -> list[dict[str, Any]]:
        """Complete details in order of appearance."""
        return [{**fixed, **{key: "".join(p) for key, p in grown.items()}} for fixed, grown in self._found]

    def add(self, fragments: Iterable[object]) -> str:
        """Adds the fragments of one chunk; returns the readable text they add."""
        text = ""
        for fragment in fragments:
            if isinstance(fragment, dict):
                self._add(fragment)
                for key in ("text", "summary"):
                    if isinstance(fragment.get(key), str):
                        text += fragment[key]
        return text

    def clear(self) -> None:
        """Forgets all details."""
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
            if name in _JOINED_KEYS and isinstance(value, str):
                grown.setdefault(name, []).append(value)
                self.held += sys.getsizeof(value) + _SLOT_BYTES
            elif value is not None or name not in fixed:
                # Fragments repeat type and index.
                if fixed.get(name) != value or name not in fixed:
                    self.held += held_size(name) + held_size(value) + _SLOT_BYTES
                fixed[name] = value


def _is_another(known: dict[str, Any], fragment: dict[str, Any]) -> bool:
    if fragment.get("id") and known.get("id") and fragment["id"] != known["id"]:
        return True
    return bool(known.get("signature")) and bool(fragment.get("text"))


def joined(lists: Iterable[object]) -> list[dict[str, Any]]:
    """Joins the details of all parts of an assistant message, as the vendor wants them back."""
    details = ReasoningDetails()
    for fragments in lists:
        if isinstance(fragments, list):
            details.add(fragments)
    return details.items
