"""Answers that were given before, and only those that were whole."""

from __future__ import annotations

import asyncio
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.grammar import check
from llmstream.middleware import cache, wrap
from llmstream.middleware.cache_key import cache_key
from llmstream.simulator import Call, Turn
from llmstream.testing import Cut, Refuse, ScriptedModel, no_leaks

KEY = "sk-canary-0123456789"


def unmarked(events: list[ls.Event]) -> list[ls.Event]:
    mark = {"llmstream": {"cached": True}}
    return [e for e in events if getattr(e, "provider_metadata", None) != mark]


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


@pytest.fixture(params=["memory", "folder"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return {} if request.param == "memory" else tmp_path / "answers"


async def test_the_same_request_is_answered_without_asking(kept: Any, read: Any) -> None:
    inner = ScriptedModel(Turn(reasoning="Hm.", text="Hello you", calls=(Call("f", {"a": 1}),)), "Another.")
    model = wrap(inner, cache(kept))
    first, again = await read(model), await read(model)
    assert len(inner.requests) == 1
    assert unmarked(again.events) == first.events == unmarked(first.events)
    assert len(again.events) == len(first.events) + 1
    assert again.stream.usage == first.stream.usage
    assert again.stream.message == first.stream.message


async def test_another_request_is_asked(kept: Any, read: Any) -> None:
    inner = ScriptedModel("One.", "Two.", "Three.")
    model = wrap(inner, cache(kept))
    texts = [
        (await read(model, *given[:1], **given[1])).text
        for given in (("a", {}), ("b", {}), ("a", {"seed": 1}))
    ]
    assert texts == ["One.", "Two.", "Three."]


@pytest.mark.parametrize(
    "turn",
    [
        Turn(text="one two three", fault=Cut(after_events=3)),
        Turn(text="one two three", fault=Cut(after_events=3, clean=True)),
        Turn(fault=Refuse(status=503)),
        Turn(text="one", finish_reason="length"),
        Turn(text="one", finish_reason="content-filter"),
        Turn(
            events=(
                ls.TextStart("0"),
                ls.TextDelta("a", "0"),
                ls.TextEnd("0"),
                ls.Error(ls.ErrorInfo("decode-error", "a defect", False)),
                ls.Finish("stop"),
            )
        ),
    ],
)
async def test_what_is_not_whole_is_not_kept(turn: Turn, kept: Any, read: Any) -> None:
    inner = ScriptedModel(turn, "Whole.")
    model = wrap(inner, cache(kept))
    first = await read(model)
    assert first.events == (await read(ScriptedModel(turn))).events
    assert (await read(model)).text == "Whole."


async def test_what_is_left_is_not_kept(kept: Any, read: Any) -> None:
    model = wrap(ScriptedModel("one two", "Whole."), cache(kept))
    async with no_leaks(), model.stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                break
    assert (await read(model)).text == "Whole."


async def test_a_replay_may_be_left_too(kept: Any, read: Any) -> None:
    model = wrap(ScriptedModel("one two"), cache(kept))
    await read(model)
    async with no_leaks(), model.stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                break
    assert stream.text == "one"


async def test_files_are_their_owners_alone_and_hold_no_key(tmp_path: Path, read: Any) -> None:
    folder = tmp_path / "a" / "b"
    inner = ScriptedModel("Hello")
    inner._api_key = KEY
    await read(wrap(inner, cache(folder)), headers={"x-api-key": KEY, "x-team": "blue"})
    file = only_file(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    assert KEY not in file.read_text()
    assert file.read_text().splitlines()[0] == '{"format":"llmstream.cache","version":1}'
    assert file.name.endswith(".jsonl")


@pytest.mark.parametrize("damage", [b"", b"nonsense", None, b'{"format":"llmstream.cache","version":1}\n'])
async def test_a_damaged_file_is_asked_for_again_and_mended(
    damage: bytes | None, tmp_path: Path, read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = wrap(ScriptedModel("One.", "Two."), cache(tmp_path))
    await read(model)
    file = only_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-40] if damage is None else damage)
    with caplog.at_level(logging.WARNING, "llmstream"):
        assert (await read(model)).text == "Two."
    assert "cannot be read" in caplog.text
    assert (await read(model)).text == "Two."


async def test_a_folder_that_cannot_be_written_is_no_failure_of_the_answer(
    tmp_path: Path, read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    model = wrap(ScriptedModel("One."), cache(tmp_path / "file"))
    assert (await read(model)).text == "One."
    assert "cannot be kept" in caplog.text


async def test_side_by_side_each_asks_and_one_answer_is_kept(kept: Any) -> None:
    inner = ScriptedModel("One.", repeat_last=True)
    everybody = asyncio.Barrier(5)

    async def together(request: Any, ask: Any) -> Any:
        await everybody.wait()  # no answer is kept before each has looked for one
        async for event in ask(request):
            yield event

    model = wrap(inner, together, cache(kept))
    await asyncio.gather(*[model.stream("Hi").collect() for _ in range(5)])
    assert len(inner.requests) == 5
    await model.stream("Hi").collect()
    assert len(inner.requests) == 5


async def test_an_agent_runs_again_without_asking(kept: Any) -> None:
    @ls.tool
    def add(a: int) -> int:
        """Add."""
        return a + 1

    inner = ScriptedModel(Turn(calls=(Call("add", {"a": 1}),)), "Two.")
    agent = ls.Agent(wrap(inner, cache(kept)), tools=[add])
    runs = []
    for _ in range(2):
        async with agent.stream("1 + 1?") as run:
            assert check([event async for event in run]) == []
        runs.append(run)
    assert len(inner.requests) == 2
    assert runs[0].messages() == runs[1].messages()


def test_keys_and_their_headers_do_not_count_and_everything_else_does() -> None:
    model = ls.Model("openai:m", api_key="one-key", base_url="https://a.example/v1")
    request = model.request("Hi", headers={"Authorization": "Bearer x", "X-Team": "blue"})
    same = ls.Model("openai:m", api_key="other-key", base_url="https://a.example/v1")
    assert cache_key(same, same.request("Hi", headers={"authorization": "y", "x-team": "blue"})) == cache_key(
        model, request
    )
    others = [
        (ls.Model("groq:m", api_key="one-key", base_url="https://a.example/v1"), request),
        (ls.Model("openai:m", api_key="one-key", base_url="https://b.example/v1"), request),
        (model, model.request("Hi", headers={"X-Team": "red"})),
        (model, model.request("Ho", headers={"X-Team": "blue"})),
        (model, model.request("Hi", headers={"X-Team": "blue"}, temperature=0.1)),
        (model, model.request("Hi", headers={"X-Team": "blue"}, tools=[ls.ToolSpec("f")])),
        (model, model.request("Hi", headers={"X-Team": "blue"}, include_raw=True)),
        (model, model.request("Hi", headers={"X-Team": "blue"}, provider_options={"openai": {"a": 1}})),
        (model, model.request(ls.Message.user("Hi").with_meta("k", 1), headers={"X-Team": "blue"})),
    ]
    keys = {cache_key(*one) for one in [(model, request), *others]}
    assert len(keys) == 1 + len(others)


def test_the_order_of_keys_does_not_count() -> None:
    model = ls.Model("openai:m", api_key="one-key")
    one, other = ({"openai": {"a": 1, "b": 2}}, {"openai": {"b": 2, "a": 1}})
    assert cache_key(model, model.request("Hi", provider_options=one)) == cache_key(
        model, model.request("Hi", provider_options=other)
    )


async def test_what_json_cannot_hold_is_asked_and_not_kept(read: Any) -> None:
    inner, kept = ScriptedModel("One."), dict[str, bytes]()
    message = ls.Message.user("Hi").with_meta("k", object())
    async with wrap(inner, cache(kept)).stream([message]) as stream:
        await stream.collect()
    assert (stream.text, kept) == ("One.", {})
