"""The progress of a map: figures within the width of a terminal, colours, terminals that cannot redraw."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections import Counter

import pytest

from llmstream.cli.map.progress import figures, fitted
from llmstream.mapping import MapProgress
from llmstream.usage import Usage

BUSY = MapProgress(
    done=61_234,
    failed=Counter({"bad-request": 12, "context-too-long": 3}),
    usage=Usage(9_000_000, 1_000_000),
    cost=12.3,
    under_way=40,
    concurrency=64,
    refused=17,
)


def test_figures_of_a_busy_run():
    assert figures(BUSY, 200_000, 52.4, 9_810.0) == [
        "61,234/200,000 rows (30 %)",
        "52 rows/s",
        "44:08 left",
        "9,810 tokens/s",
        "$12.30",
        "40 of 64 at once",
        "15 failed (bad-request 12, context-too-long 3)",
        "refused 17 times",
    ]


def test_figures_of_an_unknown_total():
    waiting = MapProgress(done=5, concurrency=8, refused=1, paused_s=12.4)
    expected = ["5 rows", "0 of 8 at once", "waiting 12 s: the vendor refuses requests"]
    assert figures(waiting, None, 0.0, 0.0) == expected


@pytest.mark.parametrize("width", [20, 37, 77, 117, 400])
def test_figures_fit_the_width(width):
    facts = figures(BUSY, 200_000, 52.4, 9_810.0)
    rows = fitted(facts, width)
    assert max(map(len, rows)) <= width
    whole = [fact for fact in facts if len(fact) <= width]
    assert all(fact in ", ".join(rows) for fact in whole)
    assert (len(rows) == 1) == (width == 400)


def on_a_terminal(argv: list[str], *, columns: int = 80, without: str = "", **env: str) -> bytes:
    """What the program writes on a terminal, as if a package were not installed."""
    fcntl = pytest.importorskip("fcntl", reason="needs pseudo-terminals")
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown, hidden = b"", f"import sys; sys.modules[{without!r}] = None; " if without else ""
    with subprocess.Popen(
        [sys.executable, "-c", f"{hidden}from llmstream.cli import main; main()", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "OPENAI_API_KEY": "k", "TERM": "xterm-256color", **env},
    ):
        os.close(theirs)
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux, when the program has closed it
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    return shown


@pytest.fixture
def argv(simulate, counted, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("".join(f"row {number}\n" for number in range(40)))
    url = simulate(counted(pause_s=0.2)).url
    return ["map", str(source), "-m", "openai:m", "--base-url", f"{url}/v1", "--prompt", "{{text}}"]


def test_a_terminal_has_bar_and_colours(argv):
    pytest.importorskip("rich", reason="the bar comes with the extra `cli`")
    shown = on_a_terminal(argv)
    assert "━".encode() in shown
    assert b"/40 rows (" in shown
    assert b"\x1b[38;" in shown
    assert b"llmstream: 40 rows, " in shown


@pytest.mark.slow
@pytest.mark.parametrize(("option", "env"), [("--no-color", {}), ("--yes", {"NO_COLOR": "1"})])
def test_no_color_has_a_bar_alone(argv, option, env):
    pytest.importorskip("rich", reason="the bar comes with the extra `cli`")
    shown = on_a_terminal([*argv, option], **env)
    assert "━".encode() in shown
    assert b"\x1b[3" not in shown


@pytest.mark.slow
def test_a_dumb_terminal_gets_lines(argv):
    shown = on_a_terminal(argv, TERM="dumb")
    assert b"\x1b" not in shown
    assert b"llmstream: 40 rows, " in shown


@pytest.mark.slow
def test_one_row_is_drawn_without_rich(argv):
    """Each picture of it fits into the terminal: a longer one would leave rows behind."""
    shown = on_a_terminal(argv, columns=40, without="rich").decode()
    rows = [piece.partition("\r")[0] for piece in shown.split("\r\x1b[K")[1:-1]]
    assert len(rows) > 3
    assert all("/40 rows" in row for row in rows)
    assert max(map(len, rows)) <= 37
    assert "llmstream: 40 rows, " in shown
