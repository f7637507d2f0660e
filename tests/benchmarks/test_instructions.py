"""What the guard reports of two counts, and that programs run and are counted the same each time."""

from __future__ import annotations

import sys

import pytest

from benchmarks import guard, instructions


@pytest.mark.parametrize(
    ("now", "news"), [(10_300, "+3.0%  WORSE"), (10_100, "+1.0%"), (9_700, "-3.0%  better: --record")]
)
def test_two_percent_more_is_worse(now: int, news: str):
    (line,) = guard.compared({"fold": now}, {"fold": 10_000}, 0.02)
    assert line.endswith(news)
    assert guard.worse({"fold": now}, {"fold": 10_000}, 0.02) == ({"fold"} if "WORSE" in news else set())


def test_without_valgrind_it_is_skipped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["bench_guard", "--instructions"])
    assert guard.main() == 0
    assert capsys.readouterr().out == "skipped: valgrind is not installed\n"


@pytest.mark.parametrize(
    "program",
    [
        "call/mistral/tools",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("encode/cohere", "agent/10 steps")),
    ],
)
async def test_programs_run_in_memory(program: str, capsys: pytest.CaptureFixture[str]):
    await instructions._run(program)
    assert capsys.readouterr().out.splitlines() == [instructions.EMPTY, program]


@pytest.mark.slow
@pytest.mark.skipif(bool(instructions.unavailable()), reason="valgrind is not installed")
def test_valgrind_counts_one_program():
    (counted,) = instructions.count("encode/ollama").items()
    assert counted[0] == "encode/ollama"
    assert 100_000 < counted[1] < 1_000_000  # of one round, without what came before
