"""Both databases do what `llmstream.durable.conformance` asks, and a recorded response is the response."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.agent.recorded_model import Head, joined, read_response, write_response
from llmstream.agent.state import Expense
from llmstream.durable.conformance import STEPS_CHECKS, STORE_CHECKS, StepsCheck, StoreCheck
from llmstream.durable.runs import _store
from llmstream.durable.sqlite import SQLiteRunStore
from llmstream.durable.store import RunStore
from llmstream.durable.store_steps import StoreSteps
from llmstream.durable.tables import cost_of, usage_of, usage_row
from llmstream.errors import DecodeError, LogUnavailable, Lost
from llmstream.events import Raw, RetryNotice
from llmstream.usage import Usage
from tests.durable.opening import opener


@pytest.fixture
async def store(place: str) -> AsyncIterator[RunStore]:
    found = _store(place)
    await found.open()
    yield found
    await found.aclose()


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_store_passes_every_check(check: StoreCheck, store: RunStore) -> None:
    await check(store)


@pytest.mark.parametrize("check", STEPS_CHECKS, ids=lambda check: check.__name__)
async def test_steps_pass_every_check(check: StepsCheck, store: RunStore) -> None:
    await check(opener(store))


async def test_nothing_is_recorded_once_lost(store: RunStore) -> None:
    """A step that ends after its run was lost here, though no other process has taken the run over."""

    async def lose() -> bytes:
        steps.lose()
        return b"a failure that comes of it"

    await store.create("run", "clerk", "{}")
    await store.claim("run", "process", 600)
    steps = StoreSteps(store, "run", 1, {})
    with pytest.raises(Lost):
        await steps.step("0/call/a", lose, again=True)
    assert await store.look("run", "0/call/a") is None


async def test_file_is_readable_by_its_owner(tmp_path: Path) -> None:
    store = SQLiteRunStore(tmp_path / "runs.db")
    await store.open()
    await store.aclose()
    assert stat.S_IMODE((tmp_path / "runs.db").stat().st_mode) == 0o600


async def test_newer_tables_are_refused(tmp_path: Path) -> None:
    store = SQLiteRunStore(tmp_path / "runs.db")
    await store.open()
    await store.aclose()
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("update durable_version set version = 99")
    connection.close()
    with pytest.raises(LogUnavailable, match="newer"):
        await store.open()


def test_deltas_of_a_block_are_joined() -> None:
    found = joined(
        [
            ls.StreamStart(),
            ls.TextStart("a"),
            ls.TextDelta("void", "a"),
            RetryNotice("overloaded", 0, 1, 0.0),
            ls.TextStart("b"),
            ls.TextDelta("Hel", "b"),
            Raw({"x": 1}),
            ls.TextDelta("lo", "b"),
            ls.TextEnd("b"),
            ls.Finish("stop"),
        ]
    )
    text = [ls.TextStart("b"), ls.TextDelta("Hello", "b"), ls.TextEnd("b")]
    assert found == [ls.StreamStart(), *text, ls.Finish("stop")]
    data = write_response(Head(request="d", model="m:n"), found)
    assert read_response(data) == (Head(request="d", model="m:n"), found)


def test_newer_or_pickled_record_is_refused() -> None:
    with pytest.raises(DecodeError, match="newer"):
        read_response(b'{"v":99}\n')
    with pytest.raises(DecodeError, match="not a recorded"):
        read_response(b"\x80\x04\x95pickle")


def test_models_of_one_step_count_apart() -> None:
    """Context effects may ask several; a response has one."""
    spent = [
        Expense("a", Usage(1, 2), 0.5),
        Expense("b", Usage(10, 20), None),
        Expense("a", Usage(3, 4), 0.25),
    ]
    rows = [usage_row(spent), usage_row([Expense("b", Usage(100, 200), 1.0)])]
    assert usage_of(rows) == {"a": Usage(1, 2) + Usage(3, 4), "b": Usage(10, 20) + Usage(100, 200)}
    assert cost_of(rows) == 1.75
    assert usage_row([]) == ("", "")


async def test_call_named_like_a_step(store: RunStore) -> None:
    """Its record is that of a call, whatever id the vendor gives it."""
    head = b'{"request": "", "model": "m", "usage": {"inputTokens": 5}}'
    steps = await opener(store)("run")

    async def do() -> bytes:
        return head

    for key in ("0/call/model", "0/call/history", "0/call/c/1/model"):
        await steps.step(key, do, again=True)
        assert steps.unrecorded == (key == "0/call/c/1/model")
    await steps.recorded()
    assert [usage.input_tokens for usage in (await store.usage("run")).values()] == [5]
