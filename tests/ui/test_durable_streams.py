"""The reading half of Durable Streams, as its own client for JavaScript reads it and as bytes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import pytest
from aiohttp import web

import llmstream as ls
from llmstream import events
from llmstream.log import Logs, MemoryStore, Page
from llmstream.serve import Body
from llmstream.ui import durable_streams

HERE = Path(__file__).parent
PACKAGE = "@durable-streams/client"
WORDS = 20
WITHIN_S = 60.0

Client: TypeAlias = Callable[..., Awaitable[asyncio.subprocess.Process]]


class Gated:
    """An answer that waits in its middle for `gate`."""

    def __init__(self, size: int = 4) -> None:
        self.gate = asyncio.Event()
        self._size = size

    async def __aiter__(self) -> AsyncIterator[ls.Event]:
        for event in (ls.StreamStart(), events.StepStart(0), ls.TextStart("t")):
            yield event
        for number in range(WORDS):
            if number == WORDS // 2:
                await self.gate.wait()
            yield ls.TextDelta(f"{number} " + "x" * self._size, "t")
        yield ls.TextEnd("t")
        yield events.StepFinish(0, "stop", ls.Usage(1, 2, 3))
        yield ls.Finish("stop", ls.Usage(1, 2, 3))


def whole(size: int = 4) -> Gated:
    source = Gated(size)
    source.gate.set()
    return source


async def broken() -> AsyncIterator[ls.Event]:
    yield ls.StreamStart()
    raise ls.errors.Overloaded("host db-7.internal is busy")


def route(logs: Logs, **options: Any) -> Any:
    async def read(request: web.Request) -> Body:
        return await durable_streams.body(
            logs,
            request.match_info["run"],
            request.query_string,
            method=request.method,
            if_none_match=request.headers.get("if-none-match"),
            **options,
        )

    return read


async def messages(logs: Logs, run: str) -> list[Any]:
    return [json.loads(events.encode(event)) async for _, event in logs.follow(run)]


def offset(number: int) -> str:
    return f"{number:016}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """`await client(url, mode, offset)`: the program that reads a stream, running."""
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or HERE.parent / "peers" / "node_modules")
    if shutil.which("node") is None or not (modules / PACKAGE).is_dir():
        pytest.skip(f"node or {PACKAGE} is not installed; see tests/peers/README.md")
    place = tmp_path_factory.mktemp("durable")
    shutil.copy(HERE / "js" / "durable_streams.mjs", place)
    (place / "node_modules").symlink_to(modules.resolve(), target_is_directory=True)

    async def start(*arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("node", "durable_streams.mjs", *arguments),
            cwd=place,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    return start


async def outcome(process: asyncio.subprocess.Process) -> tuple[list[Any], dict[str, Any]]:
    """The messages that a client read, and its state at the end."""
    try:
        told, complaints = await asyncio.wait_for(process.communicate(), WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, complaints.decode()
    *read, state = [json.loads(line) for line in told.splitlines()]
    return [line["message"] for line in read], state


@pytest.mark.parametrize(
    "mode", ["sse", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("false", "long-poll"))]
)
async def test_client_reads_an_ended_run(served: Any, client: Client, mode: str) -> None:
    """From the beginning, from the middle, and where the run takes several pages."""
    async with ls.open_logs("memory:") as logs, served(route(logs)) as url:
        for run, size in (("a", 4), ("large", 40_000)):
            await (await logs.start(run, whole(size))).wait()
            expected = await messages(logs, run)
            for position, number in (("-1", 0), (offset(7), 7)):
                read, state = await outcome(await client(f"{url}/{run}", mode, position))
                assert read == expected[number:]
                assert state == {"offset": offset(len(expected)), "closed": True, "upToDate": True}


@pytest.mark.parametrize("mode", [pytest.param("long-poll", marks=pytest.mark.slow), "sse"])
async def test_client_follows_a_live_run(served: Any, client: Client, mode: str) -> None:
    """It has read what is there before the rest is produced, and long-polls in vain in between."""
    source = Gated()
    async with ls.open_logs("memory:") as logs, served(route(logs, poll_s=0.1)) as url:
        live = await logs.start("a", source)
        process = await client(f"{url}/a", mode, "-1")
        assert process.stdout is not None
        first = [json.loads(await process.stdout.readline())["message"] for _ in range(3 + WORDS // 2)]
        await asyncio.sleep(0.5)
        source.gate.set()
        rest, state = await outcome(process)
        await live.wait()
        expected = await messages(logs, "a")
    assert first + rest == expected
    assert state["closed"]


async def test_client_reads_a_failed_run(served: Any, client: Client) -> None:
    async with ls.open_logs("memory:") as logs, served(route(logs)) as url:
        await (await logs.start("a", broken())).wait()
        read, state = await outcome(await client(f"{url}/a", "sse", "-1"))
    assert [message["type"] for message in read[-2:]] == ["error", "finish"]
    assert "db-7.internal" not in str(read)
    assert state["closed"]


@pytest.fixture
async def get(served: Any) -> AsyncIterator[Any]:
    """`await get(logs, target)`: status, headers and text."""
    async with aiohttp.ClientSession() as session:

        async def response(
            logs: Logs, target: str, method: str = "GET", tag: str | None = None, **options: Any
        ) -> Any:
            headers = {} if tag is None else {"if-none-match": tag}
            async with (
                served(route(logs, poll_s=0.05, **options)) as url,
                session.request(method, f"{url}/{target}", headers=headers) as got,
            ):
                return got.status, got.headers, await got.text()

        yield response


async def test_reads_an_array_and_its_offset(get: Any) -> None:
    async with ls.open_logs("memory:") as logs:
        await (await logs.start("a", whole())).wait()
        expected = await messages(logs, "a")
        status, headers, text = await get(logs, "a")
        assert (status, json.loads(text)) == (200, expected)
        assert headers["content-type"] == "application/json"
        assert headers["stream-next-offset"] == offset(len(expected))
        assert headers["stream-up-to-date"] == headers["stream-closed"] == "true"
        _, headers, text = await get(logs, f"a?offset={offset(len(expected))}")
        assert (text, headers["stream-closed"]) == ("[]", "true")


async def test_part_of_a_run_is_not_closed(get: Any) -> None:
    """A long-poll of an ended run that is larger than a page."""
    async with ls.open_logs("memory:") as logs:
        await (await logs.start("a", whole(40_000))).wait()
        _, headers, text = await get(logs, "a?offset=-1&live=long-poll")
        assert headers["stream-next-offset"] == offset(len(json.loads(text)))
        assert "stream-closed" not in headers
        assert "stream-up-to-date" not in headers


async def test_now_begins_at_the_end(get: Any) -> None:
    source = Gated()
    async with ls.open_logs("memory:") as logs:
        live = await logs.start("a", source)
        async for _, event in logs.follow("a"):
            if isinstance(event, ls.TextDelta) and event.delta.startswith(f"{WORDS // 2 - 1} "):
                break
        tail = offset(3 + WORDS // 2)
        status, headers, text = await get(logs, "a?offset=now")
        assert (status, text, headers["stream-next-offset"]) == (200, "[]", tail)
        assert "stream-closed" not in headers
        status, headers, text = await get(logs, "a?offset=now&live=long-poll")
        assert (status, text, headers["stream-next-offset"]) == (204, "", tail)
        assert headers["stream-up-to-date"] == "true"
        assert headers["stream-cursor"].isdecimal()
        source.gate.set()
        await live.wait()
        _, headers, text = await get(logs, f"a?offset={tail}&live=long-poll")
        assert json.loads(text) == (await messages(logs, "a"))[int(tail) :]
        status, headers, _ = await get(logs, "a?offset=now&live=long-poll")
        assert (status, headers["stream-closed"]) == (204, "true")


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
async def test_known_events_are_not_sent_again(get: Any, form: str) -> None:
    """The tag is as it was sent, as a proxy has changed it, one of several, or any."""
    async with ls.open_logs("memory:") as logs:
        await (await logs.start("a", whole())).wait()
        _, first, _ = await get(logs, "a?offset=-1")
        status, headers, text = await get(logs, "a?offset=-1", tag=form.format(first["etag"]))
        assert (status, text) == (304, "")
        assert headers["etag"] == first["etag"]
        assert headers["cache-control"] == "private, no-cache"
        assert headers["stream-next-offset"] == first["stream-next-offset"]
        assert headers["stream-closed"] == "true"


async def test_etag_is_of_the_events_sent(get: Any) -> None:
    """Another part, a run that has ended, and another run of the same id have another tag."""
    source = Gated()
    async with ls.open_logs("memory:") as logs:
        live = await logs.start("a", source)
        async for _, event in logs.follow("a"):
            if isinstance(event, ls.TextDelta) and event.delta.startswith(f"{WORDS // 2 - 1} "):
                break
        tags = [(await get(logs, target))[1]["etag"] for target in ("a", f"a?offset={offset(3)}")]
        source.gate.set()
        await live.wait()
        tags.append((await get(logs, "a"))[1]["etag"])
        tags.append((await get(logs, "a", details=True))[1]["etag"])
        await logs.delete("a")
        await (await logs.start("a", whole())).wait()
        tags.append((await get(logs, "a"))[1]["etag"])
        assert len(set(tags)) == len(tags)
        assert [(await get(logs, "a", tag=tag))[0] for tag in tags[:-1]] == [200] * (len(tags) - 1)
        for target in ("a?offset=now", "a?offset=-1&live=long-poll"):
            status, headers, _ = await get(logs, target, tag="*")
            assert (status, headers["cache-control"]) == (200, "no-store")
            assert "etag" not in headers


async def test_cursor_is_above_the_clients(get: Any) -> None:
    async with ls.open_logs("memory:") as logs:
        await logs.start("a", Gated())
        _, headers, _ = await get(logs, "a?offset=now&live=long-poll")
        cursor = int(headers["stream-cursor"])
        _, headers, _ = await get(logs, f"a?offset=now&live=long-poll&cursor={cursor + 5}")
        assert int(headers["stream-cursor"]) == cursor + 6


async def test_frames_pair_data_and_control(get: Any) -> None:
    async with ls.open_logs("memory:") as logs:
        await (await logs.start("a", whole(40_000))).wait()
        _, headers, text = await get(logs, "a?offset=-1&live=sse")
        expected = await messages(logs, "a")
    assert headers["content-type"] == "text/event-stream"
    frames = [frame.split("\ndata:") for frame in text.removesuffix("\n\n").split("\n\n")]
    assert [name for name, _ in frames] == ["event: data", "event: control"] * (len(frames) // 2)
    assert [item for _, data in frames[::2] for item in json.loads(data)] == expected
    controls = [json.loads(data) for _, data in frames[1::2]]
    assert controls[-1] == {"streamNextOffset": offset(len(expected)), "streamClosed": True, "upToDate": True}
    assert all(set(control) == {"streamNextOffset", "streamCursor"} for control in controls[:-1])


async def test_leaving_ends_a_long_poll(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, left = asyncio.Event(), asyncio.Event()
    async with (
        ls.open_logs("memory:") as logs,
        served(route(logs, poll_s=600.0)) as url,
        aiohttp.ClientSession() as session,
    ):
        reading = logs.pages

        async def pages(*position: Any, **options: Any) -> AsyncIterator[Page]:
            waits.set()
            try:
                async with aclosing(reading(*position, **options)) as found:
                    async for page in found:
                        yield page
            finally:
                left.set()

        monkeypatch.setattr(logs, "pages", pages)
        await logs.start("a", Gated())
        asking = asyncio.create_task(session.get(f"{url}/a?offset=now&live=long-poll"))
        await asyncio.wait_for(waits.wait(), WITHIN_S)
        asking.cancel()
        await asyncio.wait_for(left.wait(), WITHIN_S)


async def test_head_has_the_tail(get: Any) -> None:
    async with ls.open_logs("memory:") as logs:
        await (await logs.start("a", whole(40_000))).wait()
        status, headers, text = await get(logs, "a", "HEAD")
        assert (status, text, headers["content-type"]) == (200, "", "application/json")
        assert headers["stream-next-offset"] == offset(len(await messages(logs, "a")))
        assert headers["stream-closed"] == "true"
        assert (await get(logs, "none", "HEAD"))[0] == 404


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("none", 404),
        ("none?offset=now&live=sse", 404),
        ("a?live=sse", 400),
        ("a?live=long-poll", 400),
        ("a?live=other&offset=-1", 400),
        ("a?offset=", 400),
        ("a?offset=0,1", 400),
        ("a?offset=0%201", 400),
        ("a?offset=-1&offset=now", 400),
        ("a?offset=900", 400),
    ],
)
async def test_invalid_requests_have_a_status(get: Any, target: str, status: int) -> None:
    async with ls.open_logs("memory:") as logs:
        await (await logs.start("a", whole())).wait()
        assert (await get(logs, target))[0] == status


async def test_what_is_gone_tells_the_tail(get: Any) -> None:
    """Too long a replay, then events that have expired."""
    now = [1_000_000.0]
    async with ls.open_logs(MemoryStore(clock=lambda: now[0]), keep_s=60) as logs:
        await (await logs.start("a", whole())).wait()
        tail = offset(len(await messages(logs, "a")))
        status, headers, _ = await get(logs, "a?offset=-1", max_replay=5)
        assert (status, headers["stream-next-offset"]) == (410, tail)
        now[0] += 61
        await logs.sweep()
        status, headers, _ = await get(logs, "a?offset=-1")
        assert (status, headers["stream-next-offset"]) == (410, tail)
