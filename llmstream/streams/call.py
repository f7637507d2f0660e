"""One call of a model: attempts until content comes, then batches of events, always a sentence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final, TypeVar

import msgspec

from llmstream.dialects.sentence import Sentence
from llmstream.errors import AuthenticationError, LLMStreamError
from llmstream.events import Error, Event, Finish, Raw, ResponseMetadata, StreamStart, Usage
from llmstream.streams.answer import Answer
from llmstream.streams.plan import Plan
from llmstream.transport.http import send
from llmstream.transport.retry import budget_of, wait_before_retry_s
from llmstream.transport.watchdog import deadline_error

__all__ = ["Call"]

T = TypeVar("T")

_log = logging.getLogger("llmstream")

_NO_CONTENT: Final = frozenset({StreamStart, ResponseMetadata, Raw, Error, Finish})
"""Events after which a request may still be sent again."""


class Call:
    """Reads one response. `next()` gives batches of events, [] when there are no more.

    error:    what iteration has to raise at the end, or None
    attempts: how often the request was sent
    retried:  the failures of the attempts before the last
    """

    def __init__(self, plan: Plan, *, total_started: float | None = None) -> None:
        self.error: LLMStreamError | None = None
        self.attempts = 0
        self.retried: list[LLMStreamError] = []
        self._plan = plan
        self._total_started = total_started
        self._sentence: Sentence | None = None
        self._answer: Answer | None = None
        self._secrets: tuple[str, ...] = ()
        self._opened = False
        self._over = False

    @property
    def usage(self) -> Usage:
        """Tokens as far as the vendor has said."""
        return self._sentence.decoder.usage if self._sentence is not None else Usage()

    async def next(self) -> list[Event]:
        """The next events that are there, at least one; [] once the sentence is over."""
        if self._over:
            return []
        if not self._opened:
            self._opened = True
            return await self._open()
        answer = self._answer
        if answer is None or answer.over:
            self._over, self._answer = True, None
            if answer is not None:  # the connection may serve again
                await answer.response.finish()
            return []
        events = await answer.read()
        return self._finished(answer, events) if answer.over else events

    def close(self) -> None:
        """Leaves now: the socket closes unless the body is over."""
        self._over = True
        self._drop_answer()

    async def _open(self) -> list[Event]:
        """Attempts, until one has content or none is left."""
        if self._total_started is None:
            self._total_started = asyncio.get_running_loop().time()
        budget = budget_of(self._plan.provider)
        while True:
            self.attempts += 1
            try:
                events = await self._attempt()
            except LLMStreamError as error:
                failure = self._scrubbed(error)
                self._drop_answer()
                wait_s = self._wait_s(failure)
                if wait_s is None or not budget.take(failure):
                    return self._refused(failure)
                _log.info("%s: attempt %d failed: %s", self._plan.provider, self.attempts, failure.code)
                self.retried.append(failure)
                await asyncio.sleep(wait_s)
            except BaseException:
                self.close()
                raise
            else:
                budget.give_back()
                return events

    async def _attempt(self) -> list[Event]:
        """One attempt, up to its first content; raises where it failed before that."""
        plan, started = self._plan, asyncio.get_running_loop().time()
        assert self._total_started is not None  # set by _open
        prepared = await self._in_time(plan.prepare(), started)
        self._secrets = prepared.secrets
        self._sentence = sentence = Sentence(
            plan.decoder(), provider=plan.provider, warnings=prepared.encoded.warnings
        )
        response = await self._in_time(send(prepared.http, plan.deadlines, plan.session), started)
        self._answer = answer = Answer(
            plan, response, sentence, started=started, total_started=self._total_started
        )
        held = await answer.begin()
        while not answer.over and not _has_content(held):
            held += await answer.read()
        if answer.error is not None and not _has_content(held):
            raise answer.error
        if answer.over:
            return self._finished(answer, held)
        answer.content_came()
        return held

    async def _in_time(self, step: Awaitable[T], started: float) -> T:
        """A step on the way to the head of the answer, within the deadlines for that."""
        deadlines = self._plan.deadlines
        starts = {"first-event": started, "step": started, "total": self._total_started or started}
        limits = {
            "first-event": deadlines.first_event_s,
            "step": deadlines.step_s,
            "total": deadlines.total_s,
        }
        dues = [(starts[which] + limit, which, limit) for which, limit in limits.items() if limit is not None]
        due = min(dues, default=None)
        try:
            async with asyncio.timeout_at(due[0] if due else None) as timer:
                return await step
        except TimeoutError:
            if due is None or not timer.expired():
                raise
            raise deadline_error(due[1], due[2]) from None

    def _wait_s(self, failure: LLMStreamError) -> float | None:
        """How long to wait before the next attempt; None where there is to be none."""
        rejected = [error for error in self.retried if isinstance(error, AuthenticationError)]
        if isinstance(failure, AuthenticationError) and self._plan.new_keys and not rejected:
            return 0.0  # keys are rotated: the function that gives them is asked once more
        wait_s = wait_before_retry_s(self._plan.retry, failure, self.attempts)
        return None if wait_s is not None and self._past_total(wait_s) else wait_s

    def _past_total(self, wait_s: float) -> bool:
        """Whether the total deadline would pass during a wait."""
        total, started = self._plan.deadlines.total_s, self._total_started
        if total is None or started is None:
            return False
        return asyncio.get_running_loop().time() + wait_s > started + total

    def _refused(self, failure: LLMStreamError) -> list[Event]:
        """The sentence of a call that came to nothing."""
        self._over = True
        self.error = failure
        start = self._sentence.start() if self._sentence is not None else [StreamStart()]
        return [*start, Error(failure.info), Finish("error", failure.usage or Usage())]

    def _finished(self, answer: Answer, events: list[Event]) -> list[Event]:
        """The last batch; if it says an error, then without any key in it."""
        if answer.error is None:
            return events
        self.error = self._scrubbed(answer.error)
        return [self._scrubbed_event(event) if type(event) is Error else event for event in events]

    def _scrubbed(self, error: LLMStreamError) -> LLMStreamError:
        """The same error, without any key that the vendor's words echo."""
        error.attempts = self.attempts
        if error.provider is None:
            error.provider = self._plan.provider
        error.message = self._without_secrets(error.message)
        error.args = (error.message,)
        return error

    def _scrubbed_event(self, event: Error) -> Error:
        said = msgspec.structs.replace(event.error, message=self._without_secrets(event.error.message))
        return Error(said, event.provider_metadata)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _drop_answer(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None


def _has_content(events: list[Event]) -> bool:
    """Whether a reader has seen something that must not be sent twice."""
    return any(type(event) not in _NO_CONTENT for event in events)
