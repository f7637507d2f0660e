"""What an index shows of the distribution: no link that leads nowhere, no address of someone else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def on_the_index() -> str:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for change in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        page = re.sub(change["pattern"], change["replacement"], page)
    return page


def test_links_on_the_index_lead_somewhere() -> None:
    """The index has no files of ours beside the page."""
    relative = [
        target for _, target in LINK.findall(on_the_index()) if not target.startswith(("https://", "#"))
    ]
    assert relative == []


def test_links_keep_their_text_on_the_index() -> None:
    page = on_the_index()
    names = [name for name, _ in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert len(names) > 5
    assert [name for name in names if name not in page] == []


def test_links_begin_with_a_declared_address() -> None:
    """Once the project has an address, the page and the metadata name the same one."""
    urls = PROJECT["project"].get("urls", {})
    used = [target for _, target in LINK.findall(on_the_index()) if target.startswith("https://")]
    own = [target for target in used if "llmstream" in target]
    assert all(target.startswith(tuple(urls.values())) for target in own)
