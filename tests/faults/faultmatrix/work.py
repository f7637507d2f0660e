"""Tools, attempts and keys: rows 43, 44, 46, 47, 49 and 51."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

from faultmatrix.asking import KEY, ONCE, PATIENT, QUICK_IDLE, THRICE, answered, ask
from faultmatrix.faults import Drill, Fault, drill
from faultmatrix.leaving import model
from faultmatrix.wires import WIRES, Wire

import llmstream as ls
from llmstream.chats import ToolResult
from llmstream.events import RetryNotice, StreamStart
from llmstream.middleware import fallback, wrap
from llmstream.testing import Do, FaultServer, head, no_leaks


async def run_tool(wire: Wire, tool: Any, *, inputs: tuple[str, ...] = ("{}",)) -> tuple[ls.EventStream, Any]:
    """An answer that calls `look` and a second one; the stream and the statuses of the calls."""
    bodies = (wire.calls(*inputs), wire.whole)
    async with FaultServer(*(answered(wire, body) for body in bodies)) as server, no_leaks():
        async with model(wire, server).stream("Hi", tools=[tool]) as stream:
            try:
                statuses = await stream.call_tools()
                await stream.collect()
            finally:
                await asyncio.sleep(0)
        await server.left()
        return stream, statuses


def results(stream: ls.EventStream) -> list[ToolResult]:
    return [part for m in stream.messages() for part in m.parts if isinstance(part, ToolResult)]


@drill(43, "a tool that raises")
async def raises(wire: Wire) -> None:
    @ls.tool
    def look() -> str:
        """Looks."""
        raise ValueError("dark")

    stream, statuses = await run_tool(wire, look)
    assert "dark" in statuses[0].error
    assert results(stream)[0].is_error
    assert stream.text == "Hello"


@drill(43, "a tool that raises no Exception")
async def raises_base(wire: Wire) -> None:
    class Stop(BaseException):
        pass

    @ls.tool
    async def look() -> str:
        """Looks."""
        raise Stop

    try:
        await run_tool(wire, look)
        raise AssertionError("it was swallowed")
    except Stop:
        pass


@drill(43, "a tool that hangs")
async def hangs(wire: Wire) -> None:
    ended: list[str] = []

    @ls.tool(timeout_s=0.05)
    async def look() -> str:
        """Looks."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")
        return "never"

    stream, statuses = await run_tool(wire, look)
    assert statuses[0].error is not None
    assert ended == ["cancelled"]
    assert stream.text == "Hello"


@drill(43, "a cancel while two tools run")
async def cancels_siblings(wire: Wire) -> None:
    begun, ended = [], []

    @ls.tool
    async def look(a: int) -> str:
        """Looks."""
        begun.append(a)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(a)
        return "never"

    async with FaultServer(answered(wire, wire.calls('{"a": 1}', '{"a": 2}'))) as server, no_leaks():
        stream = model(wire, server).stream("Hi", tools=[look])
        task = asyncio.create_task(stream.call_tools())
        while len(begun) < 2:
            await asyncio.sleep(0.002)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        assert sorted(ended) == [1, 2]
        await stream.aclose()
        assert {result.tool_call_id for result in results(stream)} == {
            call.id for m in stream.messages() for call in m.tool_calls
        }
        await server.left()


@drill(44, "a result of a million characters")
async def huge(wire: Wire) -> None:
    @ls.tool(max_result_chars=1000)
    def look() -> str:
        """Looks."""
        return "x" * 1_000_000

    stream, _ = await run_tool(wire, look)
    assert len(results(stream)[0].content) < 1200
    assert "cut" in results(stream)[0].content


@drill(44, "a result that cannot be sent")
async def unserialisable(wire: Wire) -> None:
    @ls.tool
    def look() -> Any:
        """Looks."""
        return object()

    stream, statuses = await run_tool(wire, look)
    assert statuses[0].error is not None
    assert results(stream)[0].is_error
    assert stream.text == "Hello"


@drill(44, "a result of half a character")
async def half_a_character(wire: Wire) -> None:
    @ls.tool
    def look() -> str:
        """Looks."""
        return "a\ud83d\x00b"

    stream, _ = await run_tool(wire, look)
    assert "\ud83d" not in results(stream)[0].content
    assert stream.text == "Hello"


@drill(47, "one idempotency key for all attempts of a call, another for the next call")
async def idempotency(wire: Wire) -> None:
    refused = [head(500, {"retry-after-ms": "1", "content-length": "0"})]
    async with FaultServer(refused, refused, answered(wire, wire.whole)) as server, no_leaks():
        for _ in range(2):
            asked = model(wire, server, retry=THRICE)
            await asked.stream("Hi").collect()
        header = asked.provider.idempotency_header
        found = [
            re.search(rb"(?im)^" + header.encode() + rb": (\S+)\r$", request) for request in server.requests
        ]
        keys = [match[1] for match in found if match is not None]
    assert len(keys) == len(server.requests) == 4
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]


def rotates(*keys: str, asked: int, ends: type[ls.LLMStreamError] | None) -> Any:
    """A function that gives keys; 401 until the good one comes."""

    async def run(wire: Wire) -> None:
        given: list[str] = []

        def key() -> str:
            given.append(keys[min(len(given), len(keys) - 1)])
            return given[-1]

        def script(request: bytes) -> Any:
            if b"good-key-0123456789" in request:
                return answered(wire, wire.whole)
            return [head(401, {"content-length": "0"})]

        async with FaultServer(script) as server, no_leaks():
            asking = wire.model(server.url, api_key=key, retry=ONCE, deadlines=PATIENT)
            stream = asking.stream("Hi", errors="events")
            await stream.collect()
        assert len(server.requests) == len(given) == asked
        assert type(stream.error) is (ends or type(None))

    return run


@drill(51, "a key that is a text is not requested again")
async def fixed_key(wire: Wire) -> None:
    got = await ask(
        wire, [head(401, {"content-length": "0"})], answered(wire, wire.whole), retry=THRICE, api_key=KEY
    )
    assert type(got.error) is ls.AuthenticationError
    assert len(got.server.requests) == 1


@drill(22, "bytes that are not UTF-8 are counted in a warning")
async def counted(wire: Wire) -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("llmstream")
    log.addHandler(handler)
    try:
        bad = wire.altered(wire.lo, b'"lo"', b'"l\xff"')
        got = await ask(wire, answered(wire, wire.half, bad, bad, wire.closing))
    finally:
        log.removeHandler(handler)
    assert got.text == "Hell\ufffdl\ufffd"
    assert [line for line in said if "2 events" in line and "UTF-8" in line] != []


def falls_back(*steps: Any, restart: bool, text: str, error: type[ls.LLMStreamError] | None) -> Any:
    """The second model is asked before the first content only, or where the caller wants it all anew."""

    async def run(wire: Wire) -> None:
        script = [wire.half if step == "half" else step for step in steps]
        async with (
            FaultServer(answered(wire, *script, end=False) if script else [Do.RESET]) as first,
            FaultServer(answered(wire, wire.whole)) as second,
            no_leaks(),
        ):
            both = wrap(model(wire, first), fallback(model(wire, second), restart=restart))
            async with both.stream("Hi", errors="events") as stream:
                events = [event async for event in stream]
            await first.left()
        assert stream.text == text
        assert type(stream.error) is (error or type(None))
        assert second.connections == (1 if text == "Hello" else 0)
        retries = [event for event in events if isinstance(event, RetryNotice)]
        assert len(retries) == (1 if restart and steps else 0)
        told = next(event for event in events if isinstance(event, StreamStart)).warnings
        assert bool(told or retries) is (text == "Hello")

    return run


NO_HEADER = {
    wire.name: "the vendor has no idempotency key"
    for wire in WIRES.values()
    if not wire.model("http://127.0.0.1:1", api_key="x").provider.idempotency_header
}

FAULTS = [
    *(
        Fault(
            name=f"not requested again after content: {what}",
            row=46,
            scripts=lambda wire, script=script: [script(wire), answered(wire, wire.whole)],
            error=kinds,
            text="Hel",
            asked=1,
            options={"retry": THRICE, "deadlines": QUICK_IDLE},
        )
        for what, script, kinds in (
            (
                "a reset",
                lambda wire: answered(wire, wire.half, Do.RESET, end=False),
                (ls.ConnectionLost, ls.ProtocolError),
            ),
            ("a clean end", lambda wire: answered(wire, wire.half), ls.IncompleteStream),
            ("silence", lambda wire: answered(wire, wire.half, Do.HANG), ls.DeadlineExceeded),
            ("an overload", lambda wire: answered(wire, wire.broken), (ls.Overloaded, ls.ServerError)),
        )
    ),
    *(
        Fault(
            name=f"requested again before content: {what}",
            row=46,
            scripts=lambda wire, script=script: [script(wire), answered(wire, wire.whole)],
            asked=2,
            options={"retry": ls.Retry(max_retries=2, max_wait_s=0.02)},
        )
        for what, script in (
            ("a reset", lambda wire: [Do.RESET]),
            ("a reset after the head", lambda wire: answered(wire, Do.RESET, end=False)),
            ("an overload", lambda wire: answered(wire, wire.refusal)),
        )
    ),
]

DRILLS: list[Drill] = [
    counted,
    Drill(
        name="the second model answers where the first does not begin",
        row=49,
        play=falls_back(restart=False, text="Hello", error=None),
    ),
    Drill(
        name="no second model after content",
        row=49,
        play=falls_back("half", Do.RESET, restart=False, text="Hel", error=ls.ConnectionLost),
    ),
    Drill(
        name="requested again after content, by the caller's option, and reported",
        row=46,
        play=falls_back("half", Do.RESET, restart=True, text="Hello", error=None),
    ),
    raises,
    raises_base,
    hangs,
    cancels_siblings,
    huge,
    unserialisable,
    half_a_character,
    Drill(name=idempotency.name, row=47, play=idempotency.play, not_for=NO_HEADER),
    Drill(
        name="a key that was rotated",
        row=51,
        play=rotates("old-key-0123456789", "good-key-0123456789", asked=2, ends=None),
    ),
    Drill(
        name="a key that stays wrong",
        row=51,
        play=rotates("old-key-0123456789", asked=2, ends=ls.AuthenticationError),
    ),
    fixed_key,
]
