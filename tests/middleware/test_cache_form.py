"""What is stored of an answer, and at which pace it is replayed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import encode
from llmstream.grammar import check
from llmstream.middleware import Ask, cache, wrap
from llmstream.middleware.caching import cache_key
from llmstream.middleware.caching.form import Answer, decode_answer, encode_answer
from llmstream.providers.registry import find_provider
from llmstream.simulator.script import Pace
from llmstream.testing import Script, ScriptedModel, Simulator, Turn, VirtualClock
from tests.clocks import nanoseconds

MARK = "llmstream"

EVENTS: list[ls.Event] = [
    ls.StreamStart([]),
    ls.TextStart("0"),
    ls.TextDelta("one ", "0"),
    ls.TextDelta("two", "0"),
    ls.TextEnd("0"),
    ls.Finish("stop", ls.Usage(3, 2, 5)),
]


async def slowly(request: ls.Request, ask: Ask) -> AsyncGenerator[ls.Event]:
    """A second before each word, and two before the first."""
    await asyncio.sleep(1)
    async for event in ask(request):
        if isinstance(event, ls.TextDelta):
            await asyncio.sleep(1)
        yield event


async def paces(model: ls.Model) -> list[float]:
    """When each word arrives, in seconds since the request."""
    clock, found = asyncio.get_running_loop().time, list[float]()
    began = clock()
    async for event in model.events(model.request("Hi")):
        if isinstance(event, ls.TextDelta):
            found.append(round(clock() - began, 2))
    return found


@pytest.mark.parametrize(
    ("times", "expected"),
    [("none", [0, 0, 0]), ("original", [2, 3, 4]), (2.0, [1, 1.5, 2]), (0.5, [4, 6, 8])],
)
async def test_replay_has_the_recorded_pace(times: Any, expected: list[float]) -> None:
    kept: dict[str, bytes] = {}
    with VirtualClock():
        recorded = await paces(wrap(ScriptedModel("one two three"), slowly, cache(kept)))
        assert recorded == pytest.approx([2, 3, 4], abs=0.05)
        replayed = await paces(wrap(ScriptedModel("never"), cache(kept, times=times)))
    assert replayed == pytest.approx(expected, abs=0.05)


async def test_the_offset_of_each_batch_is_kept() -> None:
    kept: dict[str, bytes] = {}
    with VirtualClock():
        await paces(wrap(ScriptedModel("one two"), slowly, cache(kept)))
    (data,) = kept.values()
    head = json.loads(data.splitlines()[0])
    assert (head["format"], head["version"]) == ("llmstream.cache", 2)
    assert sum(count for _, count in head["timing"]) == len(data.splitlines()) - 1
    assert sorted({round(at) for at, _ in head["timing"]}) == [1, 2, 3]


async def test_version_1_is_read(tmp_path: Path, read: Any) -> None:
    """A file as earlier releases wrote it; without times, it is replayed at once at any pace."""
    inner = ScriptedModel("never")
    name = f"{cache_key(inner, inner.request('Hi'))}.jsonl"
    lines = [b'{"format":"llmstream.cache","version":1}', *map(encode, EVENTS), b""]
    (tmp_path / name).write_bytes(b"\n".join(lines))
    for times in ("none", "original"):
        seen = await read(wrap(inner, cache(tmp_path, times=times)))
        assert [event for event in seen.events if not isinstance(event, ls.ResponseMetadata)] == EVENTS
    assert inner.requests == []


def test_both_directions_are_equal() -> None:
    answer = Answer(EVENTS, [(0.25, 3), (0.5, 3)], 1_790_000_000.5)
    assert decode_answer(encode_answer(answer)) == answer
    assert list(answer.batches) == [(0.25, EVENTS[:3]), (0.5, EVENTS[3:])]
    assert [at for at, _ in Answer(EVENTS, [(0.25, 3)]).batches] == [0.25, 0.25]


@pytest.mark.parametrize(
    "change",
    [(b'"version":2', b'"version":3'), (b"llmstream.cache", b"llmstream.other"), (b'"finish"', b'"stop"')],
)
def test_what_is_unknown_is_refused(change: tuple[bytes, bytes]) -> None:
    data = encode_answer(Answer(EVENTS))
    assert change[0] in data
    with pytest.raises(ValueError):
        decode_answer(data.replace(*change))


def test_no_truncated_answer_is_read() -> None:
    data = encode_answer(Answer(EVENTS, [(0.25, 6)]))
    for end in range(len(data) - 1):
        with pytest.raises(ValueError):
            decode_answer(data[:end])


async def test_key_hook_ignores_a_date(kept: Any, read: Any) -> None:
    def without_date(request: ls.Request) -> ls.Request:
        messages = tuple(m for m in request.messages if not m.text.startswith("Today is"))
        return msgspec.structs.replace(request, messages=messages)

    inner = ScriptedModel("one", "two", "three")
    model = wrap(inner, cache(kept, key=without_date))
    days = [[ls.Message.system(f"Today is {day}"), ls.Message.user("Hi")] for day in ("Monday", "Tuesday")]
    assert [(await model.stream(day).collect()).text for day in days] == ["one", "one"]
    assert inner.requests[0].messages[0].text == "Today is Monday"
    assert (await read(model, "Ho")).text == "two"
    other = ScriptedModel("other", model="another")
    named = cache(kept, key=lambda request: "greeting")
    assert (await read(wrap(inner, named))).text == (await read(wrap(inner, named), "Hey")).text == "three"
    uncached = cache(kept, key=lambda request: None)
    assert (await read(wrap(other, uncached))).text == "other"


async def test_saved_dollars_are_marked(read: Any) -> None:
    priced = cache({}, price=lambda model, usage: 0.5 if model == "scripted:scripted" else None)
    model = wrap(ScriptedModel("one two"), priced)
    await read(model)
    metadata = [event.provider_metadata for event in (await read(model)).of(ls.ResponseMetadata)]
    saved = {"input_tokens": 1, "output_tokens": 2, "usd": 0.5}
    assert {"llmstream": {"cached": True, "saved": saved}} in metadata


async def through_cache(events: list[ls.Event]) -> list[list[ls.Event]]:
    """A stream of these events, asked for, and asked for again, without the marks."""

    async def played(request: ls.Request, ask: Ask) -> AsyncGenerator[ls.Event]:
        for event in events:
            yield event

    model = wrap(ScriptedModel("never"), played, cache({}))
    streams = []
    for _ in range(2):
        seen = [event async for event in model.events(model.request("Hi"), errors="events")]
        streams.append(
            [e for e in seen if "cached" not in (getattr(e, "provider_metadata", 0) or {}).get(MARK, {})]
        )
    return streams


@pytest.mark.slow
async def test_recordings_are_stored_as_they_are(shared_dir: Path) -> None:
    """Every recording of a corpus: the events of a replay are those that were stored, and a valid stream."""
    count = 0
    for meta in sorted((shared_dir / "corpus").glob("*/*/meta.json")):
        facts = json.loads(meta.read_text())
        try:
            provider = find_provider(facts["dialect"])
        except ls.LLMStreamError:
            continue
        decoder = GuardedDecoder(provider.dialect.decoder(provider=provider.name), provider=provider.name)
        events = decoder.start() + decoder.feed((meta.parent / "response.bin").read_bytes()) + decoder.close()
        asked, replayed = await through_cache(events)
        stored = decode_answer(encode_answer(Answer(events))).events
        assert asked == replayed == stored == events, meta.parent.name
        assert check(replayed) == []
        assert replayed[-1].usage == events[-1].usage  # type: ignore[union-attr]
        count += 1
    assert count > 500


async def test_pace_on_the_real_clock() -> None:
    """No event of a response over HTTP comes earlier than it did, and all come in their order."""
    kept = dict[str, bytes]()
    pace = Pace(first_s=0.05, delta_s=0.02)
    async with Simulator(Script((Turn(text="one two three four", pace=pace),))) as simulator:
        model = wrap(ls.Model("sim-anthropic:m", base_url=simulator.url), cache(kept, times="original"))
        first = await arrivals(model)
        (stored,) = [decode_answer(data) for data in kept.values()]
        due = [at for at, events in stored.batches for _ in events]
        words = sum(isinstance(event, ls.TextDelta) for _, event in first)
        assert words > 1
        assert nanoseconds(due[-1]) >= nanoseconds(pace.first_s + pace.delta_s * (words - 1))
        again = [(when, event) for when, event in await arrivals(model) if not is_mark(event)]
        assert len(simulator.requests) == 1
    assert [event for _, event in again] == [event for _, event in first]
    pairs = [(nanoseconds(at), nanoseconds(when)) for at, (when, _) in zip(due, again, strict=True)]
    assert [(at, when) for at, when in pairs if when < at] == []


def is_mark(event: ls.Event) -> bool:
    """Whether it says that the answer was stored."""
    return isinstance(event, ls.ResponseMetadata) and MARK in (event.provider_metadata or {})


async def arrivals(model: ls.Model) -> list[tuple[float, ls.Event]]:
    """Each event, with its seconds since the request."""
    clock = asyncio.get_running_loop().time
    began = clock()
    return [(clock() - began, event) async for event in model.events(model.request("Hi"))]
