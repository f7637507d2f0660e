"""The requests that the simulator received, and whether their clients stayed to the end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import msgspec

from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["KeptRequests", "Received"]

_MAX_REQUESTS: Final = 100_000
"""Without bodies these take some 100 MB."""


class Received:
    """A received request and the state of its response.

    http:         without the values of secrets; the URL is the path
    request_id:   id in the headers of the response
    dialect:      name of the dialect that handled it, "" for none
    request:      None if it was refused, or answered from a recording
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
        self.disconnected = False
        self.done = asyncio.Event()

    def __repr__(self) -> str:
        state = "left" if self.disconnected else "done" if self.done.is_set() else "open"
        return f"Received({self.http.method} {self.http.url}, dialect={self.dialect!r}, {state})"


class KeptRequests:
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
