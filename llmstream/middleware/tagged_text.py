"""Text with a tagged passage in it, split as it comes: what is inside the tags, what is outside."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Piece", "TaggedText"]


class Piece(NamedTuple):
    """A tag that was passed ("open", "close"), or text "inside" or "outside" of a passage; never empty."""

    kind: Literal["open", "inside", "close", "outside"]
    text: str = ""


class TaggedText:
    """Splits text at tags that may be cut anywhere, and holds back only what may be part of one.

    White space at both ends of a passage is left out, and so is that around a passage with which the
    text begins. A passage that is never closed reaches to the end.

    tag:      "think" for `<think>` and `</think>`
    anywhere: passages may begin anywhere; else one at most, before the first character outside
    inside:   the text begins within a passage, whose opening tag is not sent
    """

    def __init__(self, tag: str, *, anywhere: bool = False, inside: bool = False) -> None:
        self._opening, self._closing = f"<{tag}>", f"</{tag}>"
        self._anywhere = anywhere
        self._wanted: str | None = self._closing if inside else self._opening  # the tag that may come next
        self._inside = inside
        self._begun = not inside
        self._passed = False  # a passage is over
        self._said = {True: False, False: False}  # whether there was text inside this passage, or outside
        self._white: list[str] = []  # white space that is said only if text follows
        self._held = ""

    def feed(self, text: str) -> list[Piece]:
        """What is certain now."""
        self._held += text
        return self._read(at_end=False)

    def close(self) -> list[Piece]:
        """The rest: nothing more comes."""
        pieces = self._read(at_end=True)
        white = "".join(self._white)
        if white and not self._inside and not self._passed:
            pieces.append(Piece("outside", white))
        return pieces

    def _read(self, *, at_end: bool) -> list[Piece]:
        pieces: list[Piece] = []
        if not self._begun:
            self._begun = True
            pieces.append(Piece("open"))
        while self._to_next_tag(pieces, at_end):
            pass
        return pieces

    def _to_next_tag(self, pieces: list[Piece], at_end: bool) -> bool:
        """Takes what is certain of what is held; whether to go on behind it."""
        tag = self._wanted
        if tag is None:
            self._say(self._held, pieces)
            self._held = ""
            return False
        text, found, rest = self._held.partition(tag)
        if not found and not at_end:
            kept = _beginning(text, tag)
            text, rest = text[: len(text) - kept], text[len(text) - kept :]
        if not self._inside and not self._anywhere and text.strip():
            self._wanted = None  # no passage begins here
            return True
        self._say(text, pieces)
        self._held = rest
        if found:
            self._turn(pieces)
        return bool(found)

    def _turn(self, pieces: list[Piece]) -> None:
        """A tag was passed."""
        pieces.append(Piece("close" if self._inside else "open"))
        self._white.clear()
        if self._inside:
            self._passed = True
            self._wanted = self._opening if self._anywhere else None
        else:
            self._said[True] = False
            self._wanted = self._closing
        self._inside = not self._inside

    def _say(self, text: str, pieces: list[Piece]) -> None:
        if not self._said[self._inside]:
            bare = text.lstrip()
            if not self._inside and not self._passed and len(bare) < len(text):
                self._white.append(text[: len(text) - len(bare)])
            text = bare
        if not text:
            return
        self._said[self._inside] = True
        body = text.rstrip() if self._inside else text
        if body:
            pieces.append(Piece("inside" if self._inside else "outside", "".join(self._white) + body))
            self._white.clear()
        if len(body) < len(text):
            self._white.append(text[len(body) :])


def _beginning(text: str, tag: str) -> int:
    """How many of the last characters may be the beginning of the tag."""
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
