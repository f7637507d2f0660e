"""Equal requests at the same time: one is sent, and everybody reads its events as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.events import RetryNotice
from llmstream.grammar import check
from llmstream.middleware import Ask, cache, wrap
from llmstream.middleware.caching.sqlite import SQLiteCache
from llmstream.testing import Cut, Refuse, ScriptedModel, Turn, no_leaks

WAIT_S = 60


class Gate:
    """A middleware that holds answers back after some deltas, until it is opened."""

    def __init__(self, after: int = 1) -> None:
        self.after = after
        self.open = asyncio.Event()
        self.asked = 0

    async def __call__(self, request: ls.Request, ask: Ask) -> AsyncGenerator[ls.Event]:
        self.asked += 1
        deltas = 0
        async for event in ask(request):
            yield event
            deltas += isinstance(event, ls.TextDelta)
            if deltas == self.after:
                await self.open.wait()


def texts(events: list[ls.Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ls.TextDelta))


def marks(events: list[ls.Event]) -> list[dict[str, Any]]:
    found = [e.provider_metadata or {} for e in events if isinstance(e, ls.ResponseMetadata)]
    return [metadata["llmstream"] for metadata in found if "llmstream" in metadata]


class Reader:
    """Reads a stream in a task; `seen` has the events so far."""

    def __init__(self, model: ls.Model, **options: Any) -> None:
        self.seen: list[ls.Event] = []
        self.news = asyncio.Event()
        self.task = asyncio.create_task(self._read(model, options))

    async def _read(self, model: ls.Model, options: Any) -> None:
        async with model.stream("Hi", **options) as stream:
            async for event in stream:
                self.seen.append(event)
                self.news.set()

    async def has(self, text: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while texts(self.seen) != text:
                self.news.clear()
                await self.news.wait()

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_hundred_requests_send_one(kept: Any) -> None:
    """All see the first word before the answer goes on, which is in a gate."""
    inner, gate = ScriptedModel("one two three"), Gate()
    model = wrap(inner, gate, cache(kept))
    readers = [Reader(model) for _ in range(100)]
    for reader in readers:
        await reader.has("one")
    gate.open.set()
    await asyncio.gather(*[reader.task for reader in readers])
    assert len(inner.requests) == 1
    assert {texts(reader.seen) for reader in readers} == {"one two three"}
    assert all(check(reader.seen) == [] for reader in readers)
    cached = [marks(reader.seen) for reader in readers]
    assert cached.count([]) == 1
    others = [mark for mark in cached if mark]
    saved = {"input_tokens": 1, "output_tokens": 4}
    assert others == [[{"cached": True, "live": True}, {"cached": True, "saved": saved}]] * 99


async def test_caches_share_a_request(shared: Any) -> None:
    """Two caches over one store, as in two processes."""
    inner, gate = ScriptedModel("one two three"), Gate()
    readers = [Reader(wrap(inner, gate, cache(shared))) for _ in range(3)]
    for reader in readers:
        await reader.has("one")
    gate.open.set()
    await asyncio.gather(*[reader.task for reader in readers])
    assert len(inner.requests) == 1
    assert {texts(reader.seen) for reader in readers} == {"one two three"}
    assert all(check(reader.seen) == [] for reader in readers)


@pytest.mark.parametrize("over_processes", [False, True])
async def test_the_next_asks_if_one_leaves(over_processes: bool, shared: Any) -> None:
    inner, gate = ScriptedModel("one two", "three four"), Gate()
    caches = [cache(shared), cache(shared)] if over_processes else [cache(shared)] * 2
    first, second = [Reader(wrap(inner, gate, each)) for each in caches]
    for reader in (first, second):
        await reader.has("one")
    asker, other = (second, first) if marks(first.seen) else (first, second)
    await asker.leave()
    gate.open.set()
    await other.task
    assert len(inner.requests) == 2
    assert check(other.seen) == []
    (retry,) = [at for at, event in enumerate(other.seen) if isinstance(event, RetryNotice)]
    assert texts(other.seen[retry:]) == "three four"
    assert isinstance(other.seen[-1], ls.Finish)
    assert other.seen[-1].finish_reason == "stop"
    again = await wrap(inner, caches[0]).stream("Hi").collect()
    assert again.text == "three four"


async def test_the_next_waits_for_the_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader does not receive the abandoned events again, from the store."""
    publish, release, published = SQLiteCache.publish, SQLiteCache.release, asyncio.Event()

    async def noted(self: SQLiteCache, key: str, owner: str, lines: list[bytes]) -> bool:
        found = await publish(self, key, owner, lines)
        if any(b"one" in line for line in lines):
            published.set()
        return found

    async def slow(self: SQLiteCache, key: str, owner: str) -> None:
        await asyncio.sleep(0.1)
        await release(self, key, owner)

    monkeypatch.setattr(SQLiteCache, "publish", noted)
    monkeypatch.setattr(SQLiteCache, "release", slow)
    inner, gate = ScriptedModel("one two", "three four"), Gate()
    model = wrap(inner, gate, cache(f"sqlite:{tmp_path / 'answers.db'}"))
    first, second = Reader(model), Reader(model)
    for reader in (first, second):
        await reader.has("one")
    await published.wait()
    asker, other = (second, first) if marks(first.seen) else (first, second)
    await asker.leave()
    gate.open.set()
    await other.task
    assert texts(other.seen) == "onethree four"
    assert [event.attempt for event in other.seen if isinstance(event, RetryNotice)] == [1]


@pytest.mark.parametrize("fault", [Cut(after_events=4), Cut(after_events=4, clean=True), Refuse(status=503)])
async def test_the_next_asks_if_one_fails(fault: Any, kept: Any) -> None:
    inner = ScriptedModel(Turn(text="one two three", fault=fault), "four five")
    model = wrap(inner, cache(kept))
    streams = [model.stream("Hi") for _ in range(5)]
    results = await asyncio.gather(*[stream.collect() for stream in streams], return_exceptions=True)
    failed = [result for result in results if isinstance(result, ls.LLMStreamError)]
    assert len(failed) == 1
    assert len(inner.requests) == 2
    assert {result.text for result in results if isinstance(result, ls.Message)} == {"four five"}


async def test_a_paused_reader_holds_up_nobody(kept: Any) -> None:
    """The one who asked reads one event, and the other everything before it reads on."""
    inner = ScriptedModel("one two three")
    model = wrap(inner, cache(kept))
    async with model.stream("Hi") as paused:
        events = aiter(paused)
        await anext(events)
        async with asyncio.timeout(WAIT_S):
            assert (await model.stream("Hi").collect()).text == "one two three"
        assert texts([event async for event in events]) == "one two three"
    assert len(inner.requests) == 1


async def test_a_cut_answer_is_shared_as_cut(kept: Any) -> None:
    inner = ScriptedModel(Turn(text="one two", finish_reason="length"), "three")
    gate = Gate()
    model = wrap(inner, gate, cache(kept))
    readers = [Reader(model), Reader(model)]
    for reader in readers:
        await reader.has("one")
    gate.open.set()
    await asyncio.gather(*[reader.task for reader in readers])
    assert [reader.seen[-1].finish_reason for reader in readers] == ["length", "length"]
    assert (await wrap(inner, cache(kept)).stream("Hi").collect()).text == "three"


async def test_a_follower_has_its_deadline(kept: Any) -> None:
    inner, gate = ScriptedModel("one two"), Gate()
    model = wrap(inner, gate, cache(kept))
    first = Reader(model)
    await first.has("one")
    with pytest.raises(ls.DeadlineExceeded, match="total_s"):
        await model.stream("Hi", deadlines=ls.Deadlines(total_s=0.05)).collect()
    gate.open.set()
    await first.task
    assert texts(first.seen) == "one two"


async def test_refresh_asks_anew(kept: Any, read: Any) -> None:
    inner = ScriptedModel("one", "two")
    model = wrap(inner, cache(kept))
    seen = [(await read(model, refresh=new)).text for new in (False, True, False)]
    assert seen == ["one", "two", "two"]
    with pytest.raises(ls.InvalidRequest, match="refresh must be True or False"):
        model.stream("Hi", refresh="yes")  # type: ignore[arg-type]


async def test_refresh_reaches_the_cache_of_an_agent(read: Any) -> None:
    inner = ScriptedModel("one", "two")
    agent = ls.Agent(wrap(inner, cache({})))
    answers = [(await agent.run("Hi", refresh=new)).text for new in (False, False, True)]
    assert answers == ["one", "one", "two"]


async def test_leaving_leaks_nothing() -> None:
    inner, gate = ScriptedModel("one two"), Gate()
    model = wrap(inner, gate, cache({}))
    async with no_leaks():
        readers = [Reader(model) for _ in range(3)]
        for reader in readers:
            await reader.has("one")
        for reader in readers:
            await reader.leave()


async def test_without_single_each_is_sent(kept: Any) -> None:
    inner, gate = ScriptedModel("one two", repeat_last=True), Gate()
    model = wrap(inner, gate, cache(kept, single=False))
    readers = [Reader(model) for _ in range(3)]
    for reader in readers:
        await reader.has("one")
    assert len(inner.requests) == 3
    gate.open.set()
    await asyncio.gather(*[reader.task for reader in readers])
