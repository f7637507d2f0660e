"""Keeps a vendor's answer, byte for byte and with its timing, in the form that `Recording` reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Unpack

import msgspec

from llmstream.errors import DeadlineExceeded, LLMStreamError
from llmstream.simulator import Recording
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt
from llmstream.transport.http import Response, send
from llmstream.transport.watchdog import deadline_error

__all__ = ["record"]

_HOUR_S: Final = 3600.0


async def record(
    model: Model,
    prompt: Prompt,
    folder: str | Path,
    *,
    scrub: Iterable[str] = (),
    clock: Callable[[], float] = time.monotonic,
    **options: Unpack[Options],
) -> Recording:
    """Asks once and keeps the answer in a folder: `response.bin`, `timing.jsonl`, `meta.json`.

    A refusal is kept as well, with its status. Nothing of the request is kept, and of the headers
    only the content type. The key, where an answer echoes it, is overwritten with asterisks.

    scrub:  other texts that nobody may see, overwritten in the same way
    raises: LLMStreamError where there is no answer; where one breaks off, after what came is kept
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
            failure = await _read(response, pieces, timing, clock)
    except DeadlineExceeded:  # a TimeoutError too, but of the connection
        raise
    except TimeoutError:
        failure = deadline_error("total", limit_s)
        if response is None:
            raise failure from None
    recording = Recording(
        body=_overwritten(b"".join(pieces), {*secrets, *scrub}),
        content_type=response.headers.get("content-type", ""),
        status=response.status,
        timing=tuple(timing),
    )
    _write(recording, Path(folder))
    if failure is not None:
        raise failure
    return recording


async def _read(
    response: Response, pieces: list[bytes], timing: list[tuple[float, int]], clock: Callable[[], float]
) -> LLMStreamError | None:
    """Reads the body to its end; gives the error in which it broke off, if it did."""
    begun = clock()
    try:
        while piece := await response.read():
            pieces.append(piece)
            timing.append((round(clock() - begun, 6), len(piece)))
    except LLMStreamError as error:
        return error
    finally:
        response.close()
    return None


def _overwritten(body: bytes, secrets: Iterable[str]) -> bytes:
    """The body with asterisks in place of secrets, as long as before, so that the timing still fits."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        found = secret.encode()
        body = body.replace(found, b"*" * len(found))
    return body


def _write(recording: Recording, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [msgspec.json.encode(moment) for moment in recording.timing]
    meta = {"content_type": recording.content_type, "status": recording.status}
    (folder / "response.bin").write_bytes(recording.body)
    (folder / "timing.jsonl").write_bytes(b"".join([line + b"\n" for line in lines]))
    (folder / "meta.json").write_bytes(msgspec.json.encode(meta) + b"\n")
