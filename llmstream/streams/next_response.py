"""Answers that a vendor cuts into several responses: each next one is asked for, within one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from llmstream.dialects.base import Place
from llmstream.errors import (
    ConnectionLost,
    DeadlineExceeded,
    IncompleteStream,
    LimitExceeded,
    LLMStreamError,
    ProtocolError,
)
from llmstream.streams.attempts import Attempts
from llmstream.streams.call import Continued, Plan, Prepared
from llmstream.streams.reporting import Reporter
from llmstream.streams.resuming import checked
from llmstream.transport.deadlines import Watchdog
from llmstream.transport.http import Body
from llmstream.transport.retry import budget_of, wait_before_retry_s

__all__ = ["Continuer"]

AskFor: TypeAlias = Callable[[Callable[[], Awaitable[Prepared]]], Awaitable[tuple[Body, Watchdog]]]
"""(how a request is made) to the head of its answer, and what watches it from then on."""

_MOST: Final = 100
"""Further responses of one answer: 6.5 million tokens of Gemini 4, so that this ends only a loop."""


class Continuer:
    """Finds the next response of one call's answer, within its deadlines and by its retry policy.

    A response that breaks before it says anything is asked for again; tries count from each place.
    """

    def __init__(
        self,
        attempts: Attempts,
        plan: Plan,
        continued: Continued,
        report: Reporter,
        *,
        request: AskFor,
        slow_down: Callable[[LLMStreamError], None],
    ) -> None:
        self._attempts = attempts
        self._request = request
        self._slow_down = slow_down
        self._plan = plan
        self._continued = continued
        self._report = report
        self._asked: Place | None = None
        self._count = 0
        self._failures = 0

    async def find(self, place: Place, failure: LLMStreamError | None) -> tuple[Body, Watchdog]:
        """The response that goes on at a place, and what watches it.

        failure: why the one before ended; None where the vendor ended it there
        raises:  IncompleteStream with the last failure once the policy has no further try,
                 DeadlineExceeded, ProtocolError where the answer does not get on, LimitExceeded
        """
        self._get_on(place, failure)
        attempts, error = self._attempts, failure
        while True:
            if error is not None:
                await self._wait(error)
            if attempts.clock.left:
                raise ConnectionLost("the stream was left while it was read", retryable=False)
            attempts.count += 1
            self._report.started(attempts.count)
            try:
                response, watchdog = await self._request(lambda: self._continued(place))
                return await checked(self._plan, response), watchdog
            except LLMStreamError as again:
                error = attempts.scrubbed(again)
                self._slow_down(error)

    def _get_on(self, place: Place, failure: LLMStreamError | None) -> None:
        """Counts the responses; the same place twice is progress for nobody."""
        if place == self._asked:
            if failure is None:
                raise ProtocolError(
                    "the answer does not get on: the vendor ended a response where it began. "
                    "What came is kept in .partial; ask again.",
                    provider=self._plan.provider,
                )
            return
        self._asked, self._failures = place, 0
        self._count += 1
        self._report.continued()
        if self._count > _MOST:
            raise LimitExceeded(
                f"the answer goes on after {_MOST} further responses, which is the most that are asked for. "
                "The metadata of the finish has the token to continue it.",
                provider=self._plan.provider,
            )

    async def _wait(self, error: LLMStreamError) -> None:
        """Waits before the next try.

        raises: what ends the answer, where there is to be none
        """
        attempts, clock = self._attempts, self._attempts.clock
        self._failures += 1
        wait_s = wait_before_retry_s(self._plan.retry, error, self._failures)
        if wait_s is None or clock.past_total(wait_s) or not budget_of(self._plan.provider).take(error):
            self._report.failed(attempts.count, error, None)
            raise error if isinstance(error, DeadlineExceeded) and not error.retryable else _given_up(error)
        self._report.failed(attempts.count, error, wait_s)
        attempts.failures.append(error)
        await clock.in_time(asyncio.sleep(wait_s), None)


def _given_up(error: LLMStreamError) -> IncompleteStream:
    """The end of an answer that has begun, whatever it was that its next request met."""
    return IncompleteStream(
        "the vendor cut the answer into several responses, and the next one did not come. What came is kept "
        f"in .partial, and the metadata of the finish has the token to continue it. Cause: {error.message}",
        provider=error.provider,
        status=error.status,
        retryable=error.retryable,
        retry_after_s=error.retry_after_s,
        request_id=error.request_id,
        reason=error.code,
    )
