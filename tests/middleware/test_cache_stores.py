"""Where answers are stored: age, size, order of use, damage, and how long a look-up takes."""

from __future__ import annotations

import os
import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.middleware import cache, wrap
from llmstream.middleware.caching.stores import CacheStore, SharedStore, as_store
from llmstream.testing import ScriptedModel

ANSWERS = int(os.environ.get("LLMSTREAM_ANSWERS", "1000"))
"""How many answers a full store has."""


def key(number: int) -> str:
    return f"{number:064x}"


async def held(store: CacheStore, count: int) -> list[int]:
    return [number for number in range(count) if await store.get(key(number)) is not None]


async def test_least_recently_used_goes_first(kept: Any) -> None:
    store = as_store(kept, max_bytes=3_000)
    for number in range(3):
        await store.put(key(number), os.urandom(900))  # nothing to compress
    assert await store.get(key(0)) is not None
    await store.put(key(3), os.urandom(900))
    assert await held(store, 4) == [0, 2, 3]
    await store.put(key(4), os.urandom(1_800))
    assert await held(store, 5) == [3, 4]


async def test_replaced_answers_count_once(kept: Any) -> None:
    store = as_store(kept, max_bytes=3_000)
    await store.put(key(0), os.urandom(900))
    for _ in range(20):
        await store.put(key(1), os.urandom(900))
    assert await held(store, 2) == [0, 1]


async def test_too_large_an_answer_is_not_kept(kept: Any, read: Any) -> None:
    long = os.urandom(1_000).hex()  # compressed, it takes half of its 2,000 bytes
    model = wrap(ScriptedModel(long, "two"), cache(kept, max_bytes=1_000))
    texts = [(await read(model)).text for _ in range(2)]
    assert texts == [long, "two"]


async def test_other_processes_answers_count(shared: Any) -> None:
    """Two stores over one place stay within the limit, but for what one stores between two looks."""
    stores = [as_store(shared, max_bytes=20_000) for _ in range(2)]
    for number in range(100):
        await stores[number % 2].put(key(number), os.urandom(900))
    left = await held(stores[0], 100)
    assert max(left) == 99
    assert len(left) * 900 <= 20_000 + 2 * 20_000 / 8


async def test_an_old_answer_is_asked_anew(kept: Any, read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = wrap(ScriptedModel("one", "two"), cache(kept, ttl_s=60))
    now = time.time()
    assert [(await read(model)).text for _ in range(2)] == ["one", "one"]
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert [(await read(model)).text for _ in range(2)] == ["two", "two"]


async def test_expired_answers_are_removed(tmp_path: Path) -> None:
    for kept in (tmp_path / "answers", f"sqlite:{tmp_path / 'answers.db'}"):
        store = as_store(kept)
        await store.put(key(0), b"old")
    os.utime(tmp_path / "answers" / f"{key(0)}.jsonl", (1, 1))
    with sqlite3.connect(tmp_path / "answers.db") as connection:
        connection.execute("update answers set stored = 1")
    connection.close()
    for kept in (tmp_path / "answers", f"sqlite:{tmp_path / 'answers.db'}"):
        store = as_store(kept, ttl_s=60)
        await store.put(key(1), b"new")
        assert await held(store, 2) == [1]


async def test_sqlite_file_is_private(tmp_path: Path, read: Any) -> None:
    await read(wrap(ScriptedModel("one"), cache(f"sqlite:{tmp_path / 'answers.db'}")))
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in os.scandir(tmp_path)}
    assert set(modes.values()) == {0o600}
    assert "answers.db" in modes


async def test_no_database_fails_no_response(
    tmp_path: Path, read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text.db").write_text("this is no database, but long enough to be taken for one" * 20)
    for kept in (
        f"sqlite:{tmp_path / 'text.db'}",
        f"sqlite:{tmp_path / 'missing' / 'a.db'}",
        f"unix://{tmp_path}/no.sock",
    ):
        caplog.clear()
        assert (await read(wrap(ScriptedModel("One."), cache(kept)))).text == "One."
        assert "cannot be read" in caplog.text
        assert "cannot be stored" in caplog.text


@pytest.mark.parametrize("kept", ["sqlite:", "sqlite://a.db", "postgres://host/db", "http://host"])
def test_unknown_addresses_are_refused(kept: str) -> None:
    with pytest.raises(ls.InvalidRequest, match=r"sqlite:cache\.db"):
        cache(kept)


@pytest.mark.parametrize("given", [{"ttl_s": 0}, {"max_bytes": -1}, {"times": "slow"}, {"times": 0}])
def test_invalid_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ls.InvalidRequest, match=next(iter(given))):
        cache({}, **given)


async def test_a_claim_has_one_owner(shared: Any) -> None:
    first, second = as_store(shared), as_store(shared)
    assert isinstance(first, SharedStore)
    assert isinstance(second, SharedStore)
    assert await first.claim(key(0), "a")
    assert not await second.claim(key(0), "b")
    assert await second.claim(key(1), "b")
    assert await first.publish(key(0), "a", [b"1", b"2"])
    seen = await second.watch(key(0), 0)
    assert seen is not None
    assert seen.lines == [b"1", b"2"]
    assert await first.publish(key(0), "a", [b"3"])
    later = await second.watch(key(0), seen.place)
    assert later is not None
    assert (later.owner, later.lines) == (seen.owner, [b"3"])
    assert not await second.publish(key(0), "b", [b"no"])
    await second.release(key(0), "b")
    assert await second.watch(key(0), 0) is not None
    await first.release(key(0), "a")
    assert await second.watch(key(0), 0) is None
    assert await second.claim(key(0), "b")
    await second.release(key(0), "b")
    await second.release(key(1), "b")


@pytest.mark.slow
async def test_a_full_store_stays_quick(kept: Any, record_property: Any) -> None:
    """Times are reported, not judged: `LLMSTREAM_ANSWERS=100000 pytest -m slow -rP` shows them."""
    answer = os.urandom(2_000) + b"word " * 900
    if isinstance(kept, Path):  # two waits for the disk for each answer would take minutes
        kept.mkdir()
        for number in range(ANSWERS):
            (kept / f"{key(number)}.jsonl").write_bytes(answer)
    store = as_store(kept, max_bytes=ANSWERS * len(answer))
    for number in () if isinstance(kept, Path) else range(ANSWERS):
        await store.put(key(number), answer)
    puts, gets = list[float](), list[float]()
    for number in range(ANSWERS, ANSWERS + 100):
        began = time.perf_counter()
        await store.put(key(number), answer)
        puts.append(time.perf_counter() - began)
    for number in range(ANSWERS - 500, ANSWERS):
        began = time.perf_counter()
        assert await store.get(key(number)) == answer
        gets.append(time.perf_counter() - began)
    times = {"get p50": statistics.median(gets), "put p50": statistics.median(puts), "put max": max(puts)}
    shown = ", ".join(f"{name} {took * 1e6:.0f} us" for name, took in times.items())
    record_property("times", shown)
    print(f"{type(store).__name__}: {ANSWERS} answers: {shown}")
