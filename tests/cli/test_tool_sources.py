"""Tools from Python files and MCP servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from llmstream.cli.tool_sources import ToolSources, mcp_command, tools_of_file
from llmstream.errors import ConnectionFailed, InvalidRequest, InvalidToolInput

MCP_SERVER = Path(__file__).parents[2] / "examples" / "_mcp_server.py"


@pytest.fixture
def written(tmp_path):
    """`written(source)`: the name of a Python file."""

    def write(source: str) -> str:
        file = tmp_path / "shelf.py"
        file.write_text(source)
        return str(file)

    return write


def test_public_functions_become_tools(written):
    file = written(
        "import os\nfrom pathlib import Path\nimport llmstream as ls\n"
        'def books(shelf: str) -> int:\n    """Counts books."""\n    return 3\n'
        "async def lend(title: str) -> str: return title\n"
        "@ls.tool(name='found')\ndef find(title: str) -> str: return title\n"
        "def _secret(): ...\n"
        "class Shelf: ...\n"
    )
    tools = tools_of_file(file)
    assert [tool.name for tool in tools] == ["books", "lend", "found"]
    assert tools[0].spec.description == "Counts books."


def test_all_limits_the_tools(written):
    assert [t.name for t in tools_of_file(written("__all__ = ['a']\ndef a(): ...\ndef b(): ...\n"))] == ["a"]


def test_a_file_imports_its_neighbours(written, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_shelf.py").write_text("COUNT = 7\n")
    file = written("from neighbour_of_shelf import COUNT\ndef count() -> int: return COUNT\n")
    assert tools_of_file(file)[0]() == 7


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(:\n", "shelf.py, line 1: SyntaxError"),
        ("\n\n1 / 0\n", "shelf.py, line 3: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "SystemExit"),
        ("import os\n", "has no tools"),
        ("def gen():\n    yield 1\n", "gen cannot be a tool"),
    ],
)
def test_a_file_that_fails_names_the_place(written, source, words):
    with pytest.raises(InvalidRequest) as refused:
        tools_of_file(written(source))
    assert words in str(refused.value)


def test_calls_of_own_tools_need_approval(written):
    """The demo's are harmless; a predicate of the author's decides itself."""
    file = written(
        "import llmstream as ls\ndef a(): ...\n"
        "@ls.tool(needs_approval=lambda arguments: False)\ndef b(): ...\n"
    )
    a, b = ToolSources([file]).tools
    assert a.needs_approval is True
    assert callable(b.needs_approval)
    assert [tool.needs_approval for tool in ToolSources(["demo"]).tools] == [False, False]
    assert ToolSources([file], ask=False).tools[0].needs_approval is False


async def test_a_sync_tool_runs_in_a_daemon(written):
    """So that the program can end before it does. Its arguments, result and errors are as ever."""
    file = written(
        "import threading\n"
        "def count(upto: int = 3) -> str: return f'{upto} {threading.current_thread().daemon}'\n"
        "def fail(why: str): raise ValueError(why)\n"
        "def stop(): next(iter(()))\n"
    )
    count, fail, stop = ToolSources([file], ask=False).tools
    assert count.named_arguments('{"upto": 4}') == {"upto": 4}
    assert (await count.run('{"upto": 4}')).content == "4 True"
    assert isinstance((await count.run('{"upto": "x"}')).exception, InvalidToolInput)
    assert "no shelf" in str((await fail.run('{"why": "no shelf"}')).exception)
    assert "StopIteration" in str((await stop.run("")).exception)


def test_tools_of_one_name_are_refused(written):
    with pytest.raises(InvalidRequest, match="weather"):
        ToolSources(["demo", written("def weather(): ...\n")])


def test_a_failed_change_keeps_the_tools():
    sources = ToolSources(["demo"])
    with pytest.raises(InvalidRequest):
        sources.use(["/no/such.py"])
    assert len(sources.tools) == 2
    sources.use([])
    assert sources.tools == []


@pytest.mark.slow
async def test_tools_of_an_mcp_server_are_offered():
    pytest.importorskip("mcp")
    sources = ToolSources(["demo"], [f"{sys.executable} {MCP_SERVER}"])
    try:
        await sources.connect()
        assert [tool.name for tool in sources.tools] == ["weather", "clock", "search", "stock"]
        assert sources.tools[-1].needs_approval is True
    finally:
        await sources.aclose()


def test_an_mcp_command_is_split(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret")
    assert mcp_command("TOKEN=$MY_TOKEN A=1 npx 'my server' --flag=2") == (
        "npx",
        ["my server", "--flag=2"],
        {"TOKEN": "secret", "A": "1"},
    )
    for text in ("", "A=1", "'open"):
        with pytest.raises(InvalidRequest, match="--mcp"):
            mcp_command(text)


async def test_messages_of_a_server_are_kept(capfd, tmp_path):
    """They neither land in an answer nor get lost."""
    pytest.importorskip("mcp")
    failing = tmp_path / "failing.py"
    failing.write_text("import sys; sys.exit('no token was given')\n")
    sources = ToolSources([], [f"{sys.executable} {failing}"])
    with pytest.raises(ConnectionFailed) as refused:
        await sources.connect()
    await sources.aclose()
    log = tmp_path / "state" / "llmstream" / "mcp.log"
    assert str(log) in str(refused.value)
    assert log.read_text() == "no token was given\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert capfd.readouterr().err == ""
