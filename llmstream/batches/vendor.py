"""Requests to a vendor's batch API: sent, retried, or checked before a retry."""

from __future__ import annotations

import asyncio
import codecs
import functools
import os
from collections.abc import Callable
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from llmstream.batches.apis import BatchApi, JobState, NewJob, Steps
from llmstream.dialects.base import Encoded
from llmstream.errors import DeadlineExceeded, IncompleteStream, LLMStreamError
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import Request
from llmstream.streams.attempts import scrub, wait_before_retry_s, without_secrets
from llmstream.streams.model import Model

__all__ = ["GRACE_S", "UnknownJob", "Vendor"]

T = TypeVar("T")

# Anthropic has not processed the request then. Not 503, which proxies also send if they lost the server in
# the middle.
_OVERLOADED: Final = 529

# Of the end of a file of results: most of its lines are shorter.
_LOOK_BACK: Final = 64 * 1024

# Why results are fetched again.
_CUT: Final[LLMStreamError] = IncompleteStream("a file of results ends early")

# For a file of tens of megabytes over a slow connection; a silent server hits the read timeout much sooner.
_EXCHANGE_S: Final = 900.0
_READ_S: Final = 120.0
_MAX_BODY_BYTES: Final = 256 * 1024 * 1024
# Marks another root path on the same host, as for Google's file uploads: before the version, not after it.
_ROOTS: Final = ("upload", "download")

GRACE_S: Final = 5.0
"""How long a request may take to appear at the vendor after its sender has died."""


class UnknownJob(Exception):
    """A job may have been created: its request failed without an answer."""

    def __init__(self, error: LLMStreamError) -> None:
        super().__init__(str(error))
        self.error = error


class Vendor:
    """Carries out what an API describes, with the address and the key of a model."""

    def __init__(self, model: Model[Any], api: BatchApi) -> None:
        self._model = model
        self._api = api

    async def run(self, steps: Steps[T]) -> T:
        """Carries out the steps of a method; repeats requests that failed: none costs anything.

        raises: the vendor's error; TransportError
        """
        try:
            http = next(steps)
            while True:
                http = steps.send(await self._repeated(http))
        except StopIteration as end:
            found: T = end.value
            return found

    async def _repeated(self, http: HttpRequest) -> HttpResponse:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await exchange(self._model, http)
            except LLMStreamError as error:
                wait_s = wait_before_retry_s(self._model.retry, error, attempt)
                if wait_s is None:
                    raise
            await asyncio.sleep(wait_s)

    async def _once(self, steps: Steps[T]) -> T:
        """Carries out steps of which none is repeated."""
        try:
            http = next(steps)
            while True:
                http = steps.send(await exchange(self._model, http, once=True))
        except StopIteration as end:
            found: T = end.value
            return found

    async def created(self, job: NewJob, lines: list[bytes]) -> str:
        """Creates a job; looks for it before it is created again.

        raises: UnknownJob if it is not known whether the vendor has it; the vendor's refusal
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._once(self._api.create(job, lines))
            except LLMStreamError as error:
                # A server that failed may have created the job first, which would be paid twice.
                refused = error.status is not None and (error.status < 500 or error.status == _OVERLOADED)
                wait_s = wait_before_retry_s(self._model.retry, error, attempt)
                if wait_s is None:
                    raise error if refused else UnknownJob(error) from None
                failure = error
            await asyncio.sleep(wait_s)
            if not refused:
                if not self._api.by_name:
                    raise UnknownJob(failure)
                # Lists of vendors show a new job with a delay.
                await asyncio.sleep(GRACE_S)
                try:
                    found = await self.run(self._api.find(job))
                except LLMStreamError as error:
                    raise UnknownJob(error) from None
                if found:
                    return found[0]

    async def download(
        self, path: str, state: JobState, *, is_complete: Callable[[], bool] = lambda: True
    ) -> None:
        """Writes the results of a job to a file, JSON lines of the vendor; again if lines are cut or missing.

        If they still are after the last attempt, the vendor has no more of them, and complete lines count.

        is_complete: whether the file has all results, asked after each attempt that arrived
        raises:      the vendor's error; TransportError; OSError
        """
        attempt = 0
        while True:
            attempt += 1
            failure: LLMStreamError | None = None
            try:
                if not await self._write(path, state) and is_complete():
                    return
            except LLMStreamError as error:
                failure = error
            wait_s = wait_before_retry_s(self._model.retry, failure or _CUT, attempt)
            if wait_s is None:
                if failure is not None:
                    raise failure
                return
            await asyncio.sleep(wait_s)

    async def _write(self, path: str, state: JobState) -> bool:
        """Writes the results once; returns whether one of their files ends in the middle of a line."""
        cut = False
        with _new(path) as file:
            for line in state.inline:
                file.write(line + b"\n")
            for http in state.downloads:
                began = file.tell()
                await exchange(self._model, http, into=file)
                cut = _is_cut(file, began) or cut
                file.write(b"\n")
            file.flush()
            # The record names the file next, and must not survive a power failure that the results do not.
            os.fsync(file.fileno())
        return cut


def _new(path: str) -> BinaryIO:
    return open(path, "w+b")


def _is_cut(file: BinaryIO, began: int) -> bool:
    """Whether the data written since then ends in the middle of a line; leaves the file at its end."""
    end, size, last = file.seek(0, os.SEEK_END), _LOOK_BACK, b""
    while b"\n" not in last.strip() and len(last) < end - began:
        file.seek(max(began, end - size))
        last = file.read()
        size *= 4
    line = last.strip().rpartition(b"\n")[2].removeprefix(codecs.BOM_UTF8)
    if not line:
        return False
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.MsgspecError, ValueError):
        return True
    return False


async def exchange(
    model: Model[Any], http: HttpRequest, *, into: BinaryIO | None = None, once: bool = False
) -> HttpResponse:
    """Sends one request with the model's address and key; a complete URL is requested without the key.

    into:   a file to which the body is written, instead of being returned
    once:   never resend on a new connection, as is otherwise done if a pooled one turns out to be closed
    raises: the vendor's error, TransportError
    """
    from llmstream.transport.http import send  # imports aiohttp

    secrets: tuple[str, ...] = ()
    ready = http
    if not http.url.startswith(("http://", "https://")):
        prepared = await model._addressed(Encoded(http), Request(model=model.name))
        secrets = prepared.secrets()
        ready = msgspec.structs.replace(prepared.http, url=_at_root(prepared.http.url))
    try:
        # Results may be hundreds of megabytes; each piece has its own limit.
        async with asyncio.timeout(_EXCHANGE_S if into is None else None):
            response = await send(ready, model.deadlines, model._session, fresh=once)
            try:
                if response.status < 400:
                    body = await _read(response, into)
                    return HttpResponse(response.status, body, response.headers)
                body = await response.read_error()
            finally:
                response.close()
        raise model._decode_error(response.status, response.headers, body)
    except LLMStreamError as error:
        error.provider = error.provider or model.provider.name
        model.provider.explain(error, ready)
        failure = scrub(error, functools.partial(without_secrets, secrets=secrets))
    except TimeoutError:
        failure = DeadlineExceeded("the vendor's batch API does not respond", reason="total")
    raise failure from None


async def _read(response: Any, into: BinaryIO | None) -> bytes:
    if into is None:
        body: bytes = await response.read_all(_MAX_BODY_BYTES)
        return body
    while True:
        async with asyncio.timeout(_READ_S):
            piece = await response.read()
        if not piece:
            return b""
        into.write(piece)


def _at_root(url: str) -> str:
    """Moves the name of another root to the front: "https://h/v1/:upload/files" to "https://h/upload/v1/files"."""
    for root in _ROOTS:
        before, mark, path = url.partition(f"/:{root}/")
        if mark:
            scheme, _, rest = before.partition("://")
            host, slash, version = rest.partition("/")
            return f"{scheme}://{host}/{root}{slash}{version}/{path}"
    return url
