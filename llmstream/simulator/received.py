"""What the simulator has seen: requests, and whether their senders stayed to the end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import msgspec

from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["KeptRequests", "Received"]

_MOST_REQUESTS: Final = 100_000
"""Without their bodies; some 100 MB."""


class Received:
    """A request as it came, and what became of its answer.

    http:         without the values of secrets; the URL is the path
    request_id:   what the answer's headers call it
    dialect:      name of the dialect that took it, "" where none did
    request:      None where it was refused, or answered from a recording
    disconnected: the client left before the answer was over
    dropped:      body and request are not kept: those that came later take the room
    done:         set when the server is through with it
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
    """Bounds the list of what was received: anybody on this machine can send, and bodies are large.

    log:       the list; the oldest requests lose first their bodies, then their places
    max_bytes: of all bodies together; the newest one always stays
    """

    def __init__(self, log: list[Received], max_bytes: int) -> None:
        self._log = log
        self._max_bytes = max_bytes
        self._bytes = 0
        self._with_body: deque[Received] = deque()

    def enter(self, received: Received) -> None:
        """A request came; of its body nothing is known yet."""
        if len(self._log) >= _MOST_REQUESTS:
            del self._log[: _MOST_REQUESTS // 10]  # many at once, as each removal moves the rest
        self._log.append(received)

    def body(self, received: Received, http: HttpRequest) -> None:
        """Its body is here; those of older ones make room for it."""
        received.http = http
        self._with_body.append(received)
        self._bytes += len(http.body)
        while self._bytes > self._max_bytes and len(self._with_body) > 1:
            oldest = self._with_body.popleft()
            self._bytes -= len(oldest.http.body)
            oldest.http = msgspec.structs.replace(oldest.http, body=b"")
            oldest.request, oldest.dropped = None, True
