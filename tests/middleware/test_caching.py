"""Answers that were given before, and only those that were whole."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.grammar import check
from llmstream.middleware import cache, wrap
from llmstream.middleware.caching import cache_key
from llmstream.middleware.caching.stores import as_store
from llmstream.simulator import Call, Turn
from llmstream.testing import Cut, Refuse, ScriptedModel, no_leaks

KEY = "sk-canary-0123456789"


def unmarked(events: list[ls.Event]) -> list[ls.Event]:
    return [event for event in events if not is_mark(event)]


def is_mark(event: ls.Event) -> bool:
    metadata = event.provider_metadata if isinstance(event, ls.ResponseMetadata) else None
    return "cached" in (metadata or {}).get("llmstream", {})


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


async def test_same_request_is_served_from_cache(kept: Any, read: Any) -> None:
    inner = ScriptedModel(Turn(reasoning="Hm.", text="Hello you", calls=(Call("f", {"a": 1}),)), "Another.")
    model = wrap(inner, cache(kept))
    first, again = await read(model), await read(model)
    assert len(inner.requests) == 1
    assert unmarked(again.events) == first.events == unmarked(first.events)
    assert len(again.events) == len(first.events) + 1
    assert again.stream.usage == first.stream.usage
    assert again.stream.message == first.stream.message


async def test_a_dropped_cache_in_redis_leaves_no_open_connection(redis_url: str, read: Any) -> None:
    """The garbage collector reports an unclosed connection as a ResourceWarning."""
    await read(wrap(ScriptedModel("Hello."), cache(redis_url)))
    gc.collect()


def test_a_cache_in_redis_shows_no_password() -> None:
    store = as_store(f"redis://user:{KEY}@cache.example:6380/0")
    assert "cache.example:6380" in repr(vars(store))
    assert KEY not in repr(vars(store))


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
                ls.ErrorEvent(ls.ErrorInfo("decode-error", "a defect", False)),
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
    # The connection to a database lives as long as its cache.
    async with nullcontext() if isinstance(kept, str) else no_leaks(), model.stream("Hi") as stream:
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


async def test_files_are_private_and_hold_no_key(tmp_path: Path, read: Any) -> None:
    folder = tmp_path / "a" / "b"
    inner = ScriptedModel("Hello")
    inner._api_key = KEY
    await read(wrap(inner, cache(folder)), headers={"x-api-key": KEY, "x-team": "blue"})
    file = only_file(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    assert KEY not in file.read_text()
    assert file.read_text().startswith('{"format":"llmstream.cache","version":2,"stored":')
    assert file.name.endswith(".jsonl")


@pytest.mark.parametrize("damage", [b"", b"nonsense", None, b'{"format":"llmstream.cache","version":1}\n'])
async def test_damaged_file_is_replaced(
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


async def test_unwritable_folder_fails_no_response(
    tmp_path: Path, read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    model = wrap(ScriptedModel("One."), cache(tmp_path / "file"))
    assert (await read(model)).text == "One."
    assert "cannot be stored" in caplog.text


async def test_parallel_requests_store_one(kept: Any) -> None:
    inner = ScriptedModel("One.", repeat_last=True)
    everybody = asyncio.Barrier(5)

    async def together(request: Any, ask: Any) -> Any:
        await everybody.wait()  # no answer is kept before each has looked for one
        async for event in ask(request):
            yield event

    model = wrap(inner, together, cache(kept, single=False))
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


def test_response_or_tenant_changes_the_key() -> None:
    """All that changes the response or the tenant is in the cache key."""
    model = ls.Model("openai:m", api_key="one-key", base_url="https://a.example/v1")
    request = model.request("Hi", headers={"X-Team": "blue"})
    same = ls.Model("openai:m", api_key="one-key", base_url="https://a.example/v1")
    assert cache_key(same, same.request("Hi", headers={"x-team": "blue"})) == cache_key(model, request)
    whose = {"api_key": "one-key", "base_url": "https://a.example/v1"}
    others = [
        (ls.Model("openai:m", **{**whose, "api_key": "other-key"}), request),
        (ls.Model("openai:m", **whose, headers={"x-tenant": "b"}), request),
        *[
            (model, model.request("Hi", headers={"X-Team": "blue", name: "other"}))
            for name in ("cookie", "authorization", "x-author", "x-max-tokens", "x-user-token", "x-api-key")
        ],
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


async def test_unencodable_request_is_not_cached(read: Any) -> None:
    inner, kept = ScriptedModel("One."), dict[str, bytes]()
    message = ls.Message.user("Hi").with_meta("k", object())
    async with wrap(inner, cache(kept)).stream([message]) as stream:
        await stream.collect()
    assert (stream.text, kept) == ("One.", {})


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("openai:m", "OPENAI_ORG_ID"),
        ("openai:m", "OPENAI_BASE_URL"),
        ("bedrock:m", "AWS_REGION"),
        ("bedrock:m", "AWS_ACCESS_KEY_ID"),
        ("bedrock:m", "AWS_PROFILE"),
        ("vertex:gemini-2.5-flash", "GOOGLE_CLOUD_PROJECT"),
        ("vertex:gemini-2.5-flash", "GOOGLE_CLOUD_LOCATION"),
    ],
)
def test_account_environment_changes_the_key(
    spec: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ls.Model(spec)
    request = model.request("Hi")
    known = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-east5"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    keys = set()
    for value in (
        ("https://one.example", "https://two.example") if "URL" in variable else ("one-a1", "two-b2")
    ):
        monkeypatch.setenv(variable, value)
        keys.add(cache_key(model, request))
    assert len(keys) == 2


def test_key_from_a_function_does_not_count() -> None:
    keys = iter("abc")
    model = ls.Model("openai:m", api_key=lambda: next(keys))
    assert cache_key(model, model.request("Hi")) == cache_key(model, model.request("Hi"))


class Raising(dict[str, bytes]):
    """A caller's mapping that is out of order."""

    def get(self, *_: object) -> bytes:  # type: ignore[override]
        raise RuntimeError("no connection")

    def __setitem__(self, *_: object) -> None:
        raise KeyError("read only")


@pytest.mark.parametrize("held", [None, "text", 5, Raising()])
async def test_unordered_mapping_fails_no_response(
    held: Any, read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = held if isinstance(held, Raising) else type("Holding", (dict,), {"get": lambda *_: held})()
    assert (await read(wrap(ScriptedModel("One."), cache(store)))).text == "One."
    assert held is None or "cannot be read" in caplog.text


async def test_pipe_as_cache_file_blocks_nobody(tmp_path: Path, read: Any) -> None:
    model = wrap(ScriptedModel("One.", "Two."), cache(tmp_path))
    await read(model)
    file = only_file(tmp_path)
    file.unlink()
    os.mkfifo(file)
    assert (await read(model)).text == "Two."
