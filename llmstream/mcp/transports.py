"""The transports of an MCP server, and what it may send over them: bytes, and items of lists.

`StdioServer` replaces `stdio_client` of the mcp package, which buffers a line of any length, copies the
buffer for each piece of it, and builds a pydantic union of the complete line in one step: 9 MB with many
parts held the event loop for 0.5 s (mcp 2.3, seen 2026-11). A worker thread would not help: the parsers
hold the GIL.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

import anyio
import msgspec

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

__all__ = [
    "MAX_ITEMS",
    "MAX_MESSAGE_BYTES",
    "StdioServer",
    "bounded",
    "bounded_client",
    "read_json",
    "within_cap",
]


_log: Final = logging.getLogger("llmstream.mcp")

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""Longest body over HTTP, and line over stdio: several times the limit for files in a result, in base64."""

# The HTTP client of MCP sessions, which limits the size of responses.
#
# The mcp package buffers a response that is not an event stream, without a limit. For event streams it
# limits the length of lines and buffers nothing else.


def bounded_client(
    headers: dict[str, str], timeout: httpx2.Timeout, max_bytes: int = MAX_MESSAGE_BYTES
) -> httpx2.AsyncClient:
    """Creates a client that refuses compressed responses and those longer than max_bytes.

    raises: ReadError of httpx2, in a request
    """
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        """The body of a response."""

        def __init__(self, inner: httpx2.AsyncByteStream) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = max_bytes
            async for piece in self._inner:
                left -= len(piece)
                if left < 0:
                    raise httpx2.ReadError(f"the response is longer than {max_bytes} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def check(response: httpx2.Response) -> None:
        # The request accepts no compression; decompressed, a small body could exhaust the memory.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("the response is compressed although the request forbids it")
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "text/event-stream" and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = Counted(response.stream)

    return httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=timeout,
        event_hooks={"response": [check]},
    )


# Shortens the lists in messages of an MCP server before the mcp package validates each item.
#
# The package creates an object for every part of a result, and tries all kinds for an invalid part: some
# hundred thousand parts in one message blocked the event loop for seconds (mcp 2.3, seen 2026-11).

MAX_ITEMS: Final = 2000
"""Maximum length of a list in a message, such as tools or parts; validating that many takes 10 ms."""

# All lists in results of MCP 2025-11-25 except `content`, whose texts are joined first.
_LISTS: Final = ("tools", "resources", "resourceTemplates", "prompts", "contents", "messages")
# Only texts without annotations and _meta are joined, which would lose them.
_TEXT_KEYS: Final = {"type", "text"}
# Parts processed before yielding to the event loop, in about a millisecond.
_BATCH: Final = 5000


@asynccontextmanager
async def bounded(transport: AbstractAsyncContextManager[TransportStreams]) -> AsyncGenerator[Any]:
    """Wraps a transport to limit lists in its messages to `MAX_ITEMS`."""
    async with transport as (reading, writing):
        yield _Bounded(reading), writing


class _Bounded:
    """A stream of messages with limited lists."""

    def __init__(self, inner: ReadStream[Any]) -> None:
        self._inner = inner

    async def receive(self) -> Any:
        return await _cut(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> _Bounded:
        return self

    async def __anext__(self) -> Any:
        return await _cut(await self._inner.__anext__())

    async def __aenter__(self) -> _Bounded:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> Any:
        return await self._inner.__aexit__(*details)

    # The package reads the context of a message from the stream.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def _cut(item: Any) -> Any:
    """Limits the lists of a message; passes on an error instead of one."""
    result = getattr(getattr(item, "message", None), "result", None)
    if isinstance(result, dict):
        await within_cap(result)
    return item


async def within_cap(result: dict[str, Any]) -> None:
    """Shortens the lists of a result in place, after joining neighbouring texts, which loses nothing."""
    content = result.get("content")
    if isinstance(content, list) and len(content) > MAX_ITEMS:
        result["content"] = await _shortened(content)
    for name in _LISTS:
        found = result.get(name)
        if isinstance(found, list) and len(found) > MAX_ITEMS:
            _log.warning("the MCP server sent %d %s; the first %d are used", len(found), name, MAX_ITEMS)
            result[name] = found[:MAX_ITEMS]


async def _shortened(content: list[Any]) -> list[Any]:
    found: list[Any] = []
    texts: list[str] = []
    for start in range(0, len(content), _BATCH):
        for block in content[start : start + _BATCH]:
            if _is_plain_text(block):
                texts.append(block["text"])
                continue
            found += _joined(texts)
            texts = []
            found.append(block)
        # What follows would be cut off below.
        if len(found) > MAX_ITEMS:
            break
        await asyncio.sleep(0)
    found += _joined(texts)
    if len(found) <= MAX_ITEMS:
        return found
    return [*found[:MAX_ITEMS], {"type": "text", "text": f"[cut: the first parts of {len(content)}]"}]


def _is_plain_text(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and block.keys() == _TEXT_KEYS
        and block["type"] == "text"
        and isinstance(block["text"], str)
    )


def _joined(texts: list[str]) -> list[Any]:
    """Joins texts as the result of a tool does."""
    return [{"type": "text", "text": "\n".join(texts)}] if texts else []


# The process of a server, and its messages: one line of JSON each, over stdin and stdout.

# The size of a pipe's buffer on Linux: a larger read would return no more.
_READ_BYTES: Final = 64 * 1024

# JSON up to this size is decoded without a pause, in a few milliseconds.
_PIECE_BYTES: Final = 256 * 1024

# Levels of JSON that are decoded in pieces; each costs another scan of what is inside.
_MAX_LEVELS: Final = 8

# What a small value costs to decode, in bytes of a large one.
_VALUE_COST: Final = 32

# A banner or the head of a traceback; the rest is on the server's stderr.
_SHOWN_BYTES: Final = 100

# How long a server may take to exit after stdin closes, and again after SIGTERM.
#
# source: MCP 2025-11-25, lifecycle, shutdown; the time is that of the mcp package
_EXIT_S: Final = 2.0

# Far below a person's patience, far above the cost of a look.
_POLL_S: Final = 0.01


class StdioServer:
    """A transport for `mcp.Client`: starts the process, and stops it with all its children.

    max_bytes: longest line that is read; a longer one ends the session
    log:       a file for its standard error; by default ours
    failure:   what the server did wrong, for errors; "" for nothing
    """

    def __init__(
        self,
        command: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        max_bytes: int = MAX_MESSAGE_BYTES,
        log: TextIO | None = None,
    ) -> None:
        self._command = (command, *arguments)
        self._env = env
        self._stderr = log
        self._max_bytes = max_bytes
        self.failure = ""

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Runs the process for the duration of the block.

        raises: OSError, ValueError if it cannot be started
        """
        loop = asyncio.get_running_loop()
        # Unlike create_subprocess_exec, this returns the transport, which can be closed even if a process
        # that left the group keeps a pipe open.
        starting = asyncio.ensure_future(
            loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=_READ_BYTES, loop=loop),
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._stderr,
                env=self._env,
                # A Ctrl-C in our terminal does not reach it, and its children are signalled with it.
                start_new_session=True,
            )
        )
        # uvloop does not wait for the exit of a process whose start was cancelled.
        cancelled = await _uninterrupted(starting)
        transport, protocol = starting.result()
        process = Process(transport, protocol, loop)
        try:
            if cancelled is not None:
                raise cancelled
            yield _Messages(process, self, self._max_bytes), _Writer(process)
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await _stop(process)
            except BaseException:  # this task was cancelled while it waited
                _signal_group(process, signal.SIGKILL)
                await _uninterrupted(
                    asyncio.ensure_future(_within(_EXIT_S, lambda: process.returncode is not None))
                )
                raise
            finally:
                with suppress(PermissionError):
                    transport.close()


class _Messages:
    """The read stream of a session: the messages on stdout."""

    def __init__(self, process: Process, server: StdioServer, max_bytes: int) -> None:
        assert process.stdout is not None
        self._stdout = process.stdout
        self._server = server
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._ended = False

    async def receive(self) -> SessionMessage:
        """Returns the next message; lines that are none are skipped.

        raises: EndOfStream when the server closes stdout, or sends a line of more than max_bytes
        """
        while (line := await self._line()) is not None:
            # Lines that have already arrived must not hold the event loop.
            await asyncio.sleep(0)
            try:
                return await _message(line)
            except (ValueError, RecursionError):
                self._report(line)
        raise anyio.EndOfStream

    async def _line(self) -> bytes | None:
        """Returns the next line, or None at the end; buffers at most max_bytes and one read."""
        # Each search begins where the last one ended: a long line costs linear time.
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > self._max_bytes:
                self._end(f"it sent a message longer than {self._max_bytes} bytes")
            piece = b"" if self._ended else await self._stdout.read(_READ_BYTES)
            if not piece:
                self._end()
                return None
            self._buffer += piece
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _end(self, failure: str = "") -> None:
        self._ended = True
        self._buffer.clear()
        self._server.failure = failure or self._server.failure

    def _report(self, line: bytes) -> None:
        """Logs the first line that is not a message; a server that prints to stdout writes many."""
        if not self._server.failure:
            start = ascii(line[:_SHOWN_BYTES].decode(errors="replace"))
            self._server.failure = f"it wrote a line that is not a message, {start}"
            _log.warning("an MCP server wrote a line that is not a message: %s", start)

    async def aclose(self) -> None:
        self._end()

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Messages:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.aclose()


class _Writer:
    """The write stream of a session: messages to stdin."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self._stdin = process.stdin

    async def send(self, item: SessionMessage) -> None:
        """Writes one message.

        raises: BrokenResourceError if the server is gone, or has closed stdin
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if self._stdin.is_closing():
            raise anyio.ClosedResourceError
        # Written in one step: a sender that is cancelled while it waits leaves no partial line.
        self._stdin.write(line)
        try:
            await self._stdin.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._stdin.close()

    async def __aenter__(self) -> _Writer:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.aclose()


# Reads a line as a message.


async def _message(line: bytes) -> SessionMessage:
    """Reads one message.

    raises: ValueError, RecursionError if it is none
    """
    from mcp.shared.message import SessionMessage
    from mcp.types.jsonrpc import jsonrpc_message_adapter

    if len(line) <= _PIECE_BYTES:
        # This parser is fast, but refuses lone surrogates and more than 200 levels. A call whose result
        # were skipped would wait until its timeout.
        with suppress(ValueError):
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    return SessionMessage(jsonrpc_message_adapter.validate_python(await read_json(line), by_name=False))


async def read_json(line: bytes) -> Any:
    """Decodes JSON in pieces, between which other tasks run.

    raises: ValueError, RecursionError for invalid JSON
    """
    try:
        return await _Pieces().read(line, _MAX_LEVELS)
    except msgspec.DecodeError:
        # NaN, Infinity and lone surrogates are not JSON, but some servers send them.
        return json.loads(line)


class _Pieces:
    """Builds the values of one line, and pauses after some work."""

    def __init__(self) -> None:
        self._work = 0

    async def read(self, data: bytes | msgspec.Raw, levels: int) -> Any:
        size = len(memoryview(data))
        self._work += size + _VALUE_COST
        if self._work > _PIECE_BYTES:
            self._work = 0
            await asyncio.sleep(0)
        if size > _PIECE_BYTES and levels:
            match memoryview(data)[:1].tobytes():
                case b"{":
                    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
                    return {name: await self.read(value, levels - 1) for name, value in members.items()}
                case b"[":
                    items = msgspec.json.decode(data, type=list[msgspec.Raw])
                    return [await self.read(item, levels - 1) for item in items]
        return msgspec.json.decode(data)


# Stops a process.


async def _stop(process: Process) -> None:
    """Closes stdin, waits for the exit, then ends the process and its children by signals."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    # A server that waits for room in stdout would not see the end of stdin.
    draining = asyncio.create_task(_drain(process.stdout))
    try:
        if await _within(_EXIT_S, lambda: process.returncode is not None):
            return
        _signal_group(process, signal.SIGTERM)
        if not await _within(_EXIT_S, lambda: not _signal_group(process, 0)):
            _signal_group(process, signal.SIGKILL)
        await _within(_EXIT_S, lambda: process.returncode is not None)
    finally:
        draining.cancel()


async def _drain(stdout: asyncio.StreamReader) -> None:
    while await stdout.read(_READ_BYTES):
        pass


async def _uninterrupted(task: asyncio.Future[Any]) -> BaseException | None:
    """Waits for a task; a cancellation meanwhile is returned for the caller to raise."""
    cancelled: BaseException | None = None
    while not task.done():
        try:
            # A scope of anyio around the caller would interrupt each further await.
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Polls, because Process.wait() also waits for children of the server that inherited a pipe."""
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - nothing reports that a group has ended
            await asyncio.sleep(_POLL_S)
    return condition()


def _signal_group(process: Process, number: int) -> bool:
    """Signals the process and its children; False if none is left."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # macOS reports this for a process that has exited, others for one of another user
    return True
