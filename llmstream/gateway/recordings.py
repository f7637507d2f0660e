"""Recordings of calls: traffic with the client and with vendors, byte for byte with timestamps.

    recordings/20261122-153001-042-1f8e/
        call.json              the call's row in the log
        client/                the client's request, and the gateway's answer
        vendor-1/              the request to the first vendor that was asked, and its answer
            request.json       the body as it was sent
            response.bin, timing.jsonl, meta.json

`client` and each `vendor-N` are recordings as `llmstream.testing.Recording.load` and the simulator read them.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from llmstream.exchange import HttpRequest, carries_secret_parameter, redact_headers
from llmstream.gateway.accounts import Account, Row
from llmstream.serve.body import Body
from llmstream.streams.call_plan import secrets_of
from llmstream.transport.http import Response

__all__ = ["CallRecord", "Recordings"]

_log: Final = logging.getLogger("llmstream.gateway")

_MIB: Final = 1024 * 1024
# A shorter text may be a common word, which would be masked everywhere.
_MIN_SECRET_CHARS: Final = 6


class Recordings:
    """A folder with a folder for each recorded call, which only its owner may read.

    max_call_bytes: of each request and each response; longer ones are truncated, which `meta.json` reports
    max_bytes:      of all calls together; the oldest are removed first
    """

    def __init__(
        self, folder: str | Path, *, max_call_bytes: int = 10 * _MIB, max_bytes: int = 1024 * _MIB
    ) -> None:
        self.folder = Path(folder)
        self._max_call_bytes = max_call_bytes
        self._max_bytes = max_bytes
        self._sizes: deque[tuple[Path, int]] | None = None
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, "llmstream-recordings")

    def begin(self, account: Account, http: HttpRequest, given: Iterable[str]) -> CallRecord:
        """Starts to record a call.

        given: the client's keys, which are masked
        """
        return CallRecord(account, http, given, self._max_call_bytes, self._later)

    def close(self) -> None:
        """Waits until all calls are written."""
        self._thread.shutdown(wait=True)

    def _later(self, record: CallRecord) -> None:
        try:
            self._thread.submit(self._write, record)
        except RuntimeError:
            _log.error("a call ended after the recordings were closed; it is not recorded")

    def _write(self, record: CallRecord) -> None:
        try:
            place = self.folder / record.name
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(mode=0o700)
            record.write(place)
            self._make_room(place)
        except OSError as error:
            _log.error("a call is not recorded: %s", error)

    def _make_room(self, newest: Path) -> None:
        if self._sizes is None:
            self._sizes = deque((one, _size(one)) for one in sorted(self.folder.iterdir()) if one != newest)
            self._bytes = sum(size for _, size in self._sizes)
        self._sizes.append((newest, _size(newest)))
        self._bytes += self._sizes[-1][1]
        while self._bytes > self._max_bytes and len(self._sizes) > 1:
            oldest, size = self._sizes.popleft()
            shutil.rmtree(oldest, ignore_errors=True)
            self._bytes -= size


class CallRecord:
    """Collects one call. It is written when the client's response has ended and the account is settled.

    row: the call's row in the log
    """

    def __init__(
        self,
        account: Account,
        http: HttpRequest,
        given: Iterable[str],
        max_bytes: int,
        over: Callable[[CallRecord], object],
    ) -> None:
        self._account = account
        self.row: Row = account.row
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self.row.started))
        # Names sort by time, also within a second.
        self.name = f"{moment}-{int(self.row.started % 1 * 1000):03}-{secrets.token_hex(2)}"
        self._secrets = {text for text in given if len(text) >= _MIN_SECRET_CHARS}
        self._begun = time.monotonic()
        self._max_bytes = max_bytes
        self._over = over
        self._waits_for = 2  # the end of the client's response, and of the account
        account.over = self._ended
        self._client = _Exchange("client", http, self.row.wire, self.row.asked, 0.0, self._begun, max_bytes)
        self._vendors: list[_Exchange] = []

    def answered(self, body: Body) -> None:
        """Records the head of the gateway's response, and the bytes of its body sent to the client."""
        self._client.status, self._client.content_type = body.status, body.headers.get("content-type", "")
        body.watch = self.got

    def got(self, chunk: bytes) -> None:
        """Records bytes sent to the client; b"" at the end."""
        if chunk:
            self._client.took(chunk)
        else:
            self._ended()

    def asked(self, http: HttpRequest, response: Response) -> None:
        """Records a request to a vendor, and taps its response."""
        now = time.monotonic()
        self._secrets |= {
            text for text in secrets_of(None, http.headers, http.url) if len(text) >= _MIN_SECRET_CHARS
        }
        name = f"vendor-{len(self._vendors) + 1}"
        account = self._account
        exchange = _Exchange(
            name, http, account.wire, self.row.model, now - self._begun, now, self._max_bytes
        )
        exchange.status = response.status
        exchange.content_type = response.headers.get("content-type", "")
        self._vendors.append(exchange)
        response.tap(exchange.took)

    def _ended(self) -> None:
        self._waits_for -= 1
        if self._waits_for == 0:
            self._over(self)

    def write(self, place: Path) -> None:
        """Writes the call into an empty folder."""
        hidden = sorted(self._secrets, key=len, reverse=True)
        for exchange in (self._client, *self._vendors):
            exchange.write(place / exchange.name, hidden)
        _put(place / "call.json", msgspec.json.format(msgspec.json.encode(self.row)))


class _Exchange:
    """One request and its response, up to the limit.

    begun_s: from the client's request to the beginning of the times
    """

    def __init__(
        self,
        name: str,
        http: HttpRequest,
        dialect: str,
        model: str,
        begun_s: float,
        begun: float,
        max_bytes: int,
    ) -> None:
        self.name = name
        self.status, self.content_type = 200, ""
        self._http = http
        self._dialect, self._model, self._begun_s = dialect, model, begun_s
        self._begun = begun
        self._left = self._max_bytes = max_bytes
        self._truncated = False
        self._pieces: list[bytes] = []
        self._timing: list[tuple[float, int]] = []

    def took(self, piece: bytes) -> None:
        """Adds a piece of the response."""
        if len(piece) > self._left:
            self._truncated, piece = True, piece[: self._left]
        if piece:
            self._left -= len(piece)
            self._pieces.append(piece)
            self._timing.append((round(time.monotonic() - self._begun, 6), len(piece)))

    def write(self, folder: Path, hidden: Iterable[str]) -> None:
        """Writes a folder that `Recording.load` reads, with the request next to it."""
        # Imported on use: the simulator takes 2 MB.
        from llmstream.simulator.recording import Recording, overwritten

        http = self._http
        Recording(
            body=overwritten(b"".join(self._pieces), hidden),
            content_type=self.content_type,
            status=self.status,
            timing=tuple(self._timing),
        ).save(
            folder,
            dialect=self._dialect,
            model=self._model,
            method=http.method,
            url=_without_secrets(http.url),
            request_headers=redact_headers(http.headers),
            begun_s=round(self._begun_s, 6),
            truncated=self._truncated or len(http.body) > self._max_bytes,
        )
        _put(folder / "request.json", overwritten(http.body[: self._max_bytes], hidden))


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    query = [one for one in parts.query.split("&") if not carries_secret_parameter(one.partition("=")[0])]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "&".join(query), ""))


def _put(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
