"""Citations: a span of the answer and what it rests on, as sources and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llmstream.dialects.cohere.finish import KEY
from llmstream.events import Custom, Metadata, Source

__all__ = ["citation_of", "cited", "told_citation"]


def cited(citation: dict[str, Any], new_id: Callable[[], str]) -> Iterator[Source | Custom]:
    """A source for each document or tool output of a citation; the metadata holds the citation whole.

    A citation of nothing is a part that only this vendor knows.
    """
    found = citation.get("sources")
    sources = [source for source in found if isinstance(source, dict)] if isinstance(found, list) else []
    if not sources:
        yield Custom(f"{KEY}.citation", {KEY: {"citation": citation}})
    for place, source in enumerate(sources):
        kept: Metadata = {KEY: {"citation": citation, "source": place}}
        held = source.get("document") or source.get("tool_output")
        held = held if isinstance(held, dict) else {}
        url = _text(held.get("url"))
        title = _text(held.get("title")) or _text(source.get("id")) or _text(held.get("id"))
        if url is not None and "://" in url:
            yield Source("url", new_id(), url, title, provider_metadata=kept)
        else:
            yield Source("document", new_id(), title=title, provider_metadata=kept)


def told_citation(metadata: Metadata | None) -> dict[str, Any] | None:
    """The citation that a source stands for, with its first source only, so that each is told once."""
    own = (metadata or {}).get(KEY) or {}
    citation = own.get("citation")
    return citation if isinstance(citation, dict) and own.get("source", 0) == 0 else None


def citation_of(source: Source) -> dict[str, Any]:
    """A citation of another vendor's source, which says no span."""
    title = source.title or source.filename or source.url or source.id
    document = {"id": source.id, "title": title}
    if source.url is not None:
        document["url"] = source.url
    found = {"type": "document", "id": source.id, "document": document}
    return {"start": 0, "end": 0, "text": "", "sources": [found], "type": "TEXT_CONTENT"}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
