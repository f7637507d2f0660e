"""Checks the built site: every link and anchor exists, and no page loads anything from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

__all__ = ["problems"]

# Elements that make the browser load an address.
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}

_NOT_LOADED = {"canonical", "next", "prev", "alternate", "author"}
_FOREIGN = re.compile(r"(?:https?:)?//")
_CSS_ADDRESS = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


class _Page(HTMLParser):
    """The ids of a page, what it links to, and what it loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        address = given.get(_LOADED.get(tag, ""))
        if address and not _NOT_LOADED & set(given.get("rel", "").split()):
            self.loaded.append(address)


def problems(folder: Path) -> Iterator[str]:
    """What is wrong with the site in a folder, a line for each problem."""
    pages = {
        path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))
    }
    if not pages:
        yield f"{folder} has no pages"
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        if where.name != "404.html":  # its links count from the root of a host that nobody knows yet
            yield from (f"{where}: {problem}" for problem in _broken(path, page, pages))
        yield from (f"{where}: loads {one}" for one in page.loaded if _FOREIGN.match(one))
    for path in sorted(folder.rglob("*.css")):
        for one in _CSS_ADDRESS.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(folder)}: loads {one}"


def _broken(path: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for link in (*page.links, *page.loaded):
        if re.match(r"[a-z][a-z+.-]*:|//", link):
            continue
        address, anchor = urldefrag(link)
        target = (path.parent / unquote(address)).resolve() if address else path
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            yield f"{link} does not exist"
        elif anchor and target in pages and unquote(anchor) not in pages[target].ids:
            yield f"{link} has no such anchor"
