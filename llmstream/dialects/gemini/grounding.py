"""What a candidate says it rests on: search results, fetched pages, recited texts.

They stand in the metadata of a chunk, usually of the last one, after the text they belong to.
source: GroundingMetadata, UrlContextMetadata and CitationMetadata in Google's references
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmstream.dialects.gemini.wire import Candidate
from llmstream.dialects.google_sources import Sources, document_uri
from llmstream.events import Source

__all__ = ["grounding_of", "sources_of"]


def sources_of(candidate: Candidate, sources: Sources) -> Iterator[Source]:
    """The sources that a chunk names and no earlier one did."""
    for chunk in _list(candidate.grounding_metadata, "groundingChunks"):
        yield from _grounding(chunk, sources)
    for page in _list(candidate.url_context_metadata, "urlMetadata"):
        status = str(page.get("urlRetrievalStatus") or "SUCCESS")
        if status.endswith("SUCCESS"):
            yield from sources.page(page.get("retrievedUrl"))
    recited = candidate.citation_metadata
    for citation in [*_list(recited, "citationSources"), *_list(recited, "citations")]:
        yield from sources.page(citation.get("uri"), citation.get("title"))


def grounding_of(sources: list[Source]) -> dict[str, Any]:
    """The reverse: grounding metadata that names these sources."""
    return {"groundingChunks": [_chunk(source) for source in sources]}


def _grounding(chunk: dict[str, Any], sources: Sources) -> Iterator[Source]:
    match chunk:
        case {"web": dict(web)}:
            yield from sources.page(web.get("uri"), web.get("title"))
        case {"image": dict(image)}:
            yield from sources.page(image.get("sourceUri"), image.get("title"))
        case {"maps": dict(place)}:
            yield from sources.page(place.get("uri"), place.get("title"))
        case {"retrievedContext": dict(context)}:
            name = context.get("uri") or context.get("fileSearchStore") or context.get("title")
            yield from sources.document(name, context.get("title"))


def _chunk(source: Source) -> dict[str, Any]:
    if source.source_type == "url":
        page = {"uri": source.url or ""}
        return {"web": {**page, "title": source.title} if source.title else page}
    document = {"uri": document_uri(source)}
    return {"retrievedContext": {**document, "title": source.title} if source.title else document}


def _list(holder: Any, key: str) -> list[dict[str, Any]]:
    found = holder.get(key) if isinstance(holder, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
