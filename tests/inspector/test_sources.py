"""Traces that grow, recordings, cassettes, caches and event logs, as calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.grammar import check
from llmstream.middleware.caching.form import Answer, encode_answer
from llmstream.store import open_store
from llmstream.testing import cassette, record
from tests.dialects.recordings import SSE
from tests.inspector.conftest import END, calls_of, chunk

RECORDINGS = sorted(Path(__file__).parents[1].glob("dialects/*/recordings/*"))


async def test_a_trace_grows(traced: Callable[..., Any], tmp_path: Path) -> None:
    """Line by line, and half a line at a time."""
    whole = (await traced([[chunk("a"), END], [chunk("b"), END]])).read_bytes()
    path = tmp_path / "growing.jsonl"
    path.write_bytes(whole[:200])
    calls = calls_of(path)
    versions = [calls.refresh()]
    for start in range(200, len(whole), 333):
        path.write_bytes(whole[: start + 333])
        versions.append(calls.refresh())
    assert versions == sorted(versions)
    assert [call.state for call in calls.list()] == ["complete", "complete"]
    assert calls.list()[0].began_at >= calls.list()[1].began_at > 1.6e9
    assert calls.refresh() == versions[-1]


async def test_a_killed_writer_leaves_half_a_line(traced: Callable[..., Any]) -> None:
    """Another process continues the file."""
    path = await traced([[chunk("a"), END]])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"read","call":"x","n' + b"\n" + whole.replace(b'-1"', b'-2"'))
    assert len(calls_of(path)) == 2


async def test_a_recording_with_its_times(tmp_path: Path) -> None:
    async with ls.testing.Simulator() as simulator:
        model = ls.Model("deepseek:m", base_url=simulator.url + "/v1", api_key="k")
        await record(model, "Hello", tmp_path / "one")
    for place in (tmp_path / "one", tmp_path):  # the folder of the recording, and one above
        (call,) = calls_of(place).list()
        assert call.state == "complete"
        assert call.body == (tmp_path / "one" / "response.bin").read_bytes()
        assert len([read for read in call.reads if read.size]) >= 1
        assert call.summary().dialect == "openai-chat"


@pytest.mark.parametrize("path", SSE, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_recording_is_a_call(path: Path) -> None:
    """All events of each recorded body, with their frames."""
    (call,) = calls_of(path, dialect=path.parts[-3].replace("_", "-")).list()
    assert call.body == path.read_bytes()
    assert next(seen.kind for seen in call.events) == "stream-start"
    assert call.events[-1].kind == "finish"
    content = [seen for seen in call.events if seen.kind.endswith("-delta")]
    assert all(seen.frame >= 0 for seen in content)


async def test_a_cassette_has_no_bytes(tmp_path: Path) -> None:
    with cassette("c", folder=tmp_path):
        await ls.Model("sim:demo").ask("Hi")
        await ls.Model("sim:demo").ask("Ho")
    calls = calls_of(tmp_path / "c.json").list()
    assert [(call.summary().has_bytes, call.state) for call in calls] == [(False, "complete")] * 2
    assert calls[0].summary().model == "demo"


def test_an_answer_of_a_cache(tmp_path: Path) -> None:
    events = [
        ls.StreamStart(),
        ls.TextStart("0"),
        ls.TextDelta("a", "0"),
        ls.TextDelta("b", "0"),
        ls.TextEnd("0"),
        ls.Finish("stop"),
    ]
    answer = Answer(events, [(0.5, 3), (2.5, 3)], stored=1.7e9)
    (tmp_path / "k.jsonl").write_bytes(encode_answer(answer))
    (call,) = calls_of(tmp_path).list()
    summary = call.summary()
    assert (summary.duration_s, summary.first_s, summary.began_at) == (2.5, 0.5, 1.7e9)
    assert [finding.kind for finding in call.findings()] == ["silence"]


async def test_an_event_log_is_followed(tmp_path: Path) -> None:
    where = f"sqlite:{tmp_path / 'runs.db'}"
    async with ls.open_logs(where) as logs:
        await logs.start("one", ls.Agent("sim:demo").stream("Hi"))
        async for _ in logs.follow("one", wait_s=30):
            pass
        calls = calls_of(where)
        before = calls.refresh()
        await logs.start("two", ls.Agent("sim:demo").stream("Ho"))
        async for _ in logs.follow("two", wait_s=30):
            pass
        async with asyncio.timeout(30):
            while {call.state for call in calls.list()} != {"complete"} or len(calls) < 2:
                await asyncio.sleep(0.01)
                calls.refresh()
    assert calls.version > before
    assert {call.id for call in calls.list()} == {"log-one", "log-two"}


async def test_a_store_is_followed(tmp_path: Path) -> None:
    """Each request of its conversations, by the address or the file; new ones appear."""
    with open_store(f"sqlite:{tmp_path / 'chats.db'}") as store:
        chat = store.chat("trip")
        async with ls.stream("sim:demo", "Hello", chat=chat) as stream:
            await stream.collect()
        calls = calls_of(f"sqlite:{tmp_path / 'chats.db'}")
        (call,) = calls.list()
        texts = [event.delta for event in call.decoded() if isinstance(event, ls.TextDelta)]
        assert texts == [stream.text]
        summary = call.summary()
        assert (summary.state, summary.provider, summary.model, summary.has_bytes) == (
            "complete",
            "sim",
            "demo",
            False,
        )
        assert summary.output_tokens == stream.usage.output_tokens
        assert check(call.decoded()) == []
        before = calls.refresh()
        assert calls.refresh() == before
        async with ls.stream("sim:demo", "And then?", chat=chat) as stream:
            await stream.collect()
        assert calls.refresh() > before
        assert len(calls_of(tmp_path / "chats.db")) == len(calls) == 2


async def test_tool_calls_of_a_store(tmp_path: Path) -> None:
    def weather(city: str) -> str:
        """Tell the weather."""
        return "3 degrees"

    with open_store(f"sqlite:{tmp_path / 'chats.db'}") as store:
        asked = "How is the weather in Oslo?"
        async with ls.stream("sim:demo", asked, tools=[weather], chat=store.chat("trip")) as stream:
            while await stream.call_tools():
                pass
        first, second = reversed(calls_of(tmp_path / "chats.db").list())
    assert [event.tool_name for event in first.decoded() if isinstance(event, ls.ToolCall)] == ["weather"]
    assert check(first.decoded()) == check(second.decoded()) == []


def test_places_that_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Dear Sir or Madam")
    (tmp_path / "b.db").write_bytes(b"x" * 100)
    (tmp_path / "c.txt").touch()
    for place, message in {
        tmp_path / "none": "no such file",
        tmp_path / "a.txt": "its format is not known. If .* add --dialect",
        tmp_path / "c.txt": "is empty",
        f"sqlite:{tmp_path / 'b.db'}": "not an event log",
        f"sqlite:{tmp_path / 'none.db'}": "no such file",
    }.items():
        with pytest.raises(ls.InvalidRequest, match=message):
            calls_of(place)
    assert len(calls_of(tmp_path)) == 0  # in a folder they are passed over


async def test_a_folder_gets_new_files(traced: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    calls = calls_of(folder)
    assert calls.refresh() == 0
    path = await traced([[chunk("a"), END]])
    path.rename(folder / "t.jsonl")
    async with asyncio.timeout(30):
        while not calls.refresh():
            await asyncio.sleep(0.01)
    assert len(calls) == 1
