"""One answer as it is read: a response's bytes through a sentence, under deadlines."""

from __future__ import annotations

import asyncio
from typing import Final

from llmstream.dialects.sentence import Sentence
from llmstream.dialects.vendor_errors import is_error_body, is_json, vendor_error
from llmstream.errors import DeadlineExceeded, LLMStreamError
from llmstream.events import Event, Raw
from llmstream.streams.plan import Plan
from llmstream.transport.http import Response
from llmstream.transport.watchdog import Watchdog

__all__ = ["Answer"]

_TRAILER_S: Final = 1.0
"""How long to wait for usage and end marks once the answer is complete, pings or not."""

_EXCERPT_BYTES: Final = 2048

_WHOLE_BYTES: Final = 16 * 1024 * 1024
"""The longest answer that is one JSON value and no stream."""

_SLICE_BYTES: Final = 64 * 1024
"""Larger pieces are taken apart: their copies would not stay in the processor's cache, and a
reader would get thousands of events at once. Framing 256 KB in one go costs twice as much."""


class Answer:
    """Reads one answer. `read()` gives batches of events until `over`.

    over:  finish has been given
    error: what iteration has to raise after it, or None
    """

    def __init__(
        self, plan: Plan, response: Response, sentence: Sentence, *, started: float, total_started: float
    ) -> None:
        self.response = response
        self.sentence = sentence
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._watchdog = Watchdog(
            plan.deadlines, response.abort, started=started, total_started=total_started
        )
        self._silent_since: float | None = started
        self._trailer_due: float | None = None
        self._excerpt: bytes | None = b""
        self._slices: list[bytes] = []

    @property
    def over(self) -> bool:
        """Whether finish has been given."""
        return self.sentence.done

    @property
    def error(self) -> LLMStreamError | None:
        """What iteration has to raise at the end, or None."""
        return self.sentence.error

    def close(self) -> None:
        """Leaves now: the socket closes unless the body is over."""
        self._watchdog.stop()
        self.response.close()

    def content_came(self) -> None:
        """The first content is here: from now on the idle deadline counts."""
        self._watchdog.content_came()

    async def begin(self) -> list[Event]:
        """The first event, or the whole sentence where the answer is no stream but one JSON value.

        raises: what the answer means, if it is an error or no answer of this dialect
        """
        response = self.response
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        start = self.sentence.start()
        if response.status < 400 and media_type not in ("application/json", "text/html"):
            return start
        if response.status >= 400:
            body = await response.read_error()
            raise self._plan.decode_error(response.status, response.headers, body)
        body = await response.read_all(_WHOLE_BYTES)
        if media_type == "text/html" or is_error_body(body):
            raise self._no_stream(body)
        return start + self._read_whole(body)

    async def read(self) -> list[Event]:
        """Reads until something is there to be given."""
        sentence, watchdog = self.sentence, self._watchdog
        if self._silent_since is None:
            self._silent_since = self._loop.time()
        watchdog.waiting_since = self._silent_since
        try:
            while True:
                events = await self._piece()
                if sentence.done:
                    watchdog.stop()
                    return events
                if events:
                    if not self._plan.include_raw or any(type(event) is not Raw for event in events):
                        self._silent_since = None
                    return events
        except BaseException:
            self.close()
            raise
        finally:
            watchdog.waiting_since = None

    async def _piece(self) -> list[Event]:
        """The events of one piece of the body, of its end, or of a failure."""
        sentence, response = self.sentence, self.response
        try:
            if self._slices:
                chunk = self._slices.pop()
            elif sentence.complete:
                chunk = await self._trailer()
            else:
                chunk = await response.read()
        except LLMStreamError as error:
            # What counts the whole stream ends it, though the answer may be complete.
            hard = isinstance(error, DeadlineExceeded) and error.reason == "total"
            return sentence.fail(error) if hard else sentence.close(error)
        if not chunk:
            return self._end()
        if len(chunk) > _SLICE_BYTES:
            starts = range(0, len(chunk), _SLICE_BYTES)
            self._slices = [chunk[start : start + _SLICE_BYTES] for start in reversed(starts)]
            chunk = self._slices.pop()
        events = sentence.feed(chunk)
        if self._excerpt is not None:
            self._excerpt = None if events else (self._excerpt + chunk)[:_EXCERPT_BYTES]
        return events

    async def _trailer(self) -> bytes:
        """A piece of what follows a complete answer; b"" when there has been time enough for it."""
        now = self._loop.time()
        if self._trailer_due is None:
            self._trailer_due = now + _TRAILER_S
        if now >= self._trailer_due:
            return b""
        try:
            async with asyncio.timeout_at(self._trailer_due):
                return await self.response.read()
        except TimeoutError:
            return b""

    def _end(self) -> list[Event]:
        """The body is over. One without a single event may have been no stream at all."""
        body = self._excerpt
        if body is not None and not self.sentence.complete:
            text = body.strip()
            streams_json = self._plan.content_type == "application/x-ndjson"
            if not text or text[:1] == b"<" or (is_json(text) and not streams_json) or is_error_body(text):
                return self.sentence.fail(self._no_stream(body))
        return self.sentence.close()

    def _read_whole(self, body: bytes) -> list[Event]:
        """A whole answer as the one event of a stream, for servers that do not stream."""
        line = b" ".join(body.split(b"\n"))
        framed = line if self._plan.content_type == "application/x-ndjson" else b"data: " + line
        events = self.sentence.feed(framed + b"\n\n") + self.sentence.close()
        if self.sentence.error is not None:
            raise self._no_stream(body)
        self._watchdog.stop()
        return events

    def _no_stream(self, body: bytes) -> LLMStreamError:
        response = self.response
        return vendor_error(response.status, response.headers, body, provider=self._plan.provider)
