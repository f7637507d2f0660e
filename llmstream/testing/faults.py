"""Servers that send raw bytes on loopback: scripts of faults, and recorded bodies piece by piece.

`FaultServer` misbehaves on purpose, one script per connection. Only the script decides whether the bytes
are HTTP, so tests can send broken framing, silence and resets. The server reads the request, then plays the
script. `chaos` makes scripts of valid bodies.

`Stepwise` makes a test of a recorded stream: it sends the body piece by piece, and `comparable` returns its
events without what changes.
"""

from __future__ import annotations

import asyncio
import enum
import gzip
import re
import socket
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from llmstream.errors import ErrorInfo, InvalidRequest
from llmstream.events import ErrorEvent, Event, StreamStart

if TYPE_CHECKING:
    from llmstream.dialects.base import Dialect

__all__ = [
    "Chaos",
    "Do",
    "FaultServer",
    "Flood",
    "Step",
    "Stepwise",
    "Trickle",
    "answered",
    "chaos",
    "chunked",
    "comparable",
    "gzipped",
    "head",
]


# Faults.

_HEAD_BYTES: Final = 1024 * 1024
# Small, so that a script notices soon that the client has stopped reading.
_WRITE_HIGH: Final = 64 * 1024


class Do(enum.Enum):
    """Actions of a script besides writing and waiting.

    RESET:    breaks the connection with a TCP RST
    FIN:      ends the output, and waits until the client disconnects
    HANG:     does nothing until the client disconnects
    REQUEST:  reads the next request on the same connection
    UNREAD:   as the first step: leaves the body of the request unread
    """

    RESET = "reset"
    FIN = "fin"
    HANG = "hang"
    REQUEST = "request"
    UNREAD = "unread"


class Trickle(msgspec.Struct, frozen=True):
    """Bytes sent one by one.

    every_s: seconds between two bytes
    """

    data: bytes
    every_s: float = 0.05


class Flood(msgspec.Struct, frozen=True):
    """Bytes sent repeatedly, as fast as the client reads.

    times: number of repetitions; None until the client disconnects
    """

    data: bytes
    times: int | None = None


Step: TypeAlias = bytes | float | Do | Trickle | Flood
"""One step of a script: bytes are one write, a number is a wait in seconds."""


def head(status: int = 200, headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> bytes:
    """Returns status line and headers exactly as given."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunked(*pieces: bytes, end: bool = True) -> list[bytes]:
    """Returns each piece as one chunk of chunked transfer coding; `end` adds the final, empty one."""
    chunks = [f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces if piece]
    return [*chunks, b"0\r\n\r\n"] if end else chunks


def gzipped(*pieces: bytes) -> list[bytes]:
    """Compresses the pieces as one gzip body, flushed after each so that clients can read each at once."""
    # 31: the largest window, and the head of gzip instead of zlib.
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*packed, packer.flush()] if pieces else [gzip.compress(b"")]


def answered(
    *body: Step,
    status: int = 200,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
    end: bool = True,
) -> list[Step]:
    """Returns the steps of a response in chunked transfer coding: head, one chunk per bytes, end.

    end: whether to send the final, empty chunk
    """
    fields = {"content-type": content_type, "transfer-encoding": "chunked", **(headers or {})}
    steps: list[Step] = [head(status, fields)]
    for step in body:
        if isinstance(step, bytes):
            # A chunk for each, so that a client sees the same cuts in the body as in the script.
            steps += chunked(step, end=False)
        elif isinstance(step, Flood):
            steps.append(Flood(b"".join(chunked(step.data, end=False)), step.times))
        else:
            steps.append(step)
    return [*steps, b"0\r\n\r\n"] if end else steps


class FaultServer:
    """Plays one script per connection, in order, and the last script for all further ones.

    `async with FaultServer(answered(b"data: {}\\n\\n", Do.RESET)) as server:` then request `server.url`.
    Closes each connection after its script.

    scripts:     scripts in the order of connections; a function gets the first request, head and body,
                 and returns the script
    url:         base URL, such as "http://127.0.0.1:40123"
    connections: number of connections so far
    requests:    all requests, heads and bodies, in order
    open:        number of open connections
    raises:      InvalidRequest without a script
    """

    def __init__(self, *scripts: Sequence[Step] | Callable[[bytes], Sequence[Step]]) -> None:
        # Without one, clients would wait for ever.
        if not scripts:
            raise InvalidRequest("FaultServer needs a script: FaultServer(answered(b'data: {}\\n\\n'))")
        self.connections = 0
        self.requests: list[bytes] = []
        self._scripts = scripts
        self._tasks: set[asyncio.Task[object]] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Base URL without a path.

        raises: InvalidRequest before the start
        """
        if not self._port:
            raise InvalidRequest(
                "the server is not running, so it has no address. Enter it first: "
                "`async with FaultServer(...) as server:`."
            )
        return f"http://127.0.0.1:{self._port}"

    @property
    def open(self) -> int:
        """Number of open connections."""
        return len(self._tasks)

    async def __aenter__(self) -> FaultServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None  # it was entered
        self._server.close()
        # A script that hangs would never end.
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def left(self, within_s: float = 1.0) -> None:
        """Waits until all clients have disconnected.

        raises: TimeoutError
        """
        async with asyncio.timeout(within_s):
            # Polling is simple enough for a short wait in a test.
            while self._tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    # Not a coroutine: asyncio would have its task to itself, and this server counts and cancels them.
    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(_WRITE_HIGH)
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        try:
            await self._play(script, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client has disconnected.
            pass
        finally:
            writer.close()

    async def _play(
        self,
        script: Sequence[Step] | Callable[[bytes], Sequence[Step]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        # A function needs the complete request.
        unread = not callable(script) and bool(script) and script[0] is Do.UNREAD
        request = await self._read_request(reader, body=not unread)
        for step in script(request) if callable(script) else script:
            match step:
                case bytes():
                    await _write(writer, step)
                case Trickle(data, every_s):
                    for place in range(len(data)):
                        await _write(writer, data[place : place + 1])
                        await _wait(reader, every_s)
                case Flood(data, times):
                    while times is None or times > 0:
                        await _write(writer, data)
                        times = None if times is None else times - 1
                case Do.RESET:
                    _reset(writer)
                    return
                case Do.FIN:
                    # Half closed: the client may still send.
                    writer.write_eof()
                    await _wait(reader, None)
                case Do.HANG:
                    await _wait(reader, None)
                case Do.REQUEST:
                    await self._read_request(reader, body=True)
                case Do.UNREAD:
                    pass
                case _:
                    await _wait(reader, float(step))

    async def _read_request(self, reader: asyncio.StreamReader, *, body: bool) -> bytes:
        top = await reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in top.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        request = top + (await reader.readexactly(length) if body else b"")
        self.requests.append(request)
        return request


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    # Sends each write as its own segment, as far as an event loop can decide that.
    await asyncio.sleep(0)


async def _wait(reader: asyncio.StreamReader, seconds: float | None) -> None:
    """Waits, or ends the connection when the client disconnects."""
    try:
        async with asyncio.timeout(seconds):
            # Reading shows that a client has left; what it sends is dropped.
            while await reader.read(_HEAD_BYTES):
                pass
    except TimeoutError:
        return
    raise ConnectionAbortedError("the client has disconnected")


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    # A linger of zero seconds: closing discards what is unsent, and sends a RST.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


_NDJSON: Final = "application/x-ndjson"
_END: Final = {"text/event-stream": re.compile(rb"\r\n\r\n|\n\n|\r\r"), _NDJSON: re.compile(rb"\n")}

Chaos: TypeAlias = Literal["cut", "reset", "stall", "overloaded", "doubled", "split"]
"""Faults that `chaos` adds to a body."""


def chaos(body: bytes, kind: Chaos, *, dialect: Dialect, at: int | None = None) -> list[Step]:
    """Adds a fault to a valid body; returns steps for `answered` of a `FaultServer`.

    kind:   cut: the body ends at byte `at`. reset: the connection breaks there. stall: the output stops.
            overloaded: the stream ends with the vendor's overload error (529). doubled: the event before
            `at` is repeated. split: each byte is a separate write, also inside of UTF-8 characters
    at:     position in the body; by default its middle. Moved to the end of an event where one is needed
    raises: InvalidRequest for overloaded and doubled if the framing is binary
    """
    at = len(body) // 2 if at is None else at
    match kind:
        case "cut":
            return [body[:at]]
        case "reset":
            return [body[:at], Do.RESET]
        case "stall":
            return [body[:at], Do.HANG]
        case "split":
            return [body[place : place + 1] for place in range(len(body))]
        case "overloaded":
            end = _end_of_event(body, at, dialect)
            return [body[:end], _overload(dialect)]
        case "doubled":
            ends = _ends(body, dialect)
            end = _end_of_event(body, at, dialect)
            start = max((place for place in ends if place < end), default=0)
            # The event stands twice: `start` is the end of the one before.
            return [body[:end], body[start:end], body[end:]]


def _ends(body: bytes, dialect: Dialect) -> list[int]:
    """Returns the end positions of the events of a body."""
    if dialect.content_type not in _END:
        raise InvalidRequest(
            f"the framing of {dialect.name} is binary. Use cut, reset, stall or split instead."
        )
    return [found.end() for found in _END[dialect.content_type].finditer(body)]


def _end_of_event(body: bytes, at: int, dialect: Dialect) -> int:
    return min((place for place in _ends(body, dialect) if place > at), default=len(body))


def _overload(dialect: Dialect) -> bytes:
    """Returns the vendor's overload error, framed as an event."""
    info = ErrorInfo("overloaded", "Overloaded", True, status=529, reason="overloaded_error")
    # Imported here: a fault server alone needs no dialect.
    from llmstream.server_side.wires import server_side

    # One line: both framings end an event at a line end.
    error = b" ".join(server_side(dialect).encode_error(info).body.split(b"\n"))
    if dialect.content_type == _NDJSON:
        return error + b"\n"
    return b"event: error\ndata: " + error + b"\n\n"


# Recorded streams as tests.

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
