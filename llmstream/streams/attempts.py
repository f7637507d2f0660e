"""The attempts of one call: their number, their time, why they failed, and what no error of them may show."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from llmstream.errors import ConnectionLost, DeadlineExceeded, LLMStreamError
from llmstream.events import ErrorEvent, Event
from llmstream.transport.deadlines import Deadlines, Due, Watchdog, deadline_error, hard_due, sooner

__all__ = ["AttemptClock", "Attempts"]

T = TypeVar("T")


class AttemptClock:
    """Waits for what a call does on the way to its answer, one step at a time, within the deadlines.

    started: loop time at which the attempt began
    """

    def __init__(self, deadlines: Deadlines, total_started: float | None) -> None:
        self.started = 0.0
        self._deadlines = deadlines
        self._total_started = total_started
        self._watchdog: Watchdog | None = None
        self._timer: asyncio.Timeout | None = None  # of the step that is waited for
        self._passed: DeadlineExceeded | None = None
        self._left = False

    @property
    def left(self) -> bool:
        """Whether the call is left, so that nothing more is to be waited for."""
        return self._left

    def begin(self) -> None:
        """The total deadline counts from now, unless it does already."""
        if self._total_started is None:
            self._total_started = asyncio.get_running_loop().time()

    def attempt(self) -> Watchdog:
        """An attempt begins. One timer watches it, up to the end of its answer."""
        self.stop()
        self._passed = None
        self.started = asyncio.get_running_loop().time()
        self._watchdog = Watchdog(
            self._deadlines, self._expire, started=self.started, total_started=self._total_started or 0.0
        )
        return self._watchdog

    def stop(self) -> None:
        """The attempt is over."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.stop()

    def leave(self) -> None:
        """Ends the step that is waited for, and the attempt."""
        self._left = True
        self.stop()
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(0.0)

    async def watched(self, step: Awaitable[T]) -> T:
        """A step of the attempt, up to the head of its answer.

        raises: DeadlineExceeded, ConnectionLost once it is left
        """
        return await self._take(step, None)

    async def in_time(self, step: Awaitable[T], started: float | None, silence: str = "first-event") -> T:
        """A step beside the attempt, within deadlines of its own.

        started: when it was begun; None where only the total deadline counts
        silence: the deadline that counts from there
        raises:  as `watched`
        """
        return await self._take(step, self._due(started, silence))

    def past_total(self, wait_s: float) -> bool:
        """Whether the total deadline would pass during a wait."""
        total_s, started = self._deadlines.total_s, self._total_started
        if total_s is None or started is None:
            return False
        return asyncio.get_running_loop().time() + wait_s > started + total_s

    async def _take(self, step: Awaitable[T], due: Due | None) -> T:
        try:
            async with asyncio.timeout_at(due[0] if due else None) as timer:
                self._timer = timer
                return await step
        except DeadlineExceeded:  # the step's own
            raise
        except TimeoutError:
            if self._left:
                raise ConnectionLost("the stream was left while it was read", retryable=False) from None
            passed = self._passed if due is None else deadline_error(due[1], due[2])
            if passed is None or not timer.expired():
                raise  # the step's own
            raise passed from None
        finally:
            self._timer = None

    def _expire(self, error: DeadlineExceeded) -> None:
        self._passed = error
        if self._timer is not None:
            self._timer.reschedule(0.0)

    def _due(self, started: float | None, silence: str) -> Due | None:
        """The next deadline; only the total one where nothing was begun."""
        deadlines = self._deadlines
        step_started = None if started is None else self.started
        hard = hard_due(deadlines, step_started=step_started, total_started=self._total_started or 0.0)
        silence_s = deadlines.first_event_s if silence == "first-event" else deadlines.idle_s
        if started is None or silence_s is None:
            return hard
        return sooner((started + silence_s, silence, silence_s), hard)


class Attempts:
    """What a call and those that ask for the rest of its answer know of its attempts.

    clock:    what is waited for before there is an answer
    count:    how often a request was sent
    failures: of the attempts before the last
    secrets:  gives what no error may show
    """

    def __init__(self, provider: str, deadlines: Deadlines, total_started: float | None) -> None:
        self._provider = provider
        self.clock = AttemptClock(deadlines, total_started)
        self.count = 0
        self.failures: list[LLMStreamError] = []
        self.secrets: Callable[[], tuple[str, ...]] = tuple

    def scrubbed(self, error: LLMStreamError) -> LLMStreamError:
        """The same error, without any key that the vendor's words echo."""
        error.attempts = self.count
        if error.provider is None:
            error.provider = self._provider
        error.message = self.without_secrets(error.message)
        error.args = (error.message,)
        error.reason = error.reason and self.without_secrets(error.reason)
        error.request_id = error.request_id and self.without_secrets(error.request_id)
        error.param = error.param and self.without_secrets(error.param)
        error.details = error.details and self._masked(error.details)
        # What led to it holds the request in its frames; it has said its words in the message.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)

    def scrubbed_events(self, events: list[Event]) -> list[Event]:
        """The same events; an error among them without any key."""
        return [self._scrubbed_event(event) if type(event) is ErrorEvent else event for event in events]

    def _scrubbed_event(self, event: ErrorEvent) -> ErrorEvent:
        said = event.error
        said = msgspec.structs.replace(
            said,
            message=self.without_secrets(said.message),
            reason=said.reason and self.without_secrets(said.reason),
            request_id=said.request_id and self.without_secrets(said.request_id),
            param=said.param and self.without_secrets(said.param),
            details=said.details and self._masked(said.details),
        )
        return ErrorEvent(said, event.provider_metadata)

    def _masked(self, value: Any) -> Any:
        """What a vendor says beside its message, whatever its shape; values without keys stay as they are."""
        if isinstance(value, str):
            return self.without_secrets(value)
        if isinstance(value, dict):
            return {self._masked(key): self._masked(inner) for key, inner in value.items()}
        return [self._masked(inner) for inner in value] if isinstance(value, list) else value

    def without_secrets(self, text: str) -> str:
        """The text with every secret masked."""
        for secret in self.secrets():
            text = text.replace(secret, "***")
        return text
