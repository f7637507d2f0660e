"""One call of a model over HTTP: attempts until content comes, then batches of events.

The events always form a valid sequence, also after an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from llmstream.chats.content import Part
from llmstream.dialects.base import Position, ResumableDecoder, can_continue
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import (
    AuthenticationError,
    ConnectionFailed,
    InvalidRequest,
    LLMStreamError,
    RateLimited,
    Unsupported,
)
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    Raw,
    ResponseMetadata,
    StreamStart,
    TextEnd,
    TextStart,
    Usage,
    Warning,
)
from llmstream.exchange import HttpRequest
from llmstream.streams.answer import Answer
from llmstream.streams.attempts import Attempts, budget_of, wait_before_retry_s
from llmstream.streams.call_plan import Plan, Prepared
from llmstream.streams.observations import Reporter
from llmstream.streams.resuming import Continuer, Reconnector, followed
from llmstream.transport.deadlines import Watchdog
from llmstream.transport.http import Body, send
from llmstream.transport.limiter import Permit, RateLimiter

if TYPE_CHECKING:
    from llmstream.transport.socket_body import SocketAnswer

__all__ = ["HTTPCall"]

# Events after which a request may still be sent again: the reader has received no content yet.
_NO_CONTENT: Final = frozenset({StreamStart, ResponseMetadata, Raw, TextStart, TextEnd, ErrorEvent, Finish})

# A rough estimate for the limiter, for JSON with some markup; corrected by the usage at the end.
_BYTES_PER_TOKEN: Final = 4
_NO_TOKENS: Final = Usage()
# After this time in a queue, a key or signature may have expired.
_FRESH_S: Final = 30.0


class HTTPCall:
    """Reads one response. `next()` returns batches of events, and [] at the end.

    error:    the error to raise at the end of iteration, or None
    earlier:  the value of `position` before the last batch
    """

    _report: Reporter | None = None
    _paid = _NO_TOKENS  # of the answer's earlier responses
    _last_usage = _NO_TOKENS  # once the decoder is gone

    def __init__(self, plan: Plan, *, total_started: float | None = None) -> None:
        self.error: LLMStreamError | None = None
        self.earlier: Position | None = None
        self._plan = plan
        self._follow: ResumableDecoder | None = None
        self._reopener: Reconnector | None = None
        self._continuer: Continuer | None = None
        self._attempts = Attempts(plan.provider, plan.deadlines, total_started)
        self._guarded: GuardedDecoder | None = None
        self._answer: Answer | None = None
        self._permit: Permit | None = None
        self._http: HttpRequest | None = None  # as sent last, until it has content
        self._warnings: Sequence[Warning] = ()  # of the attempt's request
        self._headers: Mapping[str, str] = {}  # of the attempt's response
        self._reported_errors = 0
        self._held: list[Event] = []  # events of an attempt that failed before its first content
        self._opened = False
        self._shown = False  # whether the reader has received content
        self._over = False

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._guarded.decoder.usage if self._guarded is not None else self._last_usage

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the last response, names in lower case."""
        return {} if self._report is None else self._report.headers

    @property
    def answered_by(self) -> str | None:
        """ "provider:model" if a model other than the called one responds; else None."""
        return None

    @property
    def position(self) -> Position | None:
        """The position after the last batch, if the vendor stores the response; else None."""
        return self._follow.position if self._follow is not None else None

    async def next(self) -> list[Event]:
        """Waits for the next events and returns at least one; [] at the end."""
        if self._over:
            return []
        if not self._opened:
            self._opened = True
            return self._reported(await self._open())
        answer = self._answer
        if answer is None or answer.over:
            self._over, self._answer = True, None
            self._attempts.clock.stop()
            if answer is not None:  # the connection can be reused
                # Only here, not at `finish`: the reader already has the last events and does not wait for the
                # rest of the body.
                await answer.response.finish()
            self._release_decoder()
            return []
        if self._follow is not None:
            self.earlier = self._follow.position
        if self._shown and answer.waits_for_content:
            answer.content_arrived()
        events = await answer.read()
        self._shown = self._shown or _has_content(events)
        events = self._finished(answer, events) if answer.over else self._cleaned(answer, events)
        return self._reported(events)

    def pour(self, take: Callable[[list[Event]], bool]) -> None:
        """Passes batches to `take` as they arrive while `next` waits, if no other work is needed.

        This avoids waking the waiting task for each batch. Call it between two calls of `next`, after the
        first content. Has no effect on a response that may be requested again or continued.

        take: takes a batch, or returns False, to have `next` return it; must not raise
        """
        answer = self._answer
        if answer is None or not self._shown or self._continuer is not None or self._reopener is not None:
            return

        def poured(events: list[Event]) -> bool:
            # An error may name a key, which `next` masks.
            if answer.guarded.errors != self._reported_errors or not take(events):
                return False
            if self._report is not None and self._report.watch is not None:
                self._report.watch.batch(events)
            return True

        answer.pour(poured)

    def _release_decoder(self) -> None:
        """Frees the decoder of a completely read response, unless its position may still be requested."""
        guarded = self._guarded
        if guarded is not None and self._follow is None:
            self._last_usage, self._guarded = guarded.decoder.usage, None
            self._reopener = self._continuer = None  # bound methods keep references
            guarded.release()

    def close(self) -> None:
        """Disconnects at once: closes the socket unless the body is complete, and ends a pending read."""
        self._over = True
        self._attempts.clock.leave()
        self._drop_answer()
        self._ended(left=True)

    async def steer(self, content: Sequence[Part]) -> None:
        """Sends input to the model while it responds; returns once the server has accepted it.

        raises: Unsupported over HTTP; InvalidRequest if no response is in progress; errors of the server
        """
        plan, answer = self._plan, self._answer
        if plan.sockets is None:
            raise Unsupported(
                f"{plan.provider} does not support steering over HTTP. If it supports WebSockets, use "
                'Model(..., transport="websocket"); else leave the stream and send a new request with the '
                "content so far.",
                provider=plan.provider,
            )
        if answer is None or answer.over:
            raise InvalidRequest("no response is in progress that could be steered. Read the stream first.")
        response = cast("SocketAnswer", answer.response)  # a wrapper from plan.body forwards it
        try:
            await response.steer(list(content), plan.deadlines.idle_s)
        except LLMStreamError as error:
            failure = self._attempts.scrubbed(error)
        else:
            return
        raise failure

    async def aclose(self) -> None:
        """Closes as `close` does, and waits for cleanup."""
        self.close()

    def _reported(self, events: list[Event]) -> list[Event]:
        """Reports the batch to observer and limiter."""
        report = self._report
        if report is not None and report.watch is not None:
            report.watch.batch(events)
        if self._over or (self._answer is not None and self._answer.over):
            self._ended(left=False)
        return events

    def _ended(self, *, left: bool) -> None:
        """Releases the limiter's permit and reports the end, once."""
        if self._permit is not None:
            self._release(None if left else self._response_cost())
        if self._report is not None:
            self._report.ended(self._attempts.count, self.usage, self.error, left=left)

    def _release(self, used: Usage | None) -> None:
        """Frees the permit; `used`: the tokens of the response, None to leave the estimate."""
        if self._permit is not None:
            if used is None or (used.input_tokens is None and used.output_tokens is None):
                self._permit.release()
            else:
                read, written = used.input_tokens or 0, used.output_tokens or 0
                self._permit.release(read + written, input_tokens=read, output_tokens=written)
            self._permit = None

    async def _open(self) -> list[Event]:
        """Makes attempts until one has content or the retries are used up."""
        plan, steps = self._plan, self._attempts.clock
        steps.begin()
        budget = budget_of(plan.provider)
        attempts = self._attempts
        self._report = report = Reporter(
            plan.provider, plan.model, plan.call_id, plan.observe, plan.request, attempts.without_secrets
        )
        if plan.stored is not None:
            self._reopener = Reconnector(attempts, plan, plan.stored, report)
        if plan.continued is not None:
            self._continuer = Continuer(
                self._attempts, plan, plan.continued, report, request=self._request, slow_down=self._slow_down
            )
        wait_s: float | None = None
        while True:
            try:
                if wait_s is not None:
                    await steps.in_time(asyncio.sleep(wait_s), None)
                self._attempts.count += 1
                report.started(self._attempts.count)
                events = await self._attempt()
            except LLMStreamError as error:
                if self._http is not None:
                    plan.vendor.explain(error, self._http)
                failure = self._attempts.scrubbed(error)
                self._drop_answer()
                self._slow_down(failure)
                wait_s = None if self._over else self._wait_s(failure)
                if wait_s is None or not budget.take(failure):
                    report.failed(self._attempts.count, failure, None)
                    return self._failed(failure)
                report.failed(self._attempts.count, failure, wait_s)
                self._attempts.failures.append(failure)
                self._held = []
            except asyncio.CancelledError as error:
                self.close()
                # Inner frames hold the request with its keys, which a traceback with locals would print.
                raise error.with_traceback(None) from None
            except BaseException:
                self.close()
                raise
            else:
                # A body may have megabytes of images, and the response may take minutes.
                self._http, self._warnings = None, ()
                budget.give_back()
                if plan.adapter is not None:
                    plan.adapter.confirm()
                return events

    async def _attempt(self) -> list[Event]:
        """Makes one attempt, up to its first content; raises if it failed before that."""
        plan = self._plan
        response, watchdog = await self._request(plan.prepare)
        try:
            # Created only for a response: a refused request needs no decoder.
            self._guarded = guarded = GuardedDecoder(
                plan.decoder(), provider=plan.provider, warnings=self._warnings, marked=True
            )
        except BaseException:
            response.close()
            raise
        continuer, decoder = self._continuer, guarded.decoder
        self._follow = followed(decoder) if plan.follows else None
        self._answer = answer = Answer(
            plan,
            response,
            guarded,
            watchdog,
            follow=self._follow,
            reopen=self._reopener.find if self._reopener is not None else None,
            more=decoder if continuer is not None and can_continue(decoder) else None,
            go_on=continuer.find if continuer is not None else None,
        )
        held = await answer.begin()
        shown = _has_content(held)
        # A response that can be resumed is never requested again, so its events need not be buffered.
        while not (shown or answer.over or answer.named):
            held += await answer.read()
            shown = _has_content(held)
        if answer.error is not None and not (shown or answer.continued):
            self._held = held
            raise answer.error
        self._shown = shown
        return self._finished(answer, held) if answer.over else self._cleaned(answer, held)

    async def _request(self, prepare: Callable[[], Awaitable[Prepared]]) -> tuple[Body, Watchdog]:
        """Sends one request; returns the response headers and the watchdog of the response."""
        if self._answer is not None:  # the answer continues: count the usage of its previous response
            self._release(self._response_cost())
            self._paid = self.usage
        watchdog, limiter = self._attempts.clock.attempt(), self._plan.limiter
        if limiter is None:
            response = await self._attempts.clock.watched(self._prepared_and_sent(prepare))
        else:
            prepared = await self._prepared_in_turn(limiter, prepare)
            watchdog = self._attempts.clock.attempt()  # time in the limiter's queue does not count
            response = await self._attempts.clock.watched(self._sent(prepared))
            self._headers = response.headers
            limiter.learn(response.headers, self._permit)
        if self._report is not None:
            self._report.answered(response.headers)
        return response, watchdog

    async def _prepared(self, prepare: Callable[[], Awaitable[Prepared]]) -> Prepared:
        prepared = await prepare()
        self._attempts.secrets = prepared.secrets
        return prepared

    async def _prepared_and_sent(self, prepare: Callable[[], Awaitable[Prepared]]) -> Body:
        return await self._sent(await self._prepared(prepare))

    async def _sent(self, prepared: Prepared) -> Body:
        plan = self._plan
        if self._answer is None:  # otherwise this continues an answer
            self._http = prepared.http
            self._paid = _NO_TOKENS
            self._guarded = self._follow = None
            self._warnings = prepared.encoded.warnings
        if self._report is not None and prepared.encoded.warnings:
            self._report.changed(prepared.encoded.warnings)
        body: Body
        if plan.sockets is not None:
            from llmstream.transport.socket_body import ask  # imported only for WebSockets

            body = await ask(prepared.http, plan.deadlines, plan.session, plan.sockets, plan.decode_error)
        else:
            body = await send(prepared.http, plan.deadlines, plan.session)
        return body if plan.body is None else plan.body(body)

    async def _prepared_in_turn(
        self, limiter: RateLimiter, prepare: Callable[[], Awaitable[Prepared]]
    ) -> Prepared:
        """Waits for the limiter, within the total deadline only; prepares a request again if it expired."""
        steps = self._attempts.clock
        prepared = await steps.watched(self._prepared(prepare))
        steps.stop()
        # The estimate counts the input and the maximum output, as vendors reserve them.
        turn = limiter.acquire(
            input_tokens=len(prepared.http.body) / _BYTES_PER_TOKEN,
            output_tokens=self._plan.max_output_tokens,
        )
        self._permit = permit = await steps.in_time(turn, None)
        if self._report is not None and self._report.watch is not None:
            self._report.watch.paced_s += permit.waited_s
        if permit.waited_s > _FRESH_S:
            prepared = await steps.in_time(self._prepared(prepare), None)
        return prepared

    def _slow_down(self, failure: LLMStreamError) -> None:
        """Frees the permit of a failed attempt; a 429 slows the limiter down or pauses it."""
        limiter, wait_s = self._plan.limiter, failure.retry_after_s
        if limiter is not None and failure.retryable and isinstance(failure, RateLimited):
            limiter.refused(self._permit, self._headers)
            if wait_s:
                limiter.pause(wait_s)
        self._headers = {}
        self._release(Usage(0, 0) if isinstance(failure, ConnectionFailed) else None)

    def _response_cost(self) -> Usage | None:
        """Tokens of the current response, as rate limits count them; None if not reported."""
        usage, paid = self.usage, self._paid
        if usage.input_tokens is None and usage.output_tokens is None:
            return None
        read = (usage.input_tokens or 0) - (paid.input_tokens or 0)
        if self._plan.vendor.cached_input_is_free:
            read -= (usage.cached_input_tokens or 0) - (paid.cached_input_tokens or 0)
        return Usage(max(0, read), max(0, (usage.output_tokens or 0) - (paid.output_tokens or 0)))

    def _wait_s(self, failure: LLMStreamError) -> float | None:
        """How long to wait before the next attempt; None for no further attempt."""
        rejected = [error for error in self._attempts.failures if isinstance(error, AuthenticationError)]
        if isinstance(failure, AuthenticationError) and self._plan.new_keys and not rejected:
            return 0.0  # the key may have been rotated: call the key function once more
        if self._plan.adapter is not None and self._plan.adapter.learn(failure):
            return 0.0
        wait_s = wait_before_retry_s(self._plan.retry, failure, self._attempts.count)
        return None if wait_s is not None and self._attempts.clock.past_total(wait_s) else wait_s

    def _failed(self, failure: LLMStreamError) -> list[Event]:
        """The events of a failed call: those of the last attempt, or only its error."""
        self._over = True
        self.error = failure
        if self._held:
            return self._attempts.scrubbed_events(self._held)
        start = StreamStart(list(self._warnings))
        return [start, ErrorEvent(failure.info), Finish("error", failure.usage or Usage())]

    def _finished(self, answer: Answer, events: list[Event]) -> list[Event]:
        """The last batch, with keys in its error masked."""
        if answer.error is None:
            return events
        self.error = self._attempts.scrubbed(answer.error)
        return self._attempts.scrubbed_events(events)

    def _cleaned(self, answer: Answer, events: list[Event]) -> list[Event]:
        """The same batch, with keys in a new error masked."""
        if answer.guarded.errors == self._reported_errors:
            return events
        self._reported_errors = answer.guarded.errors
        return self._attempts.scrubbed_events(events)

    def _drop_answer(self) -> None:
        self._attempts.clock.stop()
        if self._answer is not None:
            self._answer.close()
            self._answer = None


def _has_content(events: list[Event]) -> bool:
    """Whether the events have content, which the reader must not receive twice."""
    return not _NO_CONTENT.issuperset(map(type, events))
