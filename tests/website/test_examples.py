from __future__ import annotations

from pathlib import Path

import pytest

from website.examples import ROOT, page, write

CODE = '"""Calls a server.\n\nAnd more.\n"""\n\nimport llmstream as ls\n\nprint(ls)\n'


def test_a_page_is_docstring_then_code() -> None:
    """The comment stands below the title, which begins the page for the search."""
    title, comment, *rest = (
        page("mcp_tools.py", "Calls a server.\n\nAnd more.", CODE).strip().split("\n\n", 5)
    )
    assert title == "# MCP tools"
    assert comment.startswith("<!-- Made by")
    assert rest[:2] == ["Calls a server.", "And more."]
    assert rest[2].startswith("[`examples/mcp_tools.py`](https://github.com/")
    assert rest[3] == "```python\nimport llmstream as ls\n\nprint(ls)\n```"


@pytest.mark.parametrize("name", ["mcp_tools", "websocket", "sub_agents"])
def test_titles_are_spelled_as_people_do(name: str) -> None:
    spelled = {"mcp_tools": "MCP tools", "websocket": "WebSocket", "sub_agents": "Sub-agents"}
    assert page(f"{name}.py", "", CODE).startswith(f"# {spelled[name]}\n")


def test_each_program_has_page_and_row(tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "old.md").write_text("of a program that is gone")
    write(folder)
    programs = {path.stem for path in (ROOT / "examples").glob("[!_]*.py")}
    assert {path.stem for path in folder.glob("*.md")} == programs | {"index"}
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert index.startswith("# Examples\n")
    assert all(f"| [`{name}.py`]({name}.md) | " in index for name in programs)
    applications = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    assert "use_chat" in applications
    assert all(f"| [`{name}/`](https://github.com/" in index for name in applications)
    assert "  - chat.md\n" in (folder / ".nav.yml").read_text(encoding="utf-8")
