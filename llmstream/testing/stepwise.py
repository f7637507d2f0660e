"""A server that sends a body piece by piece, each when the test asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType

from llmstream.testing.faults import answered

__all__ = ["Stepwise"]

_LIMIT_BYTES = 64 * 1024 * 1024


class Stepwise:
    """Answers each request with the pieces of a recorded body, one more at each call of `send`.

    So a test knows, without a clock, which events have to be there: those of the pieces that were sent.

    pieces:       of the body; each is one write
    content_type: of the response
    url:          base URL, while the server runs
    """

    def __init__(self, pieces: Sequence[bytes], content_type: str = "text/event-stream") -> None:
        self.url = ""
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
            for step in self._steps:
                await self._allowed.acquire()
                writer.write(step)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has disconnected
        finally:
            writer.close()
