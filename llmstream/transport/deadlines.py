"""Deadlines for the parts of a stream, in seconds; all finite by default."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from llmstream.errors import DeadlineExceeded, InvalidRequest

__all__ = ["Deadlines", "Due", "Watchdog", "deadline_error", "hard_due", "sooner"]


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in seconds; None disables one. The defaults leave room for reasoning models.

    connect_s:     name look-up, TCP and TLS
    first_event_s: from sending the request to the first content
    idle_s:        between two pieces of content; pings and empty deltas do not count as content
    step_s:        one response from request to finish
    total_s:       the complete stream: attempts, waits, every step, tools included
    raises:        InvalidRequest for anything but a number of seconds
    """

    # Allows for three lost SYNs, which Linux retransmits after 1, 3 and 7 s, and for a TLS handshake.
    connect_s: float | None = 15.0
    # Models that reason without streaming it are silent for minutes; vendors' SDKs also wait 600 s.
    first_event_s: float | None = 600.0
    # A large tool input may arrive in one piece after minutes of pings (Anthropic without eager input).
    idle_s: float | None = 180.0
    step_s: float | None = 1800.0
    total_s: float | None = 3600.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit_s = getattr(self, name)
            if limit_s is not None and not (isinstance(limit_s, int | float) and limit_s > 0):
                raise InvalidRequest(
                    f"{name} is a positive number of seconds, or None for no limit; got {limit_s!r}"
                )


# Enforces deadlines on a body with one timer, at next to no cost per piece.
#
# aiohttp's own read timeout counts bytes, so pings keep a dead stream alive, and it misses some
# stalls altogether. This one counts content: the reader records when it starts to wait for content, and the
# timer compares only when it fires.

Due: TypeAlias = tuple[float, str, float]
"""When a deadline passes, in loop time; its name; its length in seconds."""

_SETTING = {
    "connect": "connect_s",
    "first-event": "first_event_s",
    "idle": "idle_s",
    "step": "step_s",
    "total": "total_s",
}


def deadline_error(which: str, limit_s: float) -> DeadlineExceeded:
    """The error that names the passed deadline and how to change it."""
    what = {
        "first-event": "no content came",
        "idle": "no further content came",
        "step": "the response was not finished",
        "total": "the stream was not finished",
    }.get(which, "no connection stood")
    return DeadlineExceeded(
        f"{what} within {limit_s:g} s. To wait longer pass deadlines=Deadlines({_SETTING[which]}=...).",
        reason=which,
        retryable=which in ("connect", "first-event", "idle"),
    )


def hard_due(deadlines: Deadlines, *, step_started: float | None, total_started: float) -> Due | None:
    """The next deadline that does not depend on idle time; a step that has not begun has none."""
    step_s, total_s = deadlines.step_s, deadlines.total_s
    step = None if step_s is None or step_started is None else (step_started + step_s, "step", step_s)
    total = None if total_s is None else (total_started + total_s, "total", total_s)
    return sooner(step, total)


def sooner(first: Due | None, second: Due | None) -> Due | None:
    """The deadline that passes first, if there is one."""
    if first is None or second is None:
        return first or second
    return first if first <= second else second


def _ignore(error: DeadlineExceeded) -> None:
    """The callback of a stopped watchdog."""


class Watchdog:
    """Calls `abort` when a deadline passes.

    waiting_since: loop time at which the reader began to wait for content; None while the
                   consumer works, whose time does not count as idle
    """

    def __init__(
        self,
        deadlines: Deadlines,
        abort: Callable[[DeadlineExceeded], None],
        *,
        started: float,
        total_started: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._abort = abort
        self._deadlines = deadlines
        self._hard = hard_due(deadlines, step_started=started, total_started=total_started)
        self.waiting_since: float | None = started
        self._soft = ("first-event", deadlines.first_event_s)
        self._timer: asyncio.TimerHandle | None = None
        self._arm(started)

    def hand_over(self, abort: Callable[[DeadlineExceeded], None]) -> None:
        """Replaces the callback; calls it at once if a deadline has just passed."""
        self._abort = abort
        if self._timer is None:
            self._arm(self._loop.time())

    def content_arrived(self) -> None:
        """Switches to the idle deadline; the timer fires before it can pass."""
        self._soft = ("idle", self._deadlines.idle_s)

    def go_on(self) -> None:
        """Continues with another connection: idle time counts from now, the other deadlines as before."""
        self.waiting_since = now = self._loop.time()
        self._arm(now)

    def stop(self) -> None:
        """Ends all deadlines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self) -> None:
        """Ends all deadlines permanently and clears the callback, which would form a reference cycle."""
        self.stop()
        self._abort = _ignore

    def _due(self, now: float) -> Due | None:
        which, limit = self._soft
        if limit is None:
            return self._hard
        since = self.waiting_since
        # Idle time does not count while the consumer works: the deadline is postponed until it waits again.
        return sooner(((now if since is None else since) + limit, which, limit), self._hard)

    def _arm(self, now: float) -> None:
        self.stop()
        due, idle_s = self._due(now), self._deadlines.idle_s
        at = None if due is None else due[0]
        # Never later than an idle deadline that begins now, so that the first content needs no second timer.
        if idle_s is not None and (at is None or now + idle_s < at):
            at = now + idle_s
        if at is not None:
            self._timer = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        now = self._loop.time()
        due = self._due(now)
        # The reader updates `waiting_since`, not the timer: rescheduling it for each piece would cost too
        # much.
        if due is not None and due[0] <= now:
            self._timer = None
            self._abort(deadline_error(due[1], due[2]))
        else:
            self._arm(now)
