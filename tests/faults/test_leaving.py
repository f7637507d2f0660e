"""How a stream is left: rows 37 to 42."""

from __future__ import annotations

import asyncio
import gc
import os

import anyio
import pytest

import llmstream as ls
from llmstream.testing import Do, FaultServer, Flood, answered, no_leaks


async def left_after(turns: int, stream, *, times: int = 1) -> bool:
    """Cancels `collect()` after so many turns of the loop; whether it was still running."""
    task = asyncio.create_task(stream.collect())
    for _ in range(turns):
        await asyncio.sleep(0)
    running = not task.done()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    if running:
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
    return running


# Row 37
@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancel_at_every_await_leaves_nothing_behind(wire, ask, times) -> None:
    async with FaultServer(answered(wire.half, *wire.rest.splitlines(keepends=True))) as server, no_leaks():
        turns = 0
        while True:
            stream = ask.model(wire, server).stream("Hi")
            if not await left_after(turns, stream, times=times):
                break
            await stream.aclose()
            turns += 1
        assert turns > 5
        assert stream.text == "Hello"


# Row 37
async def test_a_cancel_while_it_waits_closes_the_socket_at_once(wire, ask) -> None:
    for script in ([Do.HANG], answered(Do.HANG), answered(wire.half, Do.HANG)):
        async with FaultServer(script) as server, no_leaks():
            task = asyncio.create_task(ask.model(wire, server).stream("Hi").collect())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left(1.0)


# Row 38
@pytest.mark.parametrize("way", ["break", "aclose", "error", "scope", "timeout"])
async def test_every_way_out_closes_the_socket(wire, ask, way) -> None:
    async with FaultServer(answered(wire.half, Do.HANG)) as server, no_leaks():
        stream = ask.model(wire, server).stream("Hi")
        try:
            async with stream:
                if way == "scope":
                    with anyio.move_on_after(0.3):
                        await stream.collect()
                elif way == "timeout":
                    async with asyncio.timeout(0.3):
                        await stream.collect()
                else:
                    while not stream.text:
                        await stream.next()
                    if way == "error":
                        raise ZeroDivisionError
                    await stream.aclose()
        except (ZeroDivisionError, TimeoutError):
            pass
        await server.left(1.0)
        assert stream.text == "Hel"


# Row 38
async def test_a_stream_that_is_dropped_warns_and_closes(wire, ask) -> None:
    async with FaultServer(answered(wire.half, Do.HANG)) as server, no_leaks():
        stream = ask.model(wire, server).stream("Hi")
        while not stream.text:
            await stream.next()
        with pytest.warns(ResourceWarning):
            del stream
            gc.collect()
        await server.left(1.0)


# Row 39
async def test_a_stream_may_be_left_in_another_task_than_it_was_begun_in(wire, ask) -> None:
    async with FaultServer(answered(wire.half, Do.HANG)) as server, no_leaks():
        stream = ask.model(wire, server).stream("Hi")
        while not stream.text:
            await asyncio.create_task(stream.next())
        await asyncio.create_task(stream.aclose())
        await server.left(1.0)


# Row 40
async def test_a_slow_reader_holds_the_server_back(wire, ask) -> None:
    piece = wire.text("x" * 60_000)
    written = 0

    async with FaultServer(answered(wire.opening, Flood(piece))) as server, no_leaks():
        stream = ask.model(wire, server).stream("Hi")
        while not stream.text:
            await stream.next()
        await asyncio.sleep(0.2)
        for _ in range(3):
            await stream.next()
        written = len(stream.text)
        await stream.aclose()
        await server.left(1.0)
    assert written < 16_000_000


# Row 41
def test_a_new_loop_gets_a_connection_of_its_own(wire, ask) -> None:
    model = ls.Model(f"{wire.provider}:m", base_url="http://127.0.0.1:1", api_key=ask.key)

    async def once() -> str:
        async with FaultServer(answered(wire.whole)) as server, no_leaks():
            model.base_url = server.url
            return (await model.stream("Hi").collect()).text_content

    assert [asyncio.run(once()), asyncio.run(once())] == ["Hello", "Hello"]


# Row 41
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
async def test_a_forked_child_opens_its_own_connection(wire, ask) -> None:
    from llmstream.transport.sessions import _sessions, current_session

    session = await current_session()
    held = _sessions._held[asyncio.get_running_loop()][None]
    held.process -= 1  # what a child sees
    assert await current_session() is not session
    await session.close()


# Row 42
async def test_a_second_reader_is_refused_at_once(wire, ask) -> None:
    async with FaultServer(answered(wire.half, Do.HANG)) as server, no_leaks():
        stream = ask.model(wire, server).stream("Hi")
        first = asyncio.create_task(stream.collect())
        await asyncio.sleep(0.05)
        with pytest.raises(ls.InvalidRequest):
            await stream.collect()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await stream.aclose()
