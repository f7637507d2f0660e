"""`llmstream inspect`: its help, and what it cannot show. The page is in `test_page.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmstream.cli import main
from tests.dialects.recordings import SSE
from tests.inspector.conftest import END, chunk


def test_what_it_cannot_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("Dear Sir or Madam")
    for arguments, message in (
        (["none.txt"], "no such file or folder"),
        ([str(tmp_path / "letter.txt")], "not a recorded stream: its format is not known. If"),
        (["--dialect", "esperanto", str(SSE[0])], "unknown dialect"),
        (["--port", "99999"], "expected a number from 0 to 65535"),
    ):
        assert main(["inspect", "--no-open", *arguments]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_its_help_names_the_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("ls.inspect()", "cassette", "sqlite:PATH", "--dialect"):
        assert word in text


def test_a_body_without_times_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--list", str(SSE[0])]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[3:5] == ["-", "-"]


async def test_calls_are_listed_and_exported(
    traced: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(await traced([[chunk("a"), END], [chunk("a"), chunk("b")]]))
    assert main(["inspect", "--list", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ("deepseek:deepseek-chat" in lines[0], " cut " in lines[0]) == (True, True)
    assert "The response is cut" in lines[1]
    assert main(["inspect", "--json", path]) == 0
    cut, whole = map(json.loads, capsys.readouterr().out.splitlines())
    assert (cut["state"], whole["state"]) == ("cut", "complete")
    assert any("is cut" in text for text in cut["findings"])
    assert not any("is cut" in text for text in whole["findings"])
    file = tmp_path / "test_it.py"
    assert main(["inspect", path, "--export", "test", "--call", "2", "-o", str(file)]) == 0
    compile(file.read_text(), "test_it.py", "exec")
    for arguments, message in (
        (["--export", "test", "-o", str(file)], "already exists"),
        (["--export", "test", "--call", "3"], "there is no call 3"),
        (["--export", "recording"], "Add -o FILE.zip"),
    ):
        assert main(["inspect", path, *arguments]) == 2
        assert message in capsys.readouterr().err
    assert main(["inspect", path, "--export", "trace"]) == 0
    assert capsys.readouterr().out.startswith('{"type":"trace"')
