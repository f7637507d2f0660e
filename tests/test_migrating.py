"""docs/migrating: both programs of each pair print the same, against one server.

Ours run with the quick tests; with the slow ones also theirs, if the other package is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from anyio.from_thread import start_blocking_portal

from llmstream.simulator import Simulator

ROOT = Path(__file__).resolve().parents[1]
NODE_MODULES = ROOT / "tests" / "peers" / "node_modules"
MODULES = {"openai": "openai", "anthropic": "anthropic", "litellm": "litellm", "pydantic-ai": "pydantic_ai"}
"""Which module a title stands for; LangChain needs two."""


class Pair(NamedTuple):
    """One program of theirs, and ours."""

    page: str
    heading: str
    title: str
    theirs: str
    ours: str


def pairs_of(page: Path) -> Iterator[Pair]:
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = re.findall(
            r'^```(?:python|js) title="([\w-]+)"\n(.*?)^```', section, re.DOTALL | re.MULTILINE
        )
        if not blocks:
            continue
        (title, theirs), (mine, ours) = blocks
        assert mine == "llmstream"
        yield Pair(page.name, section.splitlines()[0], title, theirs, ours)


PAIRS = [pair for page in sorted((ROOT / "docs" / "migrating").glob("*.md")) for pair in pairs_of(page)]


def by_heading(pair: Pair) -> str:
    return f"{pair.page}: {pair.heading}"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a simulator on a loop of its own: programs begin and end theirs."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Simulator(api_keys=["the-key"])) as simulator,
    ):
        yield simulator.url


@pytest.fixture
def environment(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "the-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks a foreign host at its import


def printed_by_ours(program: str, capsys: pytest.CaptureFixture[str]) -> str:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program, "program", "exec", dont_inherit=True), names)
    asyncio.run(names["main"]())
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize("pair", PAIRS, ids=by_heading)
@pytest.mark.usefixtures("environment")
def test_our_half_runs(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    if "pydantic" in pair.ours:
        pytest.importorskip("pydantic")
    assert printed_by_ours(pair.ours, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=by_heading)
@pytest.mark.usefixtures("environment")
def test_both_print_the_same(pair: Pair, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = javascript(pair, tmp_path) if pair.title == "ai" else python(pair)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == printed_by_ours(pair.ours, capsys)


def python(pair: Pair) -> list[str]:
    """Runs their program in an interpreter of its own: its warnings and leaks are not our concern."""
    needed = ["langchain", "langchain_openai"] if pair.title == "langchain" else [MODULES[pair.title]]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    program = f"import asyncio\n{pair.theirs}\nasyncio.run(main())\n"
    return [sys.executable, "-W", "ignore", "-c", program]


def javascript(pair: Pair, folder: Path) -> list[str]:
    node = shutil.which("node")
    if node is None or not (NODE_MODULES / "ai").exists():
        pytest.skip("needs Node, and npm install in tests/peers")
    (folder / "node_modules").symlink_to(NODE_MODULES)
    (folder / "program.mjs").write_text(pair.theirs, encoding="utf-8")
    os.environ["AI_SDK_LOG_WARNINGS"] = "false"
    return [node, str(folder / "program.mjs")]
