"""Writes a page for each program in `examples/`: what it shows, how to run it, and its code.

Applications, which are folders with a README.md, are listed with a link to the folder.
"""

from __future__ import annotations

import ast
from pathlib import Path

from website.pages import write_pages

__all__ = ["write"]

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "https://github.com/llmstream-sdk/llmstream/blob/main/examples/"
FOLDERS = "https://github.com/llmstream-sdk/llmstream/tree/main/examples/"
_HEADER = "<!-- Made by website/examples.py; do not edit. -->"
# Parts of titles that are not spelled as in a file's name.
_SPELLED = {"Mcp": "MCP", "Websocket": "WebSocket", "Sub agent": "Sub-agent"}

_TITLE = "# Examples"
_INTRO = """Short programs, one idea each. They run with the simulator, without a key:
`python examples/chat.py`. Most have the option `--live PROVIDER:MODEL`, which asks a real model."""


def write(folder: Path) -> None:
    """Writes the pages to a folder, and removes others."""
    texts: dict[str, str] = {}
    rows = ["| program | shows |", "| --- | --- |"]
    for path in sorted((ROOT / "examples").glob("[!_]*.py")):
        code = path.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(code)) or ""
        name = f"{path.stem}.md"
        rows.append(f"| [`{path.name}`]({name}) | {docstring.splitlines()[0]} |")
        texts[name] = page(path.name, docstring, code)
    rows += [_application(path) for path in sorted((ROOT / "examples").glob("*/README.md"))]
    texts["index.md"] = "\n\n".join([_TITLE, _HEADER, _INTRO, "\n".join(rows)]) + "\n"
    write_pages(folder, texts, order=["index.md", *sorted(texts.keys() - {"index.md"})])


def _application(readme: Path) -> str:
    """The row of an application: its name, and the first paragraph of its README."""
    name = readme.parent.name
    about = readme.read_text(encoding="utf-8").split("\n\n")[1]
    return f"| [`{name}/`]({FOLDERS}{name}) | {' '.join(about.split())} |"


def page(name: str, docstring: str, code: str) -> str:
    """The page of a program; its docstring becomes the text."""
    title = name.removesuffix(".py").replace("_", " ").capitalize()
    for written, spelled in _SPELLED.items():
        title = title.replace(written, spelled)
    body = code.partition('"""')[2].partition('"""')[2].strip()
    parts = [
        f"# {title}",
        _HEADER,
        docstring,
        f"[`examples/{name}`]({SOURCE}{name})",
        f"```python\n{body}\n```",
    ]
    return "\n\n".join(parts) + "\n"
