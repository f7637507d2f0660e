"""The reference that scripts/docs writes; griffe is in the extra `docs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.streams.options import Options

pytest.importorskip("griffe")
pytestmark = pytest.mark.slow  # it reads the whole package


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    from website.reference import write

    folder = tmp_path_factory.mktemp("reference")
    (folder / "old.md").write_text("of a page that is gone")
    write(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_every_public_name_has_a_heading(pages: dict[str, str]) -> None:
    headings = set(re.findall(r"\{ #([\w.]+) \}$", "\n".join(pages.values()), re.MULTILINE))
    modules = {name for name in ls.__all__ if isinstance(getattr(ls, name), type(re))}
    assert sorted(set(ls.__all__) - modules - headings) == []
    assert {"Model.ask", "agent.cost_over", "chats.from_ui"} <= headings


def test_headings_leave_the_module_out(pages: dict[str, str]) -> None:
    """A search for "tools" finds the guide, not each member of tools.ToolOutcome."""
    assert "### `ToolOutcome.failed` { #tools.ToolOutcome.failed }" in pages["tools.md"]
    assert "## `cost_over` { #agent.cost_over }\n\n```python\nagent.cost_over(" in pages["agents.md"]
    assert all(page.startswith("# ") for name, page in pages.items() if name.endswith(".md"))


def test_each_option_has_text_and_default(pages: dict[str, str]) -> None:
    table = pages["options.md"].split("\n## ")[1]
    rows = dict(re.findall(r"^\| `(\w+)` \| <code>.+?</code> \| (\S.*? \| \S.*) \|$", table, re.MULTILINE))
    assert sorted(rows) == sorted(Options.__annotations__)


def test_types_lead_to_their_pages(pages: dict[str, str]) -> None:
    assert "<code>str &#124; [Model](models.md#Model)</code>" in pages["models.md"]


def test_constants_are_shown_as_values(pages: dict[str, str]) -> None:
    assert "max_steps: int | None = 20," in pages["agents.md"]


def test_pages_that_are_gone_are_removed(pages: dict[str, str]) -> None:
    assert "old.md" not in pages
    assert Path(".nav.yml").name in pages
