"""The rest of an answer that broke off: on another connection, or in one piece once it is made."""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from llmstream.dialects.base import Position
from llmstream.errors import BadRequest, DeadlineExceeded, LLMStreamError
from llmstream.streams.attempts import Attempts
from llmstream.streams.call import KeptAnswer, Plan
from llmstream.streams.reporting import Reporter
from llmstream.streams.resuming import open_kept, read_kept
from llmstream.transport.http import Body
from llmstream.transport.retry import budget_of, wait_before_retry_s

__all__ = ["Reopener", "Rest"]

Rest: TypeAlias = Body | bytes
"""The rest as a stream, or the whole answer as the vendor keeps it."""

_LOOK_AGAIN_S: Final = 2.0


class Reopener:
    """Finds the rest for one call, within its deadlines and by its retry policy.

    Tries count from each event that has come: `Retry.max_retries` of them, with its waits. OpenAI
    streams an answer for some minutes only; after that it is waited for, and taken whole.
    """

    def __init__(self, attempts: Attempts, plan: Plan, kept: KeptAnswer, report: Reporter) -> None:
        self._attempts = attempts
        self._plan = plan
        self._kept = kept
        self._report = report
        self._stuck = (-1, 0)  # where the answer broke off last, and how often it did there

    async def find(self, failure: LLMStreamError, position: Position) -> Rest | None:
        """The rest; None where it is not to be had, which the message of `failure` then says.

        raises: DeadlineExceeded where the step or the whole stream has no time left
        """
        attempts, error = self._attempts, failure
        clock = attempts.clock
        while True:
            where, times = self._stuck
            times = times + 1 if where == position.sequence_number else 1
            self._stuck = position.sequence_number, times
            wait_s = wait_before_retry_s(self._plan.retry, error, times)
            if wait_s is None or clock.past_total(wait_s) or not budget_of(self._plan.provider).take(error):
                if error is not failure:
                    failure.message += f" Reading on failed: {error.message}"
                return None
            self._report.failed(attempts.count, error, wait_s)
            attempts.failures.append(error)
            await asyncio.sleep(wait_s)
            attempts.count += 1
            self._report.started(attempts.count)
            try:
                return await self._ask(position)
            except LLMStreamError as again:
                error = attempts.scrubbed(again)
            if isinstance(error, DeadlineExceeded) and not error.retryable:
                raise error

    async def _ask(self, position: Position) -> Rest:
        try:
            return await self._stream(position)
        except BadRequest as refusal:
            refused = refusal
        try:
            return await self._wait_for_all(position)
        except BadRequest:  # it is not the stream that is refused
            raise refused from None

    async def _stream(self, position: Position) -> Body:
        attempts, started = self._attempts, asyncio.get_running_loop().time()
        prepared = await attempts.clock.in_time(self._kept.reopen(position), started, "idle")
        attempts.secrets = prepared.secrets
        return await attempts.clock.in_time(open_kept(self._plan, prepared), started, "idle")

    async def _wait_for_all(self, position: Position) -> bytes:
        """The whole answer, once it is made; only step and total deadline end the waiting."""
        attempts = self._attempts
        while True:
            started = asyncio.get_running_loop().time()
            prepared = await attempts.clock.in_time(self._kept.look_up(position), started)
            attempts.secrets = prepared.secrets
            body = await attempts.clock.in_time(read_kept(self._plan, prepared), started)
            if self._kept.is_made(body):
                return body
            await attempts.clock.in_time(asyncio.sleep(_LOOK_AGAIN_S), asyncio.get_running_loop().time())
