"""A replay server in a process of its own, as thin as can be: it must not be what is measured."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.bodies import BODIES, CONTENT_TYPES

BLOCK_BYTES = 16 * 1024


def _pieces(family: str, count: int, mode: str) -> list[bytes]:
    events = BODIES[family](count)
    if mode == "events":
        return events
    body = b"".join(events)
    return [body[i : i + BLOCK_BYTES] for i in range(0, len(body), BLOCK_BYTES)]


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
                await reader.readexactly(length)
                await self.answer(lines[0].split(" ")[1], writer)
        writer.close()

    async def answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        """`/FAMILY/COUNT/MODE/...`: the rest of the path is whatever the client's SDK adds."""
        _, family, count, mode, *_ = path.split("/")
        key = f"{family}/{count}/{mode}"
        if key not in self.cache:
            self.cache[key] = [
                f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in _pieces(family, int(count), mode)
            ]
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {CONTENT_TYPES[family]}\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        for piece in self.cache[key]:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _serve() -> None:
    server = await asyncio.start_server(_Handler(), "127.0.0.1", 0, limit=1024 * 1024)
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
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
