"""How long each part of a stream may take."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import pytest

from llmstream.errors import DeadlineExceeded, InvalidRequest
from llmstream.transport.deadlines import Deadlines, Watchdog


@pytest.mark.parametrize("wrong", [-1, 0, "5", math.nan])
def test_non_numeric_deadline_is_refused(wrong) -> None:
    with pytest.raises(InvalidRequest, match="idle_s is a positive number of seconds"):
        Deadlines(idle_s=wrong)


def test_none_is_no_limit() -> None:
    assert Deadlines(idle_s=None, total_s=0.5).idle_s is None


class Clock:
    """A loop's clock and its one timer."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers = 0
        self._due: tuple[float, Callable[[], None]] | None = None

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Clock:
        self.timers += 1
        self._due = when, call
        return self

    def cancel(self) -> None:
        self._due = None

    def advance(self, to: float) -> None:
        while self._due is not None and self._due[0] <= to:
            (self.now, call), self._due = self._due, None
            call()
        self.now = to


Watched = tuple[Clock, Watchdog, list[str | None]]


@pytest.fixture
def watched(monkeypatch) -> Callable[[Deadlines], Watched]:
    """Makes a watchdog; with its clock, and a list of the deadlines that have passed."""

    def make(deadlines: Deadlines) -> Watched:
        clock, passed = Clock(), list[str | None]()
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)

        def abort(error: DeadlineExceeded) -> None:
            passed.append(error.reason)

        return clock, Watchdog(deadlines, abort, started=0.0, total_started=0.0), passed

    return make


def test_first_content_arms_no_second_timer(watched) -> None:
    clock, watchdog, passed = watched(Deadlines(first_event_s=600, idle_s=180))
    clock.advance(100)
    watchdog.content_arrived()
    watchdog.stop()
    assert (clock.timers, passed) == (1, [])


@pytest.mark.parametrize("first_event_s", [600, 30, None])
@pytest.mark.parametrize("step_s", [1800, None])
def test_idle_counts_from_the_last_content(watched, first_event_s, step_s) -> None:
    clock, watchdog, passed = watched(
        Deadlines(first_event_s=first_event_s, idle_s=50, step_s=step_s, total_s=None)
    )
    clock.advance(20)
    watchdog.content_arrived()
    watchdog.waiting_since = 20.0
    clock.advance(69.9)
    assert passed == []
    clock.advance(70)
    assert passed == ["idle"]


@pytest.mark.parametrize("idle_s", [50, 1000, None])
def test_first_content_has_all_its_time(watched, idle_s) -> None:
    clock, _, passed = watched(Deadlines(first_event_s=600, idle_s=idle_s))
    clock.advance(599.9)
    assert passed == []
    clock.advance(600)
    assert passed == ["first-event"]


def test_reader_that_works_is_not_silent(watched) -> None:
    clock, watchdog, passed = watched(Deadlines(idle_s=50, step_s=500))
    watchdog.content_arrived()
    watchdog.waiting_since = None
    clock.advance(499.9)
    assert passed == []
    clock.advance(500)
    assert passed == ["step"]


def test_watchdog_without_limits_has_no_timer(watched) -> None:
    clock, _, _ = watched(Deadlines(first_event_s=None, idle_s=None, step_s=None, total_s=None))
    assert clock.timers == 0
