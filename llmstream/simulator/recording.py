"""Recorded responses: their bytes and when they arrived; and how a vendor's response is recorded."""

from __future__ import annotations

import asyncio
import base64
import functools
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, Unpack

import msgspec

from llmstream.errors import DeadlineExceeded, InvalidRequest, LimitExceeded, LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.files import read_file
from llmstream.first_use import prepared
from llmstream.request import Request
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt
from llmstream.transport.deadlines import deadline_error
from llmstream.transport.http import Response, send

__all__ = [
    "MAX_BYTES",
    "Received",
    "Recording",
    "RequestLog",
    "overwritten",
    "record",
]


# Recordings, as the simulator plays them.

_BODY: Final = "response.bin"
_TIMING: Final = "timing.jsonl"
_META: Final = "meta.json"

_EVENT_STREAM: Final = "text/event-stream"
_TYPES: Final = {
    ".sse": _EVENT_STREAM,
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".json": "application/json",
}


# A recording in milliseconds by mistake would be played for weeks.
_DAY_S: Final = 24 * 3600.0

_VERSION: Final = 1


class _Meta(msgspec.Struct):
    content_type: str = ""
    status: Annotated[int, msgspec.Meta(ge=100, le=999)] = 200
    version: int = _VERSION

    def __post_init__(self) -> None:
        if not self.content_type.isprintable():
            raise ValueError("the content type has a control character")
        if self.version != _VERSION:
            raise ValueError(f"it has version {self.version}; this llmstream reads version {_VERSION}")


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded response.

    timing: pairs of seconds since the start and number of bytes that arrived then; the rest of the
            body arrives with the last pair
    """

    body: bytes
    content_type: str = _EVENT_STREAM
    status: int = 200
    timing: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        if any(count < 0 or seconds < 0 for seconds, count in self.timing):
            raise InvalidRequest("the timing of a recording has a negative number.")

    def pieces(self, speed: float | None = 1.0) -> Iterator[tuple[float, bytes]]:
        """Yields the pieces of the body with the seconds at which they are due.

        speed: factor of the original speed; None does not wait
        """
        start, due_s = 0, 0.0
        for seconds, count in self.timing:
            due_s = seconds / speed if speed else 0.0
            if count:
                yield due_s, self.body[start : start + count]
            start += count
        if start < len(self.body):
            yield due_s, self.body[start:]

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Loads a recording from a file, or from a folder with `response.bin`.

        Optional files are the timing, one JSON array `[seconds, bytes]` per line (`timing.jsonl` in a
        folder, `NAME.timing.jsonl` beside a file), and in a folder `meta.json` with `content_type` and
        `status`.

        raises: InvalidRequest if a file is missing or invalid
        """
        place = Path(path)
        folder = place.is_dir()
        body_file = place / _BODY if folder else place
        timing_file = place / _TIMING if folder else place.with_name(f"{place.name}.{_TIMING}")
        meta_file = place / _META if folder else None
        try:
            body = read_file(body_file)
            meta = _Meta()
            if meta_file is not None and meta_file.exists():
                meta = msgspec.json.decode(read_file(meta_file), type=prepared(_Meta))
            timing: list[tuple[float, int]] = []
            if timing_file.exists():
                timing = msgspec.json.Decoder(tuple[float, int]).decode_lines(read_file(timing_file))
            if any(seconds > _DAY_S for seconds, _ in timing):
                raise ValueError("the timing is longer than a day")
        except OSError as error:
            raise InvalidRequest(
                f"cannot read the recording {str(path)!r}: {error.strerror or error}"
            ) from None
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"{str(path)!r} is not a recording: {error}") from None
        content_type = meta.content_type or _TYPES.get(body_file.suffix) or _guess(body)
        return cls(body=body, content_type=content_type, status=meta.status, timing=tuple(timing))

    def save(self, folder: str | Path, **more: object) -> None:
        """Writes the files that `load` reads; does not follow links in place of them.

        more: further fields of `meta.json`
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        lines = [msgspec.json.encode(moment) + b"\n" for moment in self.timing]
        meta = {"content_type": self.content_type, "status": self.status, **more}
        _put(place / _BODY, self.body)
        _put(place / _TIMING, b"".join(lines))
        _put(place / _META, msgspec.json.encode(meta) + b"\n")


def _put(path: Path, data: bytes) -> None:
    # A new file: writing through a link in its place could overwrite any file of the user.
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:
        file.write(data)


def _guess(body: bytes) -> str:
    head = body.lstrip()[:1]
    return "application/x-ndjson" if head == b"{" else _EVENT_STREAM


# Received requests.

# Without bodies these take some 100 MB.
_MAX_REQUESTS: Final = 100_000


class Received:
    """A received request and the state of its response.

    http:         without the values of secrets; the URL is the path
    request_id:   id in the headers of the response
    dialect:      name of the dialect that handled it, "" for none
    request:      None if it was refused, or answered from a recording
    limit_headers: rate limits in the headers of the response
    disconnected: whether the client disconnected early
    dropped:      whether body and request were removed to make room for newer ones
    done:         set when the response has ended
    """

    def __init__(self, http: HttpRequest, request_id: str) -> None:
        self.http = http
        self.dropped = False
        self.request_id = request_id
        self.dialect = ""
        self.request: Request | None = None
        self.limit_headers: dict[str, str] = {}
        self.disconnected = False
        self.done = asyncio.Event()

    def __repr__(self) -> str:
        state = "left" if self.disconnected else "done" if self.done.is_set() else "open"
        return f"Received({self.http.method} {self.http.url}, dialect={self.dialect!r}, {state})"


class RequestLog:
    """Bounds the list of received requests: any program on this machine can send large bodies.

    log:       the list; the oldest requests lose first their bodies, then their places
    max_bytes: limit for all bodies together; the newest one is always stored
    """

    def __init__(self, log: list[Received], max_bytes: int) -> None:
        self._log = log
        self._max_bytes = max_bytes
        self._bytes = 0
        self._with_body: deque[Received] = deque()

    def enter(self, received: Received) -> None:
        """Adds a request, before its body is read."""
        if len(self._log) >= _MAX_REQUESTS:
            # Many at once, because each removal moves the rest.
            del self._log[: _MAX_REQUESTS // 10]
        self._log.append(received)

    def body(self, received: Received, http: HttpRequest) -> None:
        """Stores the body of a request, and drops those of older ones if necessary."""
        received.http = http
        self._with_body.append(received)
        self._bytes += len(http.body)
        while self._bytes > self._max_bytes and len(self._with_body) > 1:
            oldest = self._with_body.popleft()
            self._bytes -= len(oldest.http.body)
            oldest.http = msgspec.structs.replace(oldest.http, body=b"")
            oldest.request, oldest.dropped = None, True


# Recording a vendor's response.

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
