"""What the simulator has seen: requests, and whether their senders stayed to the end."""

from __future__ import annotations

import asyncio

from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["Received"]


class Received:
    """A request as it came, and what became of its answer.

    http:         without the values of secrets; the URL is the path
    request_id:   what the answer's headers call it
    dialect:      name of the dialect that took it, "" where none did
    request:      None where it was refused, or answered from a recording
    disconnected: the client left before the answer was over
    done:         set when the server is through with it
    """

    def __init__(self, http: HttpRequest, request_id: str) -> None:
        self.http = http
        self.request_id = request_id
        self.dialect = ""
        self.request: Request | None = None
        self.disconnected = False
        self.done = asyncio.Event()

    def __repr__(self) -> str:
        state = "left" if self.disconnected else "done" if self.done.is_set() else "open"
        return f"Received({self.http.method} {self.http.url}, dialect={self.dialect!r}, {state})"
