"""Runs of an event log as Server-Sent Events, over a real server."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

import llmstream as ls
from llmstream import events, grammar
from llmstream.log import Logs, MemoryStore
from llmstream.serve import Body
from llmstream.ui import sse

WORDS = 20
COUNT = WORDS + 6

DYING = """
import asyncio, os, signal, sys
import llmstream as ls

async def source():
    yield ls.StreamStart()
    yield ls.events.StepStart(0)
    yield ls.TextStart("t")
    yield ls.TextDelta("Hello", "t")
    await asyncio.sleep(60)

async def main():
    logs = ls.open_logs("sqlite:" + sys.argv[1], lease_s=0.5)
    await logs.start("dying", source())
    seen = 0
    async for _ in logs.follow("dying"):
        seen += 1
        if seen == 4:
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


class Frame(NamedTuple):
    """One frame of SSE."""

    id: int
    event: str
    data: str


class Gated:
    """An answer that waits in its middle for `gate`."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[ls.Event]:
        for event in (ls.StreamStart(), events.StepStart(0), ls.TextStart("t")):
            yield event
        for number in range(WORDS):
            if number == WORDS // 2:
                await self.gate.wait()
            yield ls.TextDelta(f"word {number} ", "t")
        yield ls.TextEnd("t")
        yield events.StepFinish(0, "stop", ls.Usage(1, 2, 3))
        yield ls.Finish("stop", ls.Usage(1, 2, 3))


async def broken() -> AsyncIterator[ls.Event]:
    yield ls.StreamStart()
    raise ls.errors.Overloaded("host db-7.internal is busy")


def whole() -> Gated:
    source = Gated()
    source.gate.set()
    return source


def route(logs: Logs, **options: Any) -> Any:
    async def follow(request: web.Request) -> Body:
        position = request.headers.get("last-event-id") or request.query.get("after")
        return await sse.body(logs, request.match_info["run"], position, **options)

    return follow


async def frames(response: aiohttp.ClientResponse) -> AsyncIterator[Frame]:
    assert response.status == 200, await response.text()
    found: dict[str, str] = {}
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            found[name] = value
        elif "data" in found:
            yield Frame(int(found.get("id", -1)), found.get("event", "message"), found["data"])
            found = {}


async def read(session: aiohttp.ClientSession, url: str, after: int | None = None) -> list[Frame]:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    async with session.get(url, headers=headers) as response:
        return [frame async for frame in frames(response)]


async def test_reconnect_gives_each_once(served: Any) -> None:
    """A reader leaves in the middle and comes back; another comes after the end."""
    source = Gated()
    async with (
        ls.open_logs("memory:") as logs,
        served(route(logs)) as url,
        aiohttp.ClientSession() as session,
    ):
        live = await logs.start("a", source)
        seen: list[Frame] = []
        async with session.get(f"{url}/a") as response:
            async for frame in frames(response):
                seen.append(frame)
                if len(seen) == WORDS // 2:
                    break
        source.gate.set()
        seen += await read(session, f"{url}/a", seen[-1].id)
        assert await live.wait() == "closed"
        late = await read(session, f"{url}/a")
    assert late == seen
    assert [frame.id for frame in seen[:-1]] == list(range(COUNT))
    assert seen[-1].event == "end"
    assert grammar.check(events.decode(frame.data.encode()) for frame in seen[:-1]) == []


async def test_a_reader_with_all_gets_204(served: Any) -> None:
    async with (
        ls.open_logs("memory:") as logs,
        served(route(logs)) as url,
        aiohttp.ClientSession() as session,
    ):
        await (await logs.start("a", whole())).wait()
        async with session.get(f"{url}/a?after={COUNT - 1}") as response:
            assert (response.status, await response.read()) == (204, b"")
        last = await read(session, f"{url}/a?after={COUNT - 2}")
        assert [(frame.id, frame.event) for frame in last[:-1]] == [(COUNT - 1, "message")]


async def test_what_cannot_be_read_has_status(served: Any) -> None:
    async with (
        ls.open_logs("memory:") as logs,
        served(route(logs, max_replay=5)) as url,
        aiohttp.ClientSession() as session,
    ):
        await (await logs.start("a", whole())).wait()
        for path, status in {
            "none": 404,
            "a?after=x": 400,
            "a?after=-7": 400,
            "a?after=900": 400,
            "a": 410,
        }.items():
            async with session.get(f"{url}/{path}") as response:
                assert response.status == status, path
                body = json.loads(await response.read())
        assert body["error"]["code"] == "replay-too-long"
        assert body["tail"] == COUNT - 1


async def test_expired_events_are_gone(served: Any) -> None:
    now = [1_000_000.0]
    store = MemoryStore(clock=lambda: now[0])
    async with (
        ls.open_logs(store, keep_s=60) as logs,
        served(route(logs)) as url,
        aiohttp.ClientSession() as session,
    ):
        await (await logs.start("a", whole())).wait()
        now[0] += 61
        await logs.sweep()
        async with session.get(f"{url}/a") as response:
            assert response.status == 410
            assert (await response.json())["tail"] == COUNT - 1


async def test_leaving_never_stops_a_run(served: Any) -> None:
    source = Gated()
    async with (
        ls.open_logs("memory:") as logs,
        served(route(logs)) as url,
        aiohttp.ClientSession() as session,
    ):
        live = await logs.start("a", source)
        async with session.get(f"{url}/a") as response:
            assert (await anext(frames(response))).id == 0
        await asyncio.sleep(0.2)
        source.gate.set()
        assert await live.wait() == "closed"


async def test_silence_has_heartbeats(served: Any) -> None:
    source = Gated()
    async with (
        ls.open_logs("memory:") as logs,
        served(route(logs, heartbeat_s=0.05)) as url,
        aiohttp.ClientSession() as session,
    ):
        await logs.start("a", source)
        async with session.get(f"{url}/a") as response:
            assert await response.content.readuntil(b": ping\n\n")


async def test_error_hides_the_message(served: Any) -> None:
    """Messages name hosts; `details` sends them to an operator."""
    async with ls.open_logs("memory:") as logs, aiohttp.ClientSession() as session:
        await (await logs.start("a", broken())).wait()
        async with served(route(logs)) as url:
            shown = await read(session, f"{url}/a")
        async with served(route(logs, details=True)) as url:
            full = await read(session, f"{url}/a")
    assert "db-7.internal" not in str(shown)
    assert "overloaded" in str(shown)
    assert "db-7.internal" in str(full)


async def test_dead_producer_ends_the_run(served: Any, tmp_path: Path) -> None:
    """Killed with an open block: the reader gets its end, an error and the end of the stream."""
    file = str(tmp_path / "runs.db")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, file)
    assert await process.wait() == -signal.SIGKILL
    async with (
        ls.open_logs(f"sqlite:{file}") as logs,
        served(route(logs)) as url,
        aiohttp.ClientSession() as session,
    ):
        found = await read(session, f"{url}/dying", 1)
        again = await read(session, f"{url}/dying", 1)
    assert found == again
    assert found[-1].event == "end"
    told = [events.decode(frame.data.encode()) for frame in found[:-1]]
    assert [frame.id for frame in found[:-1]] == list(range(2, 2 + len(told)))
    assert isinstance(told[-2], events.ErrorEvent)
    assert told[-2].error.code == "producer-lost"
    assert isinstance(told[-1], ls.Finish)
