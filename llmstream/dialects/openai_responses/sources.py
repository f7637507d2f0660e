"""Annotations of a text, as sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from llmstream.events import Source

__all__ = ["KEY", "LISTED", "annotation_of", "listed_sources", "pages_of", "source_of"]

KEY = "openai"
"""Metadata key of this dialect, whatever the provider: what it wants back is the dialect's own."""

LISTED: Final = "web_search_source"
"""Type in the metadata of a source that a search lists; it stands in the search's own item."""

_PAGES: Final = {
    "search_results": "results",
    "people_search_results": "results",
    "fetch_url_results": "contents",
}
"""Items that hold pages, and where."""


def source_of(annotation: dict[str, Any], source_id: str) -> Source | None:
    """The page or document that an annotation names; None for kinds that name none."""
    kind, metadata = annotation.get("type"), {KEY: annotation}
    if kind == "url_citation" and isinstance(annotation.get("url"), str):
        return Source("url", source_id, annotation["url"], _text(annotation, "title"), None, None, metadata)
    if kind in ("file_citation", "container_file_citation", "file_path"):
        name = _text(annotation, "filename")
        title = name or _text(annotation, "file_id")
        media_type = "application/octet-stream" if kind == "file_path" else "text/plain"
        return Source("document", source_id, None, title, media_type, name, metadata)
    return None


def pages_of(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pages that an item of a search found, as annotations (Perplexity)."""
    found = item.get(_PAGES.get(str(item.get("type")), ""))
    for page in found if isinstance(found, list) else ():
        if isinstance(page, dict) and isinstance(page.get("url"), str):
            told = {name: page[name] for name in ("url", "title", "date") if page.get(name)}
            number = {} if page.get("id") is None else {"result_id": page["id"]}
            yield {"type": "url_citation", **told, **number}


def listed_sources(item: dict[str, Any]) -> Iterator[str]:
    """The addresses that a web search lists in its action, where `include` asked for them."""
    action = item.get("action") if item.get("type") == "web_search_call" else None
    found = action.get("sources") if isinstance(action, dict) else None
    for source in found if isinstance(found, list) else ():
        if isinstance(source, dict) and isinstance(source.get("url"), str):
            yield source["url"]


def annotation_of(source: Source) -> dict[str, Any]:
    """The annotation that names a source: the wire's own where it came from there."""
    kept = (source.provider_metadata or {}).get(KEY, {})
    if isinstance(kept.get("type"), str):
        return dict(kept)
    if source.source_type == "url":
        page = {"type": "url_citation", "url": source.url or "", "title": source.title or ""}
        return {**page, "start_index": 0, "end_index": 0}
    name = source.filename or source.title or ""
    return {"type": "file_citation", "file_id": source.id, "filename": name, "index": 0}


def _text(annotation: dict[str, Any], name: str) -> str | None:
    value = annotation.get(name)
    return value if isinstance(value, str) and value else None
