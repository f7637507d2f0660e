"""The npm package `ai` in several releases: pages of theirs against a server of ours, and their schema.

`npm install --prefix tests/peers` brings them; without it, the tests that need them are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

HERE: Final = Path(__file__).parent
NEWEST: Final = ("ai-5.0.277", "ai-6.0.326", "ai")
STRICT: Final = ("ai-5.0.20", "ai-5.0.115", "ai-6.0.0", "ai-6.0.57", "ai-7.0.0", "ai-7.0.77")
"""Releases that the project is proved against, by their names in `tests/peers/package.json`. All but 7.0.77
refuse a chunk with a field that they do not know."""

RUN_S: Final = 120.0

Answers = dict[str, dict[str, Any]]


def major_of(package: str) -> Any:
    """The version that a writer for a package is made with."""
    return int(package.partition("-")[2][:1] or 7)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the programs find their packages."""
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or HERE.parents[1] / "peers" / "node_modules")
    if shutil.which("node") is None:
        pytest.skip("node is not installed; see tests/peers/README.md")
    absent = [name for name in (*NEWEST, *STRICT) if not (modules / name).is_dir()]
    if absent:
        pytest.skip(f"{absent[0]} of npm is not installed; see tests/peers/README.md")
    place = tmp_path_factory.mktemp("vercel")
    for program in (HERE / "js").glob("*.mjs"):
        shutil.copy(program, place)
    (place / "node_modules").symlink_to(modules.resolve(), target_is_directory=True)
    return place


@pytest.fixture(scope="session")
def complaints(node: Path) -> Iterator[Callable[..., Answers]]:
    """`complaints(body, *packages)`: what each package refuses in a body, and the message that it reads.

    With a list in place of the body: whether each takes the messages of a page that loads.
    """
    process = subprocess.Popen(
        ["node", "chunks.mjs"], cwd=node, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    to_program, from_program = process.stdin, process.stdout

    def ask(given: bytes | list[Any], *packages: str) -> Answers:
        asked = {"messages": given} if isinstance(given, list) else {"body": given.decode()}
        to_program.write(json.dumps({"packages": packages, **asked}) + "\n")
        to_program.flush()
        found: Answers = json.loads(from_program.readline())
        return found

    yield ask
    to_program.close()
    process.wait(10)
    from_program.close()


@pytest.fixture(scope="session")
def play(node: Path) -> Callable[..., Any]:
    """`await play(url, cases, packages)`: what pages of the packages show at the end of each case."""

    async def played(url: str, cases: list[str], packages: tuple[str, ...]) -> dict[tuple[str, str], Any]:
        process = await asyncio.create_subprocess_exec(
            "node",
            "pages.mjs",
            url,
            ",".join(cases),
            *packages,
            cwd=node,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), RUN_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        lines = [json.loads(line) for line in output.splitlines()]
        assert len(lines) == len(cases) * len(packages), errors.decode(errors="replace")
        for line in lines:
            assert line.pop("failure", None) is None, line
        return {(line.pop("package"), line.pop("case")): line for line in lines}

    return played
