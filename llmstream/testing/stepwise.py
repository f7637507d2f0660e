"""Recorded streams as tests: a server that sends a body piece by piece, events without what changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Final

import msgspec

from llmstream.events import ErrorEvent, Event, StreamStart
from llmstream.testing.faults import answered

__all__ = ["Stepwise", "comparable"]

# For the head of a request, which may have long headers; asyncio's own limit is 64 KiB.
_LIMIT_BYTES: Final = 64 * 1024 * 1024
_IDS: Final = ("id", "toolCallId", "approvalId")


def comparable(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The events as values of JSON, without what differs between two readings of the same bytes.

    Ids are numbered, because some vendors send none and a decoder makes them; of an error there is the code,
    because its message may name a host; warnings are left out, because they are about the request.
    """
    numbers: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    for event in events:
        match event:
            case StreamStart():
                value = {"type": "stream-start"}
            case ErrorEvent(error=error):
                value = {"type": "error", "code": error.code}
            case _:
                value = msgspec.to_builtins(event)
        for name in _IDS:
            if isinstance(given := value.get(name), str):
                value[name] = numbers.setdefault(given, f"#{len(numbers)}")
        found.append(value)
    return found


class Stepwise:
    """Answers each request with the pieces of a recorded body, one more at each call of `send`.

    So a test knows, without a clock, which events have to be there: those of the pieces that were sent.

    pieces:       of the body; each is one write
    content_type: of the response
    resets:       breaks the connection after the last piece, in place of the end
    url:          base URL, while the server runs
    """

    def __init__(
        self, pieces: Sequence[bytes], content_type: str = "text/event-stream", *, resets: bool = False
    ) -> None:
        self.url = ""
        self._resets = resets
        # All bytes: a recording has no waits.
        self._head, *self._steps = [
            step for step in answered(*pieces, content_type=content_type) if isinstance(step, bytes)
        ]
        self._allowed = asyncio.Semaphore(0)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Stepwise:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LIMIT_BYTES)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None  # it was entered
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def send(self) -> None:
        """Sends the next piece; after the last one, ends the body."""
        self._allowed.release()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            top = await reader.readuntil(b"\r\n\r\n")
            sizes = [line for line in top.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(sum(int(line.partition(b":")[2]) for line in sizes))
            writer.write(self._head)
            for step in self._steps[: -1 if self._resets else None]:
                await self._allowed.acquire()
                writer.write(step)
                await writer.drain()
            if self._resets:
                await self._allowed.acquire()
                writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has disconnected
        finally:
            writer.close()
