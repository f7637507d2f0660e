"""Reads one answer: feeds the bytes of its responses to a decoder, within deadlines."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from llmstream.dialects.base import ContinuingDecoder, Place, Position, ResumableDecoder
from llmstream.dialects.errors import decoded_error, is_error_body, is_json, vendor_error
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import DeadlineExceeded, DecodeError, IncompleteStream, LLMStreamError
from llmstream.events import Event, Raw
from llmstream.streams.call_plan import Plan
from llmstream.streams.resuming import ResumedBody, is_break
from llmstream.transport.deadlines import Watchdog
from llmstream.transport.http import Body, Response

__all__ = ["Answer"]

_log: Final = logging.getLogger("llmstream")

# How long to wait for usage and end markers after a complete answer, even if pings come.
_TRAILER_S: Final = 1.0

# Limit for the bytes read after it; usage and end markers have a few hundred bytes.
_TRAILER_BYTES: Final = 64 * 1024

# Enough to show an HTML page or a JSON error in place of a stream.
_EXCERPT_BYTES: Final = 2048
_SSE_BEGINS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
_SSE_FIELDS: Final = (b"data", b"event", b"id", b"retry", b"")  # including the line break of a comment

# Limit for an answer that is one JSON value instead of a stream.
_MAX_JSON_BYTES: Final = 16 * 1024 * 1024

# Larger pieces are split: their copies do not fit the processor's cache (framing 256 KB at once costs twice
# as much), and a reader would get thousands of events at once. Other tasks may run between two slices, so a
# large body does not block the loop.
_SLICE_BYTES: Final = 32 * 1024

Reopen: TypeAlias = "Callable[[LLMStreamError, Position], Awaitable[ResumedBody | None]]"
"""(error, last position) to the rest of the answer, or None if it is not available."""

Continue: TypeAlias = Callable[[Place, LLMStreamError | None], Awaitable[tuple[Body, Watchdog]]]
"""(place to continue, error) to the next response of the answer and the watchdog of that response."""


Take: TypeAlias = Callable[[list[Event]], bool]
"""Consumes a batch; returns False to have `read` return it instead."""


class Answer:
    """Reads one answer. `read()` returns batches of events until `over`.

    watchdog: of the attempt; from here on a timeout aborts this answer
    follow:   the decoder, if the vendor stores the answer
    reopen:   finds the rest of a stored answer after a break
    more:     the decoder, if the vendor may split the answer into several responses
    go_on:    finds the next response of a split answer

    over:  whether finish has been returned
    waits_for_content: whether this response has had no content yet
    continued: whether another response was requested to continue the answer
    error: the error to raise after it, or None
    """

    def __init__(
        self,
        plan: Plan,
        response: Body,
        guarded: GuardedDecoder,
        watchdog: Watchdog,
        *,
        follow: ResumableDecoder | None = None,
        reopen: Reopen | None = None,
        more: ContinuingDecoder | None = None,
        go_on: Continue | None = None,
    ) -> None:
        self.response = response
        self.guarded = guarded
        self._plan = plan
        self._follow = follow
        self._reopen = reopen
        self._more = more
        self._go_on = go_on
        self._resumable = more if follow is None else follow
        self.waits_for_content = True
        self.continued = False
        self._loop = asyncio.get_running_loop()
        self._watchdog = watchdog
        self._silent_since = watchdog.waiting_since
        watchdog.hand_over(self._abort)
        self._trailer_due: float | None = None
        self._trailer_bytes = 0
        self._excerpt: bytes | None = b""
        self._slices: list[bytes] = []
        self._take: Take | None = None
        self._decoded: tuple[int, list[Event]] | None = None  # of the piece that `read` returns next

    @property
    def over(self) -> bool:
        """Whether finish has been returned."""
        return self.guarded.done

    @property
    def error(self) -> LLMStreamError | None:
        """The error to raise at the end of iteration, or None."""
        return self.guarded.error

    @property
    def named(self) -> bool:
        """Whether the answer can be resumed, so that a break leads to a request for the rest only."""
        if self._place is not None:
            return True
        return self._reopen is not None and self._follow is not None and self._follow.position is not None

    @property
    def _place(self) -> Place | None:
        """Where another response continues; None if no further one is needed."""
        return self._more.next_place if self._more is not None else None

    def close(self) -> None:
        """Disconnects at once: closes the socket unless the body is complete."""
        self._watchdog.stop()
        self.response.close()

    def content_arrived(self) -> None:
        """Switches from the first-event deadline to the idle deadline."""
        self.waits_for_content = False
        self._watchdog.content_arrived()

    def pour(self, take: Take) -> None:
        """Passes batches to `take` as they arrive while `read` waits; see `aiohttp_patches.divert`.

        `read` returns the others: at the end, after an error, or if another response may continue the answer.
        """
        if self._resumable is None and self._excerpt is None and not self._plan.include_raw:
            self._take = take

    def _arrived(self, chunk: bytes) -> bool:
        """Decodes a piece in the callback of its socket."""
        assert self._take is not None  # by _piece
        guarded = self.guarded
        if len(chunk) > _SLICE_BYTES:
            return False
        try:
            events = guarded.feed(chunk)
        except Exception as error:
            events = self._unforeseen(error)
        if not (guarded.done or guarded.complete):
            if not events:
                return True
            if self._take(events):
                self._silent_since = self._watchdog.waiting_since = self._loop.time()
                return True
        self._decoded = len(chunk), events
        return False

    async def begin(self) -> list[Event]:
        """The first event, or all events if the answer is one JSON value instead of a stream.

        raises: the error in the response, or one for a response that is not of this dialect
        """
        try:
            return await self._begin()
        except LLMStreamError:
            raise
        except Exception as error:
            raise self._defect(error) from None

    async def _begin(self) -> list[Event]:
        response = self.response
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        start = self.guarded.start()
        # By exclusion: servers label streams as text/plain, application/octet-stream, or not at all.
        if response.status < 400 and media_type not in ("application/json", "text/html"):
            return start
        if response.status >= 400:
            body = await response.read_error()
            raise self._refusal(body)
        # Some servers answer a refused or an unstreamable request with status 200 and one JSON object.
        body = await response.read_all(_MAX_JSON_BYTES)
        streams = self._plan.content_type == "text/event-stream" and self._follow is None
        if streams and body.lstrip().startswith(_SSE_BEGINS):
            # The server labelled a stream with a wrong content type.
            return start + self.guarded.feed(body) + self.guarded.close()
        if media_type == "text/html" or is_error_body(body):
            raise self._no_stream(body)
        return start + self._read_json(body)

    async def read(self) -> list[Event]:
        """Reads pieces of the body until one yields events."""
        guarded = self.guarded
        if self._silent_since is None:
            self._silent_since = self._loop.time()
        # The idle time counts across pieces without an event, such as pings.
        self._watchdog.waiting_since = self._silent_since
        try:
            while True:
                events = await self._piece()
                if guarded.done:
                    self._watchdog.stop()
                    return events
                if events:
                    # Each ping yields a raw event, so raw events do not reset the idle time.
                    if not self._plan.include_raw or any(type(event) is not Raw for event in events):
                        self._silent_since = None
                    return events
        except Exception as error:
            self.close()
            if isinstance(error, LLMStreamError):
                raise
            return self._unforeseen(error)
        except BaseException:
            self.close()
            raise
        finally:
            self._watchdog.waiting_since = None

    def _unforeseen(self, error: Exception) -> list[Event]:
        """Ends the answer with a typed error after a bug in llmstream."""
        return self.guarded.fail(self._defect(error))

    def _defect(self, error: Exception) -> DecodeError:
        _log.error("%s: decoding an answer failed; this is a bug", self._plan.provider, exc_info=error)
        return DecodeError(
            f"the answer could not be decoded ({type(error).__name__}). This is a bug in llmstream; "
            "please report it."
        )

    async def _piece(self) -> list[Event]:
        """The events of one piece of the body, of its end, or of a failure."""
        guarded, response = self.guarded, self.response
        # Events received with the rest of a stored answer are buffered in the decoder; no read is needed for
        # them.
        if self._follow is not None and self._follow.held:
            return await self._feed(b"")
        try:
            if self._slices:
                # Lets other tasks of the loop run between the slices of a very large piece.
                await asyncio.sleep(0)
                chunk = self._slices.pop()
            elif guarded.complete:
                # The answer is complete: reading what may follow, at most usage, has a separate short
                # deadline.
                chunk = await self._trailer()
            else:
                if self._take is not None and isinstance(response, Response):
                    response.divert(self._arrived)
                chunk = await response.read()
        except LLMStreamError as error:
            # The total deadline ends the stream, even if the answer may be complete.
            if isinstance(error, DeadlineExceeded) and error.reason == "total":
                return guarded.fail(error)
            return await self._broken(error)
        if not chunk:
            # A clean end of the body is also a break, if the answer is stored or split and continues.
            if self.named and (not guarded.complete or self._place is not None):
                return await self._broken(IncompleteStream("the body ended before the answer did."))
            return self._end()
        if self._decoded is not None:
            (size, events), self._decoded = self._decoded, None
            if len(chunk) > size:
                self._slices.append(chunk[size:])  # received before this task resumed
            return events
        if len(chunk) > _SLICE_BYTES:
            starts = range(0, len(chunk), _SLICE_BYTES)
            # Reversed, because popping the last item of a list is O(1).
            self._slices = [chunk[start : start + _SLICE_BYTES] for start in reversed(starts)]
            chunk = self._slices.pop()
        events = guarded.feed(chunk) if self._resumable is None else await self._feed(chunk)
        # The beginning of a body is stored until the first event: errors quote it only if there was none.
        if self._excerpt is not None:
            self._excerpt = None if events else (self._excerpt + chunk)[:_EXCERPT_BYTES]
        return events

    async def _feed(self, chunk: bytes) -> list[Event]:
        """The events of a piece; continues with another body if this one cannot continue."""
        events = self.guarded.feed(chunk)
        if self._resumable is not None and self._resumable.gap is not None:
            return events + await self._broken(self._resumable.gap)
        return events

    async def _broken(self, error: LLMStreamError) -> list[Event]:
        """Handles a body that ended before its answer: continues with another body, or ends the events."""
        follow, guarded, place = self._follow, self.guarded, self._place
        if place is not None:
            return await self._next_response(place, None if guarded.complete else error)
        position = follow.position if follow is not None else None
        # Without a position the rest cannot be requested: a new request would restart the answer.
        if self._reopen is None or follow is None or position is None or guarded.complete:
            return guarded.close(error)
        if not is_break(error):
            return guarded.close(error)
        self._watchdog.stop()
        self.response.close()
        try:
            rest = await self._reopen(error, position)
        except DeadlineExceeded as passed:
            return guarded.fail(passed)
        if rest is None:
            return guarded.close(error)
        # The rest begins at an event boundary; discard the incomplete event of the old body.
        follow.reconnect()
        self._slices, self._excerpt = [], None
        if isinstance(rest, bytes):
            follow.catch_up(rest)
        else:
            self.response = rest
        self._silent_since = self._loop.time()
        self._watchdog.go_on()
        return []

    async def _next_response(self, place: Place, failure: LLMStreamError | None) -> list[Event]:
        """Continues the answer with another response, or ends it with an error."""
        assert self._more is not None  # by _place
        assert self._go_on is not None
        self.continued = self.waits_for_content = True
        self._watchdog.stop()
        self.response.close()  # a body read to its end returns its connection to the pool
        try:
            self.response, self._watchdog = await self._go_on(place, failure)
        except LLMStreamError as error:
            return self.guarded.fail(error)
        self._more.next_body()
        self._slices, self._excerpt = [], None
        self._trailer_due, self._trailer_bytes = None, 0
        self._silent_since = self._watchdog.waiting_since
        self._watchdog.hand_over(self._abort)
        return []

    def _abort(self, error: LLMStreamError) -> None:
        self.response.abort(error)

    async def _trailer(self) -> bytes:
        """A piece after a complete answer; b"" once the time for it is over."""
        now = self._loop.time()
        if self._trailer_due is None:
            # Counted from the first read, not from the last piece: pings would otherwise extend it for ever.
            self._trailer_due = now + _TRAILER_S
        if now < self._trailer_due and self._trailer_bytes <= _TRAILER_BYTES:
            try:
                async with asyncio.timeout_at(self._trailer_due):
                    piece = await self.response.read()
            except DeadlineExceeded:  # also a TimeoutError, but not from this timeout
                raise
            except TimeoutError:
                pass
            else:
                self._trailer_bytes += len(piece)
                return piece
        self.response.close()  # the deadline has passed
        return b""

    def _end(self) -> list[Event]:
        """Ends the answer. A body without any event may not have been a stream."""
        body = self._excerpt
        if body is not None and not self.guarded.complete:
            text = body.strip()
            expected = self._plan.content_type
            foreign = expected == "text/event-stream" and not _may_be_sse(text)
            one_value = expected != "application/x-ndjson" and is_json(text)
            if not text or text[:1] == b"<" or foreign or one_value or is_error_body(text):
                return self.guarded.fail(self._no_stream(body))
        return self.guarded.close()

    def _read_json(self, body: bytes) -> list[Event]:
        """Decodes a complete answer as a stream of one frame, for servers that do not stream."""
        # A line break would end the frame; between JSON tokens it is white space.
        line = b" ".join(body.split(b"\n"))
        framed = line if self._plan.content_type == "application/x-ndjson" else b"data: " + line
        events = self.guarded.feed(framed + b"\n\n") + self.guarded.close()
        if self.guarded.error is not None:
            raise self._no_stream(body)
        self._watchdog.stop()
        return events

    def _refusal(self, body: bytes) -> LLMStreamError:
        plan, response = self._plan, self.response
        error = plan.decode_error(response.status, response.headers, body)
        # For example, the Date header of the response shows that the local clock is wrong.
        if plan.vendor.learn(response.url, response.status, response.headers, body):
            error.retryable, error.retry_after_s = True, 0.0
        return error

    def _no_stream(self, body: bytes) -> LLMStreamError:
        response = self.response
        provider = self._plan.provider
        decode = functools.partial(vendor_error, provider=provider)
        return decoded_error(decode, response.status, response.headers, body, provider=provider)


def _may_be_sse(text: bytes) -> bool:
    """Whether some line is an SSE field, complete or cut."""
    for line in text.removeprefix(b"\xef\xbb\xbf").splitlines():
        name, colon, _ = line.partition(b":")
        if line and (name in _SSE_FIELDS if colon else any(field.startswith(line) for field in _SSE_FIELDS)):
            return True
    return False
