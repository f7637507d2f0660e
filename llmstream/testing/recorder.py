"""Records a vendor's response, byte for byte and with its timing, in the form that `Recording` reads."""

from __future__ import annotations

import asyncio
import base64
import functools
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Unpack

from llmstream.errors import DeadlineExceeded, LimitExceeded, LLMStreamError
from llmstream.simulator.recording import Recording
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt
from llmstream.transport.deadlines import deadline_error
from llmstream.transport.http import Response, send

__all__ = ["MAX_BYTES", "overwritten", "record"]

MAX_BYTES: Final = 64 * 1024 * 1024
"""Recorded responses with images have a few megabytes."""

# Shorter fragments may occur in any text.
_MIN_BASE64: Final = 8

# A response without a deadline must end some time.
_HOUR_S: Final = 3600.0


async def record(
    model: Model,
    prompt: Prompt,
    folder: str | Path,
    *,
    scrub: Iterable[str] = (),
    max_bytes: int = MAX_BYTES,
    clock: Callable[[], float] = time.monotonic,
    **options: Unpack[Options],
) -> Recording:
    """Makes one request and writes the response to a folder: `response.bin`, `timing.jsonl`, `meta.json`.

    Writes error responses as well, with their status. Omits the request and all headers but the content
    type. Overwrites API keys with asterisks if the response echoes them: verbatim, and as encoded in
    JSON, URLs and base64.

    scrub:     other secrets to overwrite
    max_bytes: maximum size of the body
    raises:    LLMStreamError without a response, and for an incomplete one after writing it;
               LimitExceeded past max_bytes
    """
    request = model.request(prompt, **options)
    prepared = await model._prepare(request, "recorded")
    http, secrets = prepared.http, prepared.secrets()
    deadlines = options.get("deadlines") or model.deadlines
    limit_s = deadlines.total_s or _HOUR_S
    pieces: list[bytes] = []
    timing: list[tuple[float, int]] = []
    failure: LLMStreamError | None = None
    response: Response | None = None
    try:
        async with asyncio.timeout(limit_s):
            response = await send(http, deadlines, model._session)
            failure = await _read(response, pieces, timing, clock, max_bytes)
    # Also a TimeoutError, but one of the connection.
    except DeadlineExceeded:
        raise
    except TimeoutError:
        failure = deadline_error("total", limit_s)
        if response is None:
            raise failure from None
    # The longest first: a secret may be part of another.
    hidden = sorted(filter(None, {*secrets, *scrub}), key=len, reverse=True)
    content_type = response.headers.get("content-type", "").encode("utf-8", "replace")
    recording = Recording(
        body=overwritten(b"".join(pieces), hidden),
        content_type=overwritten(content_type, hidden).decode("utf-8", "replace"),
        status=response.status,
        timing=tuple(timing),
    )
    # An incomplete response is saved before its error is raised: it may be what is to be tested.
    recording.save(folder)
    if failure is not None:
        raise failure
    return recording


async def _read(
    response: Response,
    pieces: list[bytes],
    timing: list[tuple[float, int]],
    clock: Callable[[], float],
    max_bytes: int,
) -> LLMStreamError | None:
    """Reads the body to its end; returns the error that interrupted it, or None."""
    begun, left = clock(), max_bytes
    try:
        while piece := await response.read():
            if len(piece) > left:
                return LimitExceeded(
                    f"the response is longer than {max_bytes} bytes. Pass a larger max_bytes."
                )
            left -= len(piece)
            pieces.append(piece)
            timing.append((round(clock() - begun, 6), len(piece)))
    except LLMStreamError as error:
        return error
    finally:
        response.close()
    return None


def overwritten(body: bytes, secrets: Iterable[str]) -> bytes:
    """Replaces secrets by asterisks of the same length, so that the timing still fits."""
    for secret in secrets:
        body = _spelled(secret).sub(lambda found: b"*" * len(found[0]), body)
        for core in _in_base64(secret):
            body = body.replace(core, b"*" * len(core))
    return body


@functools.lru_cache(maxsize=64)
def _spelled(secret: str) -> re.Pattern[bytes]:
    """Matches a secret with each character verbatim, escaped as in JSON, or quoted as in a URL."""
    return re.compile(b"".join(map(_spellings, secret)))


def _spellings(char: str) -> bytes:
    plain = char.encode("utf-8", "surrogatepass")
    units = char.encode("utf-16-be", "surrogatepass").hex()
    escaped = b"".join(rb"\\u" + _any_case(units[i : i + 4]) for i in range(0, len(units), 4))
    quoted = b"".join(b"%" + _any_case(f"{byte:02x}") for byte in plain)
    return b"(?:" + b"|".join([re.escape(plain), rb"\\" + re.escape(plain), escaped, quoted]) + b")"


def _any_case(digits: str) -> bytes:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits).encode()


@functools.lru_cache(maxsize=64)
def _in_base64(secret: str) -> list[bytes]:
    """The base64 digits that depend only on the secret, for each alignment within a text."""
    raw, found = secret.encode("utf-8", "surrogatepass"), list[bytes]()
    for before in range(3):
        # A digit has six bits: those that share bits with the text around the secret are not counted.
        begin, end = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(b"\0" * before + raw)[begin:end]
            if len(core) >= _MIN_BASE64:
                found.append(core)
    return found
