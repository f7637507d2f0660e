"""The page: where its files are, and the headers it is served with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["PAGE", "PAGE_HEADERS"]

PAGE: Final = Path(__file__).parent / "page"
"""Folder of the page: `index.html` and what it loads, by relative addresses. There is no build step."""

PAGE_HEADERS: Final = {
    # Nothing but our own files: no script in the page, no foreign host, no frame around it. What a model
    # writes is shown as text, so this is the second line of defence.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # The files have no version in their names: a browser asks whether they have changed.
    "cache-control": "no-cache",
}
"""Headers for each file of the page."""
