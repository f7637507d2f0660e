"""`llmstream inspect`: its help, and what it cannot show. The page is in `test_page.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmstream.cli import main
from tests.dialects.recordings import SSE


def test_what_it_cannot_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("Dear Sir or Madam")
    for arguments, message in (
        (["none.txt"], "no such file or folder"),
        ([str(tmp_path / "letter.txt")], "Add --dialect DIALECT"),
        (["--dialect", "esperanto", str(SSE[0])], "unknown dialect"),
        (["--port", "99999"], "a port is a number"),
    ):
        assert main(["inspect", "--no-open", *arguments]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_its_help_names_the_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("ls.inspect()", "cassette", "sqlite:PATH", "--dialect"):
        assert word in text
