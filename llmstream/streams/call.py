"""One call of a model: attempts until content comes, then batches of events, always a sentence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from llmstream.dialects.base import Decoder, Encoded, Limits
from llmstream.dialects.sentence import Sentence
from llmstream.dialects.vendor_errors import is_error_body, vendor_error
from llmstream.errors import DeadlineExceeded, LLMStreamError
from llmstream.events import (
    Error,
    Event,
    Finish,
    Raw,
    ResponseMetadata,
    StreamStart,
    Usage,
)
from llmstream.exchange import HttpRequest
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.http import Response, send
from llmstream.transport.retry import Retry, wait_before_retry_s
from llmstream.transport.watchdog import Watchdog, deadline_error

__all__ = ["Call", "Plan"]

_log = logging.getLogger("llmstream")

_TRAILER_S = 1.0
"""How long to wait for usage and end marks once the answer is complete."""

_NO_CONTENT = frozenset({StreamStart, ResponseMetadata, Raw, Error, Finish})
"""Events after which a request may still be sent again."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a call needs to know; `prepare` gives the request with address and key.

    secrets: texts that must not appear in an error, should the vendor echo them
    """

    provider: str
    prepare: Callable[[], Awaitable[tuple[Encoded, HttpRequest, tuple[str, ...]]]]
    decoder: Callable[[], Decoder]
    decode_error: Callable[[int, dict[str, str], bytes], LLMStreamError]
    content_type: str
    deadlines: Deadlines = Deadlines()
    retry: Retry = Retry()
    session: object | None = None
    include_raw: bool = False
    limits: Limits = Limits()


class Call:
    """Reads one response. `next()` gives batches of events, [] when there are no more.

    error:    what iteration has to raise at the end, or None
    attempts: how often the request was sent
    """

    def __init__(self, plan: Plan, *, total_started: float | None = None) -> None:
        self.error: LLMStreamError | None = None
        self.attempts = 0
        self.retried: list[LLMStreamError] = []
        self._plan = plan
        self._total_started = total_started
        self._response: Response | None = None
        self._sentence: Sentence | None = None
        self._watchdog: Watchdog | None = None
        self._secrets: tuple[str, ...] = ()
        self._started = False
        self._over = False

    @property
    def usage(self) -> Usage:
        """Tokens as far as the vendor has said."""
        return self._sentence.decoder.usage if self._sentence is not None else Usage()

    async def next(self) -> list[Event]:
        """The next events that are there, at least one; [] once the sentence is over."""
        if self._over:
            return []
        if not self._started:
            self._started = True
            return await self._open()
        watchdog = self._watchdog
        if watchdog is None:  # the sentence is finished; the connection may serve again
            await self._leave()
            return []
        watchdog.waiting_since = asyncio.get_running_loop().time()
        events = await self._read()
        watchdog.waiting_since = None
        return events

    def close(self) -> None:
        """Leaves now: the socket closes unless the body is over."""
        self._over = True
        self._stop_watching()
        if self._response is not None:
            self._response.close()
            self._response = None

    async def _open(self) -> list[Event]:
        """Attempts, until one has content or none is left."""
        loop = asyncio.get_running_loop()
        if self._total_started is None:
            self._total_started = loop.time()
        while True:
            self.attempts += 1
            self.error = None
            try:
                return await self._attempt()
            except LLMStreamError as error:
                failure = self._scrubbed(error)
                self.close()
                self._over = False
                wait_s = wait_before_retry_s(self._plan.retry, failure, self.attempts)
                if wait_s is None or self._past_total(wait_s):
                    return self._refused(failure)
                _log.info("%s: attempt %d failed (%s)", self._plan.provider, self.attempts, failure.code)
                self.retried.append(failure)
                await asyncio.sleep(wait_s)
            except BaseException:
                self.close()
                raise

    async def _attempt(self) -> list[Event]:
        """One attempt, up to its first content; raises where it failed before that."""
        plan, started = self._plan, asyncio.get_running_loop().time()
        encoded, http, self._secrets = await plan.prepare()
        self._sentence = sentence = Sentence(
            plan.decoder(), provider=plan.provider, warnings=encoded.warnings
        )
        self._response = response = await self._send(http, started)
        whole = await self._whole_answer(response)
        if whole is not None:
            return self._read_whole(sentence, response, whole)
        assert self._total_started is not None  # set by _open
        self._watchdog = Watchdog(
            plan.deadlines, response.abort, started=started, total_started=self._total_started
        )
        held = sentence.start()
        while True:
            events = await self._read()
            held += events
            if sentence.error is not None and not _has_content(held):
                raise sentence.error
            if self._watchdog is None:
                return held
            if _has_content(events):
                self._watchdog.content_came()
                self._watchdog.waiting_since = None
                return held

    async def _send(self, http: HttpRequest, started: float) -> Response:
        """The head of the answer, within the deadlines for it."""
        deadlines = self._plan.deadlines
        assert self._total_started is not None  # set by _open
        due = min(
            (
                (start + limit, which, limit)
                for which, start, limit in (
                    ("first-event", started, deadlines.first_event_s),
                    ("step", started, deadlines.step_s),
                    ("total", self._total_started, deadlines.total_s),
                )
                if limit is not None
            ),
            default=None,
        )
        try:
            async with asyncio.timeout_at(due[0] if due else None) as timer:
                return await send(http, deadlines, self._plan.session)  # type: ignore[arg-type]  # aiohttp's, untyped above the transport
        except TimeoutError:
            if due is None or not timer.expired():
                raise
            raise deadline_error(due[1], due[2]) from None

    async def _whole_answer(self, response: Response) -> bytes | None:
        """The body of a 200 that is one JSON value where a stream was asked for; else None.

        raises: what an answer means that is neither
        """
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status < 400 and media_type not in ("application/json", "text/html"):
            return None
        body = await response.read_all()
        if response.status >= 400:
            raise self._plan.decode_error(response.status, response.headers, body)
        if media_type == "text/html" or is_error_body(body):
            raise vendor_error(response.status, response.headers, body, provider=self._plan.provider)
        return body

    def _read_whole(self, sentence: Sentence, response: Response, body: bytes) -> list[Event]:
        """A whole answer as the one event of a stream, for servers that do not stream."""
        line = b" ".join(body.split(b"\n"))
        framed = line if self._plan.content_type == "application/x-ndjson" else b"data: " + line
        events = sentence.start() + sentence.feed(framed + b"\n\n") + sentence.close()
        if sentence.error is not None:
            raise vendor_error(200, response.headers, body, provider=self._plan.provider)
        return events

    async def _read(self) -> list[Event]:
        """Reads until something is there to be given."""
        sentence, response = self._sentence, self._response
        assert sentence is not None
        assert response is not None
        while True:
            try:
                if sentence.complete:
                    async with asyncio.timeout(_TRAILER_S):
                        chunk = await response.read()
                else:
                    chunk = await response.read()
            except TimeoutError:
                events = sentence.close()
            except LLMStreamError as error:
                hard = isinstance(error, DeadlineExceeded) and error.reason == "total"
                events = sentence.fail(error) if hard else sentence.close(error)
            except BaseException:
                self.close()
                raise
            else:
                events = sentence.feed(chunk) if chunk else sentence.close()
            if sentence.done:
                return self._finish(sentence, events)
            if events:
                return events

    def _finish(self, sentence: Sentence, events: list[Event]) -> list[Event]:
        self._stop_watching()
        if sentence.error is None:
            return events
        self.error = self._scrubbed(sentence.error)
        return [self._scrubbed_event(event) if type(event) is Error else event for event in events]

    def _refused(self, failure: LLMStreamError) -> list[Event]:
        """The sentence of a call that came to nothing."""
        self._over = True
        self.error = failure
        warnings = self._sentence.start() if self._sentence is not None else [StreamStart()]
        return [*warnings, Error(failure.info), Finish("error", failure.usage or Usage())]

    def _scrubbed(self, error: LLMStreamError) -> LLMStreamError:
        """The same error, without any key that the vendor's words echo."""
        error.attempts = self.attempts
        if error.provider is None:
            error.provider = self._plan.provider
        for secret in self._secrets:
            if secret in error.message:
                error.message = error.message.replace(secret, "***")
                error.args = (error.message,)
        return error

    def _scrubbed_event(self, event: Error) -> Error:
        message = event.error.message
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return Error(msgspec.structs.replace(event.error, message=message), event.provider_metadata)

    def _past_total(self, wait_s: float) -> bool:
        total = self._plan.deadlines.total_s
        if total is None or self._total_started is None:
            return False
        return asyncio.get_running_loop().time() + wait_s > self._total_started + total

    def _stop_watching(self) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None

    async def _leave(self) -> None:
        self._over = True
        response, self._response = self._response, None
        if response is not None:
            await response.finish()


def _has_content(events: list[Event]) -> bool:
    """Whether a reader has seen something that must not be sent twice."""
    return any(type(event) not in _NO_CONTENT for event in events)
