"""A replay server in a process of its own, as thin as can be: it must not be what is measured.

The path says what is wanted, `/FAMILY/COUNT/WRITES/...`; the rest is whatever the client's SDK adds.
WRITES of `tools-events` or `tools-blocks` have tool calls in place of text. `agent10` answers with COUNT
calls of a tool, until the request has the results of 10 steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

from benchmarks.arguments import arguments
from benchmarks.bodies import BODIES, CONTENT_TYPES, RESULT_MARK, WORDS, agent_step, body_of

BLOCK_BYTES = 16 * 1024
PACE_S = 0.05
"""The time between two events of a paced answer."""
FIRST_S = 0.002


def _pieces(family: str, count: int, writes: str) -> list[bytes]:
    """What is written at a time: each event, blocks of 16 KiB, or the whole body."""
    kind, _, writes = writes.rpartition("-")
    events = body_of(family, count, kind or "text")
    if writes == "events":
        return events
    body = b"".join(events)
    size = len(body) if writes == "whole" else BLOCK_BYTES
    return [body[i : i + size] for i in range(0, len(body), size)]


async def _replayed(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


async def _paced(family: str, count: int) -> AsyncIterator[bytes]:
    """An event each `PACE_S`; its text is the time at which it was sent, in monotonic nanoseconds."""
    content, *end = BODIES[family](1)[1:]
    await asyncio.sleep(random.random() * PACE_S)  # so that streams do not march in step
    for _ in range(count):
        yield content.replace(f" {WORDS[0]}".encode(), b" %d" % time.monotonic_ns())
        await asyncio.sleep(PACE_S)
    yield b"".join(end)


async def _first(family: str) -> AsyncIterator[bytes]:
    """The first event at once, and the end of the answer when its reader has had the time to take it."""
    begin, content, *end = BODIES[family](1)
    yield begin + content
    await asyncio.sleep(FIRST_S)
    yield b"".join(end)


async def _idle(family: str) -> AsyncIterator[bytes]:
    """The beginning of an answer, and then nothing for an hour."""
    yield b"".join(BODIES[family](1)[:2])
    await asyncio.sleep(3600)


class _Handler:
    def __init__(self) -> None:
        self.cache: dict[str, list[bytes]] = {}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                length = next(
                    (int(x.split(":")[1]) for x in lines if x.lower().startswith("content-length")), 0
                )
                results = (await reader.readexactly(length)).count(RESULT_MARK.encode())
                await self.answer(lines[0].split(" ")[1], results, writer)
        writer.close()

    async def answer(self, path: str, results: int, writer: asyncio.StreamWriter) -> None:
        """One answer, each piece a chunk and a write. results: of tools in the request."""
        _, family, count, writes, *_ = path.split("/")
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {CONTENT_TYPES[family]}\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        async for piece in self.pieces(family, int(count), writes, results):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def pieces(self, family: str, count: int, writes: str, results: int) -> AsyncIterator[bytes]:
        """The body in the way it was asked for."""
        if writes == "paced":
            return _paced(family, count)
        if writes == "first":
            return _first(family)
        if writes == "idle":
            return _idle(family)
        if writes.startswith("agent"):
            step = results // count
            calls = count if step < int(writes.removeprefix("agent")) else 0
            key = f"{family}/{calls}/{step}"
            if key not in self.cache:
                self.cache[key] = [agent_step(family, step, calls)]
            return _replayed(self.cache[key])
        key = f"{family}/{count}/{writes}"
        if key not in self.cache:
            self.cache[key] = _pieces(family, count, writes)
        return _replayed(self.cache[key])


async def _serve() -> None:
    server = await asyncio.start_server(_Handler(), "127.0.0.1", 0, limit=1024 * 1024, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The server's address; the process ends with the block."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    arguments("", __doc__)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
