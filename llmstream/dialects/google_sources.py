"""Pages and documents that an answer of Google's rests on, each once."""

from __future__ import annotations

import mimetypes
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from llmstream.dialects.surrogates import without_lone_surrogates
from llmstream.events import Metadata, Source

__all__ = ["Sources", "document_uri"]

KEY: Final = "google"

_PLACE_BYTES: Final = 160  # a pair, in a set
_OCTETS: Final = "application/octet-stream"


def document_uri(source: Source) -> str:
    """The path or name that a document came with."""
    told = (source.provider_metadata or {}).get(KEY, {})
    named = next((told[key] for key in ("uri", "document_uri") if isinstance(told.get(key), str)), None)
    return named or source.filename or source.title or source.id


class Sources:
    """Makes sources and forgets none it has made.

    new_id: gives the id of each
    hold:   is told how many bytes each takes
    """

    def __init__(self, new_id: Callable[[], str], hold: Callable[[int], None] = lambda size: None) -> None:
        self._new_id = new_id
        self._hold = hold
        self._seen: set[tuple[str, str]] = set()

    def page(self, url: object, title: object = None, metadata: Metadata | None = None) -> Iterator[Source]:
        """A page, if it is new and has an address."""
        if _text(url) and self._is_new("url", str(url)):
            yield Source("url", self._new_id(), _text(url), _text(title), provider_metadata=metadata)

    def document(
        self, name: object, title: object = None, metadata: Metadata | None = None
    ) -> Iterator[Source]:
        """A document by its path or name; a web address makes it a page."""
        path = _text(name)
        if path is None:
            return
        if path.startswith(("http://", "https://")):
            yield from self.page(path, title, metadata)
            return
        filename = path.rstrip("/").rpartition("/")[2] or path
        if self._is_new("document", f"{path}\n{_text(title) or ''}"):
            media_type = mimetypes.guess_type(filename)[0] or _OCTETS
            if metadata is None and path != filename:
                metadata = {KEY: {"uri": path}}
            yield Source("document", self._new_id(), None, _text(title), media_type, filename, metadata)

    def _is_new(self, kind: str, key: str) -> bool:
        if (kind, key) in self._seen:
            return False
        self._seen.add((kind, key))
        self._hold(sys.getsizeof(key) + _PLACE_BYTES)
        return True


def _text(value: Any) -> str | None:
    return without_lone_surrogates(value) if isinstance(value, str) and value else None
