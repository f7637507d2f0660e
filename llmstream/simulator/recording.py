"""Recorded responses: their bytes and when they arrived."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.files import read_file
from llmstream.first_use import prepared
from llmstream.request import Request

__all__ = ["Received", "Recording", "RequestLog"]


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
