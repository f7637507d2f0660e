"""A reset at every byte of an answer, and a cancel at every await, on every wire: rows 1 and 37."""

from __future__ import annotations

import asyncio
import re

import anyio
import pytest
from faultmatrix.asking import KEY, ONCE, PATIENT, answered, held
from faultmatrix.wires import WIRES

import llmstream as ls
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.testing import Do, FaultServer, no_leaks
from llmstream.transport.sessions import close_session

AT_ONCE = 32


def expected(wire, body: bytes) -> tuple[str, bool]:
    """The text of the events that are whole in a part of the answer, and whether the answer is complete."""
    sentence = GuardedDecoder(wire.dialect.decoder(provider="x"), provider="x")
    events = sentence.start() + sentence.feed(body) + sentence.close(ls.ConnectionLost("cut"))
    return "".join(e.delta for e in events if isinstance(e, ls.TextDelta)), sentence.error is None


@pytest.mark.row(1)
@pytest.mark.parametrize("wire", WIRES.values(), ids=str)
async def test_reset_at_each_byte_is_typed_error(wire) -> None:
    """Complete events are delivered before it."""
    body = wire.whole
    places = range(len(body) + 1)

    def cut(request: bytes):
        found = re.search(rb"cut at (\d+)", request)
        assert found is not None
        return answered(wire, body[: int(found[1])], Do.RESET, end=False)

    async with FaultServer(cut) as server, no_leaks():
        model = wire.model(server.url, api_key=KEY, retry=ONCE, deadlines=PATIENT)
        few = asyncio.Semaphore(AT_ONCE)

        async def ask(place: int) -> None:
            events: list[object] = []
            caught = None
            async with few, model.stream(f"cut at {place}.") as stream:
                try:
                    async for event in stream:
                        events.append(event)
                except ls.LLMStreamError as error:
                    caught = error
            held(stream, events, caught)
            text, complete = expected(wire, body[:place])
            assert stream.text == text, place
            kinds = (type(None),) if complete else (ls.ConnectionLost, ls.ProtocolError)
            assert type(caught) in kinds, (place, caught)

        async with asyncio.TaskGroup() as group:
            for place in places:
                group.create_task(ask(place))
        await server.left(2.0)
    assert len(server.requests) == len(places)


async def cancelled_after(turns: int, stream, times: int) -> bool:
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


async def left_by_scope_after(turns: int, stream) -> bool:
    """Cancels a scope around `collect()` after so many turns of the loop; whether it was still running."""
    scope = anyio.CancelScope()

    async def read() -> None:
        with scope:
            await stream.collect()

    task = asyncio.create_task(read())
    for _ in range(turns):
        await asyncio.sleep(0)
    running = not task.done()
    scope.cancel()
    await task
    return running


@pytest.mark.row(37)
@pytest.mark.parametrize("wire", WIRES.values(), ids=str)
async def test_scope_end_leaves_nothing_behind(wire) -> None:
    """The scope ends at any await."""
    async with FaultServer(answered(wire, *wire.pieces("Hel", "lo"))) as server, no_leaks():
        turns = 0
        model = wire.model(server.url, api_key=KEY, retry=ONCE, deadlines=PATIENT)
        while await left_by_scope_after(turns, stream := model.stream("Hi")):
            await stream.aclose()
            turns += 1
        assert turns > 5
        assert stream.text == "Hello"
        await close_session()
        await server.left(1.0)


@pytest.mark.row(37)
@pytest.mark.parametrize("wire", WIRES.values(), ids=str)
@pytest.mark.parametrize("times", [1, 2])
async def test_cancel_at_each_await_leaves_nothing(wire, times) -> None:
    pieces = wire.pieces("Hel", "lo")
    async with FaultServer(answered(wire, *pieces)) as server, no_leaks():
        turns = 0
        model = wire.model(server.url, api_key=KEY, retry=ONCE, deadlines=PATIENT)
        while await cancelled_after(turns, stream := model.stream("Hi"), times):
            await stream.aclose()
            assert stream.error is None
            turns += 1
        assert turns > 5
        assert stream.text == "Hello"
        await close_session()
        await server.left(1.0)
