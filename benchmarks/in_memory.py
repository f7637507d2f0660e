"""Connections of aiohttp that end in this process: all of a call but the kernel, the same at each run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from llmstream.transport import sessions
from llmstream.transport.aiohttp_patches import CarefulConnector

BLOCK_BYTES = 16 * 1024
Answers = Callable[[bytes], list[bytes]]
"""The response to a request, whole, as what is received at a time."""


def response(content_type: str, events: Iterable[bytes]) -> list[bytes]:
    """A response of HTTP with its body in chunks of 16 KiB, each received by itself."""
    body = b"".join(events)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    blocks = [body[i : i + BLOCK_BYTES] for i in range(0, len(body), BLOCK_BYTES)]
    return [head, *(b"%x\r\n%b\r\n" % (len(block), block) for block in blocks), b"0\r\n\r\n"]


class _Connection(asyncio.Transport):
    """A server of one connection: a complete request is answered, a piece in each turn of the loop."""

    def __init__(self, protocol: Any, answers: Answers) -> None:
        super().__init__({"peername": ("127.0.0.1", 80)})
        self._protocol, self._answers = protocol, answers
        self._received = bytearray()
        self._expected = 0
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Takes a piece of a request."""
        self._received += data
        end = self._received.find(b"\r\n\r\n") + 4 if not self._expected else 0
        if end > 3:
            _, _, length = self._received[:end].lower().partition(b"content-length: ")
            self._expected = end + int(length.partition(b"\r\n")[0] or 0)
        if self._expected and len(self._received) >= self._expected:
            request, self._received, self._expected = bytes(self._received), bytearray(), 0
            self._send(self._answers(request), 0)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Takes pieces of a request."""
        self.write(b"".join(list_of_data))

    def _send(self, pieces: list[bytes], number: int) -> None:
        if number == len(pieces):
            for hook in before_last_piece:
                hook()
        if number:
            self._protocol.data_received(pieces[number - 1])
        if number < len(pieces):
            asyncio.get_running_loop().call_soon(self._send, pieces, number + 1)

    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def close(self) -> None:
        """Ends the connection."""
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        """What was sent is small; the protocol keeps it."""

    resume_reading = pause_reading


class _Connecting:
    """What both connectors do in place of opening a socket."""

    _factory: Callable[[], Any]

    async def _create_connection(self, req: aiohttp.ClientRequest, *_: object) -> Any:
        protocol = self._factory()
        protocol.connection_made(_Connection(protocol, _answers[req.url.port or 0]))
        return protocol


class _PlainConnector(_Connecting, aiohttp.TCPConnector):
    """As a program's own session has it."""


class _OurConnector(_Connecting, CarefulConnector):
    """As the sessions of llmstream have it."""


before_last_piece: list[Callable[[], object]] = []
"""Called before the last piece of each response is received."""

# By the port of their address.
_answers: list[Answers] = []


def address(answers: Answers) -> str:
    """Where the requests get these answers."""
    _answers.append(answers)
    return f"http://127.0.0.1:{len(_answers) - 1}"


@contextmanager
def no_sockets() -> Iterator[None]:
    """Lets llmstream open its session, once more or at first, with connections that end in this process."""
    sessions.CarefulConnector = _OurConnector  # type: ignore[misc]  # a subclass of it
    try:
        yield
    finally:
        sessions.CarefulConnector = CarefulConnector  # type: ignore[misc]


def plain_session() -> aiohttp.ClientSession:
    """A session as a program has it, for the caller to close."""
    return aiohttp.ClientSession(connector=_PlainConnector())
