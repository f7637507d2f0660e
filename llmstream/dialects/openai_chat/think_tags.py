"""Takes `<think>…</think>` out of content, for servers that leave a model's tags in its text.

Tags may be cut across chunks. Only tags at the beginning of the answer count, after white space
at most, so that an answer about tags stays as it is. Qwen3 and R1 templates put the opening tag
into the prompt: `opened=True` begins inside the reasoning. Bedrock calls the tag `reasoning`.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["ThinkTags"]


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
