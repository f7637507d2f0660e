"""The rest of an answer: resumed if the vendor stores it, or requested if the vendor splits it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from llmstream.dialects.base import Decoder, Place, Position, ResumableDecoder, can_resume
from llmstream.errors import (
    BadRequest,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    IncompleteStream,
    LimitExceeded,
    LLMStreamError,
    ProtocolError,
)
from llmstream.streams.attempts import Attempts, budget_of, wait_before_retry_s
from llmstream.transport.deadlines import Watchdog

if TYPE_CHECKING:
    from llmstream.streams.call_plan import Continued, Plan, Prepared, StoredAnswer
    from llmstream.streams.observations import Reporter
    from llmstream.transport.http import Body

__all__ = [
    "Continuer",
    "Reconnector",
    "ResumedBody",
    "checked",
    "followed",
    "is_break",
    "open_stored",
    "read_stored",
]

ResumedBody: TypeAlias = "Body | bytes"
"""The rest as a stream, or the complete stored answer."""

# Time between two polls of an unfinished answer; OpenAI's examples use the same.
_LOOK_AGAIN_S: Final = 2.0

AskFor: TypeAlias = "Callable[[Callable[[], Awaitable[Prepared]]], Awaitable[tuple[Body, Watchdog]]]"
"""(prepares a request) to the response headers and the watchdog of the response."""

# Limit for further responses of one answer: 6.5 million tokens of Gemini 4, so only an endless loop reaches
# it.
_MAX_RESPONSES: Final = 100

# Sized for a stored answer with images in base64; the decoder's own limits apply afterwards.
_MAX_STORED_BYTES: Final = 64 * 1024 * 1024
_SILENCE: Final = ("first-event", "idle")


def followed(decoder: Decoder) -> ResumableDecoder | None:
    """The decoder that continues over several bodies, if this is one or wraps one."""
    from llmstream.structured import (
        OutputToolDecoder,  # imported only for structured output or a stored response
    )

    inner = decoder.decoder if isinstance(decoder, OutputToolDecoder) else decoder
    return inner if can_resume(inner) else None


def is_break(error: LLMStreamError) -> bool:
    """Whether an error concerns only the transport, not the answer."""
    match error:
        case DeadlineExceeded():
            return error.reason in _SILENCE
        case ProtocolError():
            return error.retryable
        case _:
            return isinstance(error, ConnectionLost | ConnectionFailed | IncompleteStream)


async def open_stored(plan: Plan, prepared: Prepared) -> Body:
    """Opens a stored answer as a stream.

    raises: the vendor's error; TransportError
    """
    from llmstream.transport.http import send  # imports aiohttp

    response: Body = await send(prepared.http, plan.deadlines, plan.session)
    return await checked(plan, response if plan.body is None else plan.body(response))


async def checked(plan: Plan, response: Body) -> Body:
    """The same response if it is a stream; otherwise closes it and raises.

    raises: the vendor's error
    """
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status < 400 and media_type not in ("application/json", "text/html"):
        return response
    try:
        body = await response.read_error()
        raise plan.decode_error(response.status, response.headers, body)
    finally:
        response.close()


async def read_stored(plan: Plan, prepared: Prepared) -> bytes:
    """Reads a stored answer so far, in one piece.

    raises: the vendor's error; TransportError, LimitExceeded
    """
    from llmstream.transport.http import send  # imports aiohttp

    response = await send(prepared.http, plan.deadlines, plan.session)
    try:
        if response.status < 400:
            return await response.read_all(_MAX_STORED_BYTES)
        body = await response.read_error()
        raise plan.decode_error(response.status, response.headers, body)
    finally:
        response.close()


class Reconnector:
    """Finds the rest of one call's stored answer, within its deadlines and retry policy.

    Each new event resets the count of retries, which `Retry.max_retries` limits. OpenAI streams an answer for
    some minutes only; after that this polls until the answer is complete.
    """

    def __init__(self, attempts: Attempts, plan: Plan, stored: StoredAnswer, report: Reporter) -> None:
        self._attempts = attempts
        self._plan = plan
        self._stored = stored
        self._report = report
        self._stuck = (-1, 0)  # position of the last break, and how many breaks occurred there

    async def find(self, failure: LLMStreamError, position: Position) -> ResumedBody | None:
        """The rest; None if it is not available, with the cause added to the message of `failure`.

        raises: DeadlineExceeded if the step or the stream has no time left
        """
        attempts, error = self._attempts, failure
        clock = attempts.clock
        while True:
            where, times = self._stuck
            # A connection that breaks every minute but makes progress may continue until a deadline passes.
            times = times + 1 if where == position.sequence_number else 1
            self._stuck = position.sequence_number, times
            wait_s = wait_before_retry_s(self._plan.retry, error, times)
            if wait_s is None or clock.past_total(wait_s) or not budget_of(self._plan.provider).take(error):
                if error is not failure:
                    failure.message += f" Resuming failed: {error.message}"
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
            # Step and total deadline end the call; only an idle timeout is worth a retry.
            if isinstance(error, DeadlineExceeded) and not error.retryable:
                raise error

    async def _ask(self, position: Position) -> ResumedBody:
        try:
            return await self._stream(position)
        except BadRequest as refusal:
            # OpenAI refuses to stream an answer some minutes after it began, but still returns its state.
            refused = refusal
        try:
            return await self._wait_for_all(position)
        except BadRequest:  # polling is refused too, so the first error is the cause
            raise refused from None

    async def _stream(self, position: Position) -> Body:
        attempts, started = self._attempts, asyncio.get_running_loop().time()
        prepared = await attempts.clock.in_time(self._stored.reopen(position), started, "idle")
        attempts.secrets = prepared.secrets
        return await attempts.clock.in_time(open_stored(self._plan, prepared), started, "idle")

    async def _wait_for_all(self, position: Position) -> bytes:
        """Polls until the answer is complete; only the step and total deadlines end this earlier."""
        attempts = self._attempts
        while True:
            started = asyncio.get_running_loop().time()
            prepared = await attempts.clock.in_time(self._stored.look_up(position), started)
            attempts.secrets = prepared.secrets
            body = await attempts.clock.in_time(read_stored(self._plan, prepared), started)
            if self._stored.is_made(body):
                return body
            await attempts.clock.in_time(asyncio.sleep(_LOOK_AGAIN_S), asyncio.get_running_loop().time())


class Continuer:
    """Finds the next response of one call's split answer, within its deadlines and retry policy.

    A response that breaks before any content is requested again; retries are counted for each position.
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
        """The response that continues at a position, and its watchdog.

        failure: why the previous response ended; None if the vendor ended it normally
        raises:  IncompleteStream with the last failure once no retry is left, DeadlineExceeded,
                 ProtocolError if the answer makes no progress, LimitExceeded
        """
        self._check_progress(place, failure)
        attempts, error = self._attempts, failure
        while True:
            if error is not None:
                await self._wait(error)
            if attempts.clock.left:
                raise ConnectionLost("the stream was closed while it was read", retryable=False)
            attempts.count += 1
            self._report.started(attempts.count)
            try:
                # A new watchdog: each response of a split answer has its own first-event deadline.
                response, watchdog = await self._request(lambda: self._continued(place))
                return await checked(self._plan, response), watchdog
            except LLMStreamError as again:
                error = attempts.scrubbed(again)
                self._slow_down(error)

    def _check_progress(self, place: Place, failure: LLMStreamError | None) -> None:
        """Counts the responses; the same position twice means no progress."""
        # The same token twice is a retry after a failure; without a failure it is an endless loop.
        if place == self._asked:
            if failure is None:
                raise ProtocolError(
                    "the answer makes no progress: the vendor ended a response where it began. "
                    "The content so far is in .partial; send the request again.",
                    provider=self._plan.provider,
                )
            return
        self._asked, self._failures = place, 0
        self._count += 1
        self._report.continued()
        if self._count > _MAX_RESPONSES:
            raise LimitExceeded(
                f"the answer is not complete after {_MAX_RESPONSES} further responses, the maximum. "
                "The metadata of the finish has the token to continue it.",
                provider=self._plan.provider,
            )

    async def _wait(self, error: LLMStreamError) -> None:
        """Waits before the next retry.

        raises: the error that ends the answer if no retry is left
        """
        attempts, clock = self._attempts, self._attempts.clock
        self._failures += 1
        wait_s = wait_before_retry_s(self._plan.retry, error, self._failures)
        if wait_s is None or clock.past_total(wait_s) or not budget_of(self._plan.provider).take(error):
            self._report.failed(attempts.count, error, None)
            raise (
                error
                if isinstance(error, DeadlineExceeded) and not error.retryable
                else _retries_exhausted(error)
            )
        self._report.failed(attempts.count, error, wait_s)
        attempts.failures.append(error)
        await clock.in_time(asyncio.sleep(wait_s), None)


def _retries_exhausted(error: LLMStreamError) -> IncompleteStream:
    """The error of an answer whose next response failed."""
    return IncompleteStream(
        "the vendor split the answer into several responses, and the next one failed. The content so far is "
        f"in .partial, and the metadata of the finish has the token to continue it. Cause: {error.message}",
        provider=error.provider,
        status=error.status,
        retryable=error.retryable,
        retry_after_s=error.retry_after_s,
        request_id=error.request_id,
        reason=error.code,
    )
