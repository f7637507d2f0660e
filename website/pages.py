"""Writes the pages that are made, and only those that changed: a running server reloads these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["MADE", "write_pages"]

MADE = ("examples", "reference")
"""Folders of docs/ that are made when the site is built, and not committed."""


def write_pages(folder: Path, texts: Mapping[str, str], *, order: Iterable[str]) -> None:
    """Writes pages by file name and their order in the navigation; other files in the folder are removed."""
    folder.mkdir(exist_ok=True)
    wanted = {**texts, ".nav.yml": "nav:\n" + "".join(f"  - {name}\n" for name in order)}
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
