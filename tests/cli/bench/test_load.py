"""When requests are sent, what they ask, and how far they are."""

from __future__ import annotations

import asyncio
import io
from itertools import pairwise

import pytest

from llmstream.cli.bench.load import Progress, arrivals, closed_loop, lines_of, made_prompt, open_loop
from llmstream.errors import InvalidRequest


class Clock:
    """A clock that only moves when someone sleeps on it."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


def test_arrivals_are_seeded_at_the_rate():
    due = list(arrivals(4000, 20.0, seed=3))
    assert due == list(arrivals(4000, 20.0, seed=3))
    assert due != list(arrivals(4000, 20.0, seed=4))
    assert due[0] == 0
    assert due[-1] == pytest.approx(4000 / 20, rel=0.05)
    gaps = [b - a for a, b in pairwise(due)]
    assert sum(g < 0.05 for g in gaps) / len(gaps) == pytest.approx(0.632, abs=0.03)  # 1 - 1/e


async def test_open_loop_ignores_pending_responses():
    clock, seen, over = Clock(), [], asyncio.Event()

    async def one(number, due):
        seen.append((number, due))
        if len(seen) == 3:
            over.set()
        await over.wait()  # none is answered before all have been sent

    await asyncio.wait_for(open_loop(one, iter([0.0, 1.0, 2.5]), clock.now, clock.sleep), 5)
    assert seen == [(0, 100.0), (1, 101.0), (2, 102.5)]


async def test_late_open_loop_keeps_due_requests():
    clock, seen = Clock(), []

    async def one(number, due):
        seen.append((due, clock.now()))

    async def oversleep(seconds):
        clock.at += seconds + 10
        await asyncio.sleep(0)

    await open_loop(one, iter([0.0, 1.0, 2.0]), clock.now, oversleep)
    assert [due for due, _ in seen] == [100.0, 101.0, 102.0]
    assert seen[-1][1] == 111.0


async def test_a_closed_loop_has_so_many_under_way():
    under_way, most, seen = 0, 0, []

    async def one(number, due):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        seen.append(number)

    await closed_loop(one, 10, 3)
    assert (most, sorted(seen)) == (3, list(range(10)))


async def test_single_request_error_raised_as_is():
    async def one(number, due):
        raise InvalidRequest("wrong")

    with pytest.raises(InvalidRequest, match="wrong"):
        await closed_loop(one, 5, 2)
    with pytest.raises(InvalidRequest, match="wrong"):
        await open_loop(one, iter([0.0, 0.0]))


# Prompts


def test_made_prompts_have_length_and_differ():
    assert len(made_prompt(0, tokens=40, seed=1).split()) == 40
    assert made_prompt(0, tokens=40, seed=1) == made_prompt(0, tokens=40, seed=1)
    assert len({made_prompt(number, tokens=40, seed=1) for number in range(-2, 20)}) == 22


def test_a_file_has_a_prompt_a_line(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("One?\n\n  Two? \n")
    assert lines_of(str(path)) == ["One?", "Two?"]
    path.write_text("\n")
    with pytest.raises(InvalidRequest, match="no prompts"):
        lines_of(str(path))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_only_on_a_terminal(monkeypatch):
    monkeypatch.setattr("llmstream.cli.bench.load._bar_of", lambda total, out: None)
    for out, shown in ((Terminal(), True), (io.StringIO(), False)):
        with Progress(2, out) as progress:
            progress.advance()
            progress.advance(failed=True)
        assert ("2/2, 1 failed" in out.getvalue()) is shown


def test_progress_is_a_bar_with_rich():
    pytest.importorskip("rich")
    out = Terminal()
    with Progress(2, out) as progress:
        progress.advance()
        progress.advance()
    assert "2/2" in out.getvalue()
