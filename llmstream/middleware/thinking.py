"""Turns reasoning that a model writes into its text, between tags, into reasoning events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Literal, NamedTuple

from llmstream.errors import InvalidRequest
from llmstream.events import (
    Event,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.middleware.wrapping import Ask, Middleware
from llmstream.request import Request

__all__ = ["TaggedText", "extract_thinking"]


# Splits text with tagged passages as it arrives: text inside the tags, and text outside.


class Piece(NamedTuple):
    """A tag ("open", "close"), or text "inside" or "outside" of a passage; never empty."""

    kind: Literal["open", "inside", "close", "outside"]
    text: str = ""


class TaggedText:
    """Splits text at tags that may be cut anywhere; buffers only a possible part of a tag.

    White space at both ends of a passage is left out, and around a passage at the start of the text. A
    passage that is never closed reaches to the end.

    tag:      "think" for `<think>` and `</think>`
    anywhere: passages may begin anywhere; else at most one, before the first character outside
    inside:   the text begins within a passage, whose opening tag is not sent
    """

    def __init__(self, tag: str, *, anywhere: bool = False, inside: bool = False) -> None:
        self._opening, self._closing = f"<{tag}>", f"</{tag}>"
        self._anywhere = anywhere
        self._wanted: str | None = self._closing if inside else self._opening  # the next possible tag
        self._inside = inside
        self._begun = not inside
        self._passed = False  # a passage has ended
        self._has_text = {True: False, False: False}  # whether there was text inside this passage, or outside
        self._white: list[str] = []  # white space, yielded only if text follows
        self._held = ""

    def feed(self, text: str) -> list[Piece]:
        """Yields the pieces that are certain."""
        self._held += text
        return self._read(at_end=False)

    def close(self) -> list[Piece]:
        """Yields the rest at the end of input."""
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
        """Consumes the certain part of the buffer; returns whether to continue after it."""
        tag = self._wanted
        if tag is None:
            self._emit(self._held, pieces)
            self._held = ""
            return False
        text, found, rest = self._held.partition(tag)
        if not found and not at_end:
            partial = _beginning(text, tag)
            text, rest = text[: len(text) - partial], text[len(text) - partial :]
        if not self._inside and not self._anywhere and text.strip():
            self._wanted = None  # no passage can begin here
            return True
        self._emit(text, pieces)
        self._held = rest
        if found:
            self._turn(pieces)
        return bool(found)

    def _turn(self, pieces: list[Piece]) -> None:
        """Processes a complete tag."""
        pieces.append(Piece("close" if self._inside else "open"))
        self._white.clear()
        if self._inside:
            self._passed = True
            self._wanted = self._opening if self._anywhere else None
        else:
            self._has_text[True] = False
            self._wanted = self._closing
        self._inside = not self._inside

    def _emit(self, text: str, pieces: list[Piece]) -> None:
        if not self._has_text[self._inside]:
            bare = text.lstrip()
            if not self._inside and not self._passed and len(bare) < len(text):
                self._white.append(text[: len(text) - len(bare)])
            text = bare
        if not text:
            return
        self._has_text[self._inside] = True
        body = text.rstrip() if self._inside else text
        if body:
            pieces.append(Piece("inside" if self._inside else "outside", "".join(self._white) + body))
            self._white.clear()
        if len(body) < len(text):
            self._white.append(text[len(body) :])


def _beginning(text: str, tag: str) -> int:
    """How many of the last characters may be the beginning of the tag."""
    # The longest first: a shorter one would let the rest of the tag pass as text.
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0


def extract_thinking(
    tag: str = "think", *, anywhere: bool = False, begins_inside: bool = False
) -> Middleware:
    """Turns `<think>...</think>` at the start of the text into reasoning events.

    The tags may be cut anywhere. White space at the ends of the reasoning and between it and the text
    is left out. Reasoning that is never closed reaches to the end of its block; text without the tag
    does not change.

    tag:           the word in the tags
    anywhere:      in all text, any number of times; else only at the start of the first text block
    begins_inside: the model's template opens the tag, so that only the closing one is sent
    raises:        InvalidRequest for a tag that is not a word
    """
    if not tag or not all(c.isalnum() or c in "-_:|" for c in tag):
        raise InvalidRequest(f'a tag must be a word alone, such as "think"; got {tag!r}')

    async def extract(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        blocks: dict[str, _Block] = {}
        first = True
        async for event in ask(request):
            match event:
                case TextStart() if anywhere or first:
                    # A template opens only the first passage.
                    text = TaggedText(tag, anywhere=anywhere, inside=begins_inside and first)
                    blocks[event.id], first = _Block(event, text), False
                case TextDelta() if event.id in blocks:
                    for piece in blocks[event.id].delta(event):
                        yield piece
                case TextEnd() if event.id in blocks:
                    for piece in blocks.pop(event.id).end(event):
                        yield piece
                case _:
                    yield event

    extract.__name__ = "extract_thinking"
    return extract


class _Block:
    """Splits a text block of the model into blocks of reasoning and text, opened with their first text."""

    def __init__(self, start: TextStart, text: TaggedText) -> None:
        self._id = start.id
        self._text = text
        self._start: Metadata | None = start.provider_metadata
        self._rest: Metadata = {}  # of deltas, for the end
        self._open: str | None = None
        self._reasoning = False
        self._count = 0

    def delta(self, event: TextDelta) -> Iterator[Event]:
        # Text moves between blocks; metadata goes to the end of the last.
        for provider, values in (event.provider_metadata or {}).items():
            self._rest[provider] = {**self._rest.get(provider, {}), **values}
        return self._events(self._text.feed(event.delta))

    def end(self, event: TextEnd) -> Iterator[Event]:
        yield from self._events(self._text.close())
        metadata = {**self._rest}
        for provider, values in (event.provider_metadata or {}).items():
            metadata[provider] = {**metadata.get(provider, {}), **values}
        # A block without text stays one, because a vendor may want its metadata back.
        if self._open is None and (not self._count or metadata or self._start):
            yield self._opened(reasoning=False)
        if self._open is not None:
            yield self._closed(event.incomplete, metadata or None)

    def _events(self, pieces: list[Piece]) -> Iterator[Event]:
        for kind, text in pieces:
            if kind in ("open", "close"):
                if self._open is not None:
                    yield self._closed()
            elif kind == "inside":
                if self._open is None:
                    yield self._opened(reasoning=True)
                yield ReasoningDelta(text, self._open or "")
            else:
                if self._open is None:
                    yield self._opened(reasoning=False)
                yield TextDelta(text, self._open or "")

    def _opened(self, *, reasoning: bool) -> Event:
        self._count += 1
        self._reasoning = reasoning
        name = f"{self._id}-thinking" if reasoning else self._id
        # The first text keeps its id, and the first reasoning block gets the shortest new one.
        self._open = name if self._count <= 2 else f"{name}-{self._count}"
        if reasoning:
            return ReasoningStart(self._open)
        metadata, self._start = self._start, None
        return TextStart(self._open, metadata)

    def _closed(self, incomplete: bool = False, metadata: dict[str, Any] | None = None) -> Event:
        name, self._open = self._open or "", None
        return (
            ReasoningEnd(name, incomplete, metadata)
            if self._reasoning
            else TextEnd(name, incomplete, metadata)
        )
