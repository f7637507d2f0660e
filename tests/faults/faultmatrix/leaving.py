"""Connections that serve again, delays, and how a stream is left: rows 10, 12, 20, 21 and 37 to 42."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import operator
import os
import socket
import threading
import time
import warnings
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import pytest
from faultmatrix.asking import KEY, ONCE, PATIENT, answered
from faultmatrix.faults import Drill, drill
from faultmatrix.wires import Wire

import llmstream as ls
from llmstream.testing import Do, FaultServer, Flood, head, no_leaks
from llmstream.transport.sessions import _sessions, close_session, current_session


def model(wire: Wire, server: FaultServer | str, **options: Any) -> ls.Model:
    url = server if isinstance(server, str) else server.url
    return wire.model(url, **{"api_key": KEY, "retry": ONCE, "deadlines": PATIENT, **options})


@contextlib.asynccontextmanager
async def hanging(wire: Wire, *steps: Any) -> AsyncIterator[tuple[FaultServer, ls.Model]]:
    """A server that says "Hel" and no more; afterwards everybody has gone within a second."""
    async with FaultServer(answered(wire, wire.half, *steps, Do.HANG)) as server, no_leaks():
        yield server, model(wire, server)
        await server.left(1.0)


async def begun(stream: ls.EventStream) -> ls.EventStream:
    while not stream.text:
        await stream.next()
    return stream


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def keep_alive(end: Any) -> Any:
    async def run(wire: Wire) -> None:
        first = [*answered(wire, wire.whole), *end]
        async with FaultServer(first, answered(wire, wire.whole)) as server, no_leaks():
            for _ in range(2):
                stream = model(wire, server).stream("Hi")
                await stream.collect()
                assert stream.text == "Hello"
                await asyncio.sleep(0.01)
            assert server.connections == 2
            await close_session()

    return run


@drill(10, "a keep-alive connection that breaks inside the second answer")
async def half_an_answer(wire: Wire) -> None:
    """A byte of the answer has come: it is not requested again behind the caller's back."""
    first = [*answered(wire, wire.whole), Do.REQUEST, *answered(wire, wire.half, Do.RESET, end=False)]
    async with FaultServer(first, answered(wire, wire.whole)) as server, no_leaks():
        await model(wire, server).stream("Hi").collect()
        second = model(wire, server).stream("Hi")
        try:
            await second.collect()
            raise AssertionError("the second answer was cut")
        except ls.ConnectionLost:
            assert second.text == "Hel"
        assert server.connections == 1
        await close_session()


@drill(10, "one connection serves many answers")
async def reuse(wire: Wire) -> None:
    script = [*answered(wire, wire.whole), *[Do.REQUEST, *answered(wire, wire.whole)] * 4, Do.HANG]
    async with FaultServer(script) as server, no_leaks():
        for _ in range(5):
            assert (await model(wire, server).stream("Hi").collect()).text == "Hello"
        assert server.connections == 1
        await close_session()


def at_once(coding: str, wbits: int | None) -> Any:
    """The first piece is seen while the server waits for that: no clock has a say in it."""

    async def run(wire: Wire) -> None:
        packer = zlib.compressobj(wbits=wbits) if wbits is not None else None
        pieces = [wire.half, wire.rest]
        if packer is not None:
            pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
        fields = {"content-encoding": coding} if coding else {}
        async with (
            FaultServer(answered(wire, pieces[0], 1.0, pieces[1], headers=fields)) as server,
            no_leaks(),
        ):
            came = [time.monotonic()]
            async with model(wire, server).stream("Hi") as stream:
                async for event in stream:
                    if isinstance(event, ls.TextDelta):
                        came.append(time.monotonic())
                        break
        assert came[1] - came[0] < 0.9
        assert b"accept-encoding: identity" in server.requests[0].lower()

    return run


@drill(1, "a reset while the reader is busy")
async def busy_reader(wire: Wire) -> None:
    """What came just before it is delivered all the same."""
    script = answered(wire, wire.half, wire.lo, 0.02, Do.RESET, end=False)
    async with FaultServer(script) as server, no_leaks():
        seen = []
        stream = model(wire, server).stream("Hi", errors="events")
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                seen.append(event.delta)
                await asyncio.sleep(0.06)
        assert isinstance(stream.error, ls.ConnectionLost)
        assert "".join(seen) == "Hello"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def fails(wire: Wire, url: str, *kinds: type[ls.LLMStreamError], **options: Any) -> ls.LLMStreamError:
    async with no_leaks():
        stream = model(wire, url, **options).stream("Hi", errors="events")
        async with asyncio.timeout(10):
            await stream.collect()
        assert type(stream.error) in kinds, stream.error
        assert stream.error is not None
        return stream.error


@drill(20, "connection refused")
async def refused(wire: Wire) -> None:
    await fails(wire, f"http://127.0.0.1:{free_port()}", ls.ConnectionFailed)


@drill(20, "unknown name")
async def unknown_name(wire: Wire) -> None:
    await fails(wire, "http://vendor.invalid", ls.ConnectionFailed, ls.ProxyError, ls.NotAStream)


@drill(20, "names that are none")
async def no_names(wire: Wire) -> None:
    for name in (".", "a..b", "a" * 300 + ".example"):
        await fails(wire, f"http://{name}", ls.InvalidRequest)


@drill(20, "no TLS where there should be")
async def plain_text(wire: Wire) -> None:
    got = b""

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        got += await reader.read(5)
        writer.write(head(200, {"content-length": "0"}))
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await fails(wire, f"https://127.0.0.1:{port}", ls.TLSError)
    assert got[:1] == b"\x16"  # a greeting of TLS, and nothing in plain text


@drill(20, "TLS that is broken off")
async def broken_tls(wire: Wire) -> None:
    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.close()

    server = await asyncio.start_server(drop, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await fails(wire, f"https://127.0.0.1:{port}", ls.TLSError, ls.ConnectionFailed, ls.ConnectionLost)


def silent_tls(reason: str, deadlines: ls.Deadlines) -> Any:
    """Somebody listens and never says a word of TLS."""

    async def run(wire: Wire) -> None:
        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(-1)
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            url = f"https://127.0.0.1:{port}"
            error = await fails(wire, url, ls.DeadlineExceeded, deadlines=deadlines)
            assert error.reason == reason

    return run


@drill(18, "a key that never comes")
async def no_key(wire: Wire) -> None:
    async def key() -> str:
        await asyncio.sleep(60)
        return KEY

    deadlines = ls.Deadlines(total_s=0.1)
    error = await fails(wire, "http://127.0.0.1:1", ls.DeadlineExceeded, api_key=key, deadlines=deadlines)
    assert error.reason == "total"


def proxy_says(*steps: Any) -> Any:
    async def run(wire: Wire) -> None:
        async with FaultServer([*steps]) as server:
            with environment(https_proxy=server.url, no_proxy="", NO_PROXY="", HTTPS_PROXY=server.url):
                await fails(
                    wire, "https://vendor.invalid", ls.ProxyError, ls.ConnectionLost, ls.ConnectionFailed
                )
            assert all(KEY.encode() not in request for request in server.requests)

    return run


@drill(20, "proxy refused")
async def no_proxy(wire: Wire) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with environment(https_proxy=address, no_proxy="", NO_PROXY="", HTTPS_PROXY=address):
        await fails(wire, "https://vendor.invalid", ls.ProxyError)


@drill(21, "the caller's pool is exhausted")
async def exhausted(wire: Wire) -> None:
    async with FaultServer(answered(wire, wire.half, Do.HANG)) as server, no_leaks():
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:
            deadlines = ls.Deadlines(connect_s=0.15)
            asked = model(wire, server, session=session, deadlines=deadlines)
            async with asked.stream("Hi") as first:
                await begun(first)
                second = asked.stream("Hi", errors="events")
                await second.collect()
                assert isinstance(second.error, ls.DeadlineExceeded)
                assert second.error.reason == "connect"
            async with asked.stream("Hi") as third:  # the place is free again
                await begun(third)
        await server.left()


@drill(21, "places return after any end")
async def places(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        for way in range(9):
            stream = asked.stream("Hi")
            if way % 3 == 0:
                await begun(stream)
                await stream.aclose()
                continue
            task = asyncio.create_task(begun(stream) if way % 3 == 1 else stream.collect())
            await asyncio.sleep(0.005 * way)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await stream.aclose()


HALF = operator.attrgetter("half")


def flood_of_text(wire: Wire) -> Flood:
    return Flood(wire.text("late") * 50)


def cancelled(*steps: Any, times: int = 1, after_s: float = 0.03) -> Any:
    async def run(wire: Wire) -> None:
        script = [step(wire) if callable(step) else step for step in steps]
        if script[0] is not Do.HANG or len(script) > 1:
            script = answered(wire, *script)
        async with FaultServer(script) as server, no_leaks():
            task = asyncio.create_task(model(wire, server).stream("Hi").collect())
            await asyncio.sleep(after_s)
            for _ in range(times):
                task.cancel("mine")
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError) as ended:
                await task
            assert ended.value.args in (("mine",), ())
            await server.left(1.0)

    return run


@drill(37, "a cancel while it waits to try again")
async def cancelled_asleep(wire: Wire) -> None:
    refused_once = [head(503, {"retry-after": "9", "content-length": "0"})]
    async with FaultServer(refused_once) as server, no_leaks():
        stream = model(wire, server, retry=ls.Retry(max_retries=5)).stream("Hi")
        task = asyncio.create_task(stream.collect())
        while not server.requests:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        await server.left(1.0)


@drill(37, "a cancel while the key is asked for")
async def cancelled_at_the_key(wire: Wire) -> None:
    async def key() -> str:
        await asyncio.sleep(60)
        return KEY

    async with no_leaks():
        task = asyncio.create_task(model(wire, "http://127.0.0.1:1", api_key=key).stream("Hi").collect())
        await asyncio.sleep(0.02)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)


def left_by(way: str) -> Any:
    async def run(wire: Wire) -> None:
        async with hanging(wire) as (_, asked):
            stream = asked.stream("Hi")
            try:
                async with stream:
                    match way:
                        case "anyio scope":
                            with anyio.move_on_after(0.1):
                                await stream.collect()
                        case "asyncio timeout":
                            async with asyncio.timeout(0.1):
                                await stream.collect()
                        case "wait_for":
                            await asyncio.wait_for(stream.collect(), 0.1)
                        case "break":
                            async for event in stream:
                                if isinstance(event, ls.TextDelta):
                                    break
                        case "exception":
                            await begun(stream)
                            raise ZeroDivisionError
                        case "aclose":
                            await begun(stream)
                            await stream.aclose()
                            await stream.aclose()
            except (ZeroDivisionError, TimeoutError):
                pass
            assert stream.text == "Hel"
            assert stream.message.text == "Hel"
            assert stream.messages()[-1].text in ("Hel", "Hi")

    return run


@drill(38, "break out of events()")
async def break_events(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        events = asked.events("Hi")
        async for event in events:
            if isinstance(event, ls.TextDelta):
                break
        await events.aclose()


@drill(38, "break out of events(), and forget it")
async def break_and_forget(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        async for event in asked.events("Hi"):
            if isinstance(event, ls.TextDelta):
                break
        gc.collect()


@drill(38, "break out of a stream without a with")
async def break_without_with(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        stream = asked.stream("Hi")
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                break
        assert stream.text == "Hel"
        await asyncio.sleep(0.01)  # the loop closes what read it
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            del stream
            gc.collect()
        assert [warning.category for warning in said] == [ResourceWarning]


@drill(38, "dropped while it is read")
async def dropped(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        stream = await begun(asked.stream("Hi"))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            del stream
            gc.collect()
        assert [warning.category for warning in said] == [ResourceWarning]


@drill(38, "never read at all")
async def never_read(wire: Wire) -> None:
    async with FaultServer(answered(wire, wire.whole)) as server, no_leaks():
        stream = model(wire, server).stream("Hi")
        del stream
        gc.collect()
        assert server.connections == 0


@drill(38, "left twice, and read afterwards")
async def read_after(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        stream = await begun(asked.stream("Hi"))
        await stream.aclose()
        assert [event async for event in stream] == []
        assert stream.text == "Hel"


@drill(39, "begun, read and left in different tasks")
async def in_other_tasks(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        stream = asked.stream("Hi")
        while not stream.text:
            await asyncio.create_task(stream.next())
        await asyncio.create_task(stream.aclose())


@drill(39, "a generator that is closed in another task")
async def closed_elsewhere(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        events = asked.events("Hi")
        await anext(events)
        await asyncio.create_task(events.aclose())  # type: ignore[arg-type]


@drill(39, "a consumer's own scope ends between two events")
async def own_scope(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        with anyio.CancelScope() as scope:
            async for event in asked.stream("Hi"):
                if isinstance(event, ls.TextDelta):
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # nobody closed it
            await asyncio.sleep(0.01)
            gc.collect()


@drill(40, "a slow reader")
async def slow_reader(wire: Wire) -> None:
    """The server is held back: what it could write stays far below what it would."""
    piece = wire.text("x" * 60_000)
    taken = 0

    def counted() -> Iterator[Any]:
        nonlocal taken
        yield from answered(wire, wire.half, end=False)
        while True:
            taken += len(piece)
            yield b"%x\r\n" % len(piece) + piece + b"\r\n"

    async with FaultServer(lambda request: counted()) as server, no_leaks():  # type: ignore[arg-type,return-value]
        stream = await begun(model(wire, server).stream("Hi"))
        for _ in range(100):
            before = taken
            await asyncio.sleep(0.02)
            if taken in (before, max(taken, 16_000_000)):  # it stands still, or has taken too much
                break
        assert 0 < taken < 16_000_000
        await stream.aclose()
        await server.left(1.0)


@drill(41, "a new loop")
async def new_loop(wire: Wire) -> None:
    """One model, three loops one after another, each in a thread of its own."""
    asked = model(wire, "http://127.0.0.1:1")
    texts: list[str] = []

    async def once() -> None:
        async with FaultServer(answered(wire, wire.whole)) as server, no_leaks():
            asked.base_url = server.url
            texts.append((await asked.stream("Hi").collect()).text)

    def in_a_loop() -> None:
        try:
            asyncio.run(once())
        except Exception as error:
            texts.append(repr(error))

    for _ in range(3):
        thread = threading.Thread(target=in_a_loop)
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.005)
    assert texts == ["Hello"] * 3


@drill(41, "a loop that was closed")
async def closed_loop(wire: Wire) -> None:
    """A stream that outlives its loop can still be left, and reading it does not hang."""
    found: list[object] = []

    def elsewhere() -> None:
        async def begin() -> ls.EventStream:
            async with FaultServer(answered(wire, wire.half, Do.HANG)) as server:
                stream = await begun(model(wire, server).stream("Hi"))
                found.append(stream)
                return stream

        stream = asyncio.run(begin())

        async def read() -> None:
            try:
                async with asyncio.timeout(2):
                    await stream.collect()
            except (ls.LLMStreamError, RuntimeError) as error:
                found.append(error)
            await stream.aclose()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asyncio.run(read())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.005)
    assert len(found) in (1, 2)
    assert all(not isinstance(error, TimeoutError) for error in found)


@drill(41, "a forked child")
async def forked(wire: Wire) -> None:
    session = await current_session()
    held = _sessions._held[asyncio.get_running_loop()][None]
    held.forks -= 1  # what a child sees
    assert await current_session() is not session
    await session.close()
    await close_session()


@drill(41, "threads at the same time")
async def threads(wire: Wire) -> None:
    async def once() -> str:
        async with FaultServer(answered(wire, wire.whole)) as server:
            return (await model(wire, server).stream("Hi").collect()).text

    texts: list[str] = []
    running = [threading.Thread(target=lambda: texts.append(asyncio.run(once()))) for _ in range(4)]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        await asyncio.sleep(0.005)
    assert texts == ["Hello"] * 4


@drill(42, "two readers")
async def two_readers(wire: Wire) -> None:
    async with hanging(wire) as (_, asked):
        stream = asked.stream("Hi")
        first = asyncio.create_task(stream.collect())
        await asyncio.sleep(0.02)
        for read in (stream.collect, stream.next, stream.call_tools):
            try:
                async with asyncio.timeout(1):
                    await read()
                raise AssertionError("a second reader got in")
            except ls.InvalidRequest:
                pass
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await stream.aclose()


DRILLS: list[Drill] = [
    busy_reader,
    *(
        Drill(
            name=f"a handshake of TLS that never ends, {reason}",
            row=5,
            play=silent_tls(reason, ls.Deadlines(**limits)),
        )
        for reason, limits in (("total", {"total_s": 0.1}), ("connect", {"connect_s": 0.1}))
    ),
    no_key,
    Drill(name="a keep-alive connection that was closed", row=10, play=keep_alive([0.0])),
    Drill(name="a keep-alive connection closed at the request", row=10, play=keep_alive([Do.REQUEST, 0.0])),
    Drill(
        name="a keep-alive connection reset at the request", row=10, play=keep_alive([Do.REQUEST, Do.RESET])
    ),
    half_an_answer,
    reuse,
    *(
        Drill(name=f"an event is delivered at once, {coding or 'plain'}", row=12, play=at_once(coding, wbits))
        for coding, wbits in (("", None), ("gzip", 31), ("deflate", 15))
    ),
    refused,
    unknown_name,
    no_names,
    plain_text,
    broken_tls,
    Drill(name="proxy 407", row=20, play=proxy_says(head(407, {"content-length": "0"}))),
    Drill(name="proxy 502", row=20, play=proxy_says(head(502, {"content-length": "0"}))),
    Drill(name="proxy that hangs up", row=20, play=proxy_says(0.0)),
    no_proxy,
    exhausted,
    places,
    Drill(name="a cancel before the head", row=37, play=cancelled(Do.HANG)),
    Drill(name="a cancel after the head", row=37, play=cancelled(b"\n", Do.HANG)),
    Drill(name="a cancel in mid-stream", row=37, play=cancelled(HALF, Do.HANG)),
    Drill(name="a double cancel in mid-stream", row=37, play=cancelled(HALF, Do.HANG, times=2)),
    Drill(
        name="a cancel during a flood",
        row=37,
        play=cancelled(HALF, flood_of_text),
    ),
    cancelled_asleep,
    cancelled_at_the_key,
    *(
        Drill(name=f"left by {way}", row=38, play=left_by(way))
        for way in ("anyio scope", "asyncio timeout", "wait_for", "break", "exception", "aclose")
    ),
    break_events,
    break_and_forget,
    break_without_with,
    dropped,
    never_read,
    read_after,
    in_other_tasks,
    closed_elsewhere,
    own_scope,
    slow_reader,
    new_loop,
    closed_loop,
    forked,
    threads,
    two_readers,
]
