"""Answers that a vendor cuts into several responses: each next one is asked for, within one call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from llmstream.dialects.base import Place
from llmstream.errors import (
    ConnectionLost,
    DeadlineExceeded,
    IncompleteStream,
    LimitExceeded,
    LLMStreamError,
    ProtocolError,
)
from llmstream.streams.plan import Continued, Plan
from llmstream.streams.reporting import Reporter
from llmstream.streams.resuming import checked
from llmstream.transport.deadlines import Watchdog
from llmstream.transport.http import Body
from llmstream.transport.retry import budget_of, wait_before_retry_s

if TYPE_CHECKING:
    from llmstream.streams.call import Call

__all__ = ["Continuer"]

_MOST: Final = 100
"""Further responses of one answer: 6.5 million tokens of Gemini 4, so that this ends only a loop."""


class Continuer:
    """Finds the next response of one call's answer, within its deadlines and by its retry policy.

    A response that breaks before it says anything is asked for again; tries count from each place.
    """

    def __init__(self, call: Call, plan: Plan, continued: Continued, report: Reporter) -> None:
        self._call = call
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
        call, error = self._call, failure
        while True:
            if error is not None:
                await self._wait(error)
            if call.steps.left:
                raise ConnectionLost("the stream was left while it was read", retryable=False)
            call.attempts += 1
            self._report.started(call.attempts)
            try:
                response, watchdog = await call.request(lambda: self._continued(place))
                return await checked(self._plan, response), watchdog
            except LLMStreamError as again:
                error = call.scrubbed(again)
                call.slow_down(error)

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
        call, steps = self._call, self._call.steps
        self._failures += 1
        wait_s = wait_before_retry_s(self._plan.retry, error, self._failures)
        if wait_s is None or steps.past_total(wait_s) or not budget_of(self._plan.provider).take(error):
            self._report.failed(call.attempts, error, None)
            raise error if isinstance(error, DeadlineExceeded) and not error.retryable else _given_up(error)
        self._report.failed(call.attempts, error, wait_s)
        call.retried.append(error)
        await steps.in_time(asyncio.sleep(wait_s), None)


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
