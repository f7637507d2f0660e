"""Reasoning that a model writes into its text, between tags, as reasoning."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any

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
from llmstream.middleware.asking import Ask, Middleware
from llmstream.middleware.tagged_text import Piece, TaggedText
from llmstream.request import Request

__all__ = ["extract_thinking"]


def extract_thinking(
    tag: str = "think", *, anywhere: bool = False, begins_inside: bool = False
) -> Middleware:
    """Turns `<think>...</think>` at the start of the text into reasoning events.

    The tags may be cut anywhere. White space at the ends of the reasoning and between it and the text
    is left out. Reasoning that is never closed reaches to the end of its block; text without the tag
    passes as it is.

    tag:           the word in the tags
    anywhere:      in all text, any number of times; else only where the first text block begins
    begins_inside: the model's template has opened the tag, so that only the closing one is sent
    raises:        InvalidRequest for a tag that is no word
    """
    if not tag or not all(c.isalnum() or c in "-_:|" for c in tag):
        raise InvalidRequest(f'a tag is given as its word alone, such as "think"; got {tag!r}')

    async def extract(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        blocks: dict[str, _Block] = {}
        first = True
        async for event in ask(request):
            match event:
                case TextStart() if anywhere or first:
                    text = TaggedText(tag, anywhere=anywhere, inside=begins_inside and first)
                    blocks[event.id], first = _Block(event, text), False
                case TextDelta() if event.id in blocks:
                    for said in blocks[event.id].delta(event):
                        yield said
                case TextEnd() if event.id in blocks:
                    for said in blocks.pop(event.id).end(event):
                        yield said
                case _:
                    yield event

    extract.__name__ = "extract_thinking"
    return extract


class _Block:
    """One text block of the model as blocks of reasoning and text, opened when there is something in them."""

    def __init__(self, start: TextStart, text: TaggedText) -> None:
        self._id = start.id
        self._text = text
        self._start: Metadata | None = start.provider_metadata
        self._rest: Metadata = {}  # of deltas, for the end
        self._open: str | None = None
        self._reasoning = False
        self._count = 0

    def delta(self, event: TextDelta) -> Iterator[Event]:
        """What a fragment becomes."""
        for provider, values in (event.provider_metadata or {}).items():
            self._rest[provider] = {**self._rest.get(provider, {}), **values}
        return self._events(self._text.feed(event.delta))

    def end(self, event: TextEnd) -> Iterator[Event]:
        """What its end becomes."""
        yield from self._events(self._text.close())
        metadata = {**self._rest}
        for provider, values in (event.provider_metadata or {}).items():
            metadata[provider] = {**metadata.get(provider, {}), **values}
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
