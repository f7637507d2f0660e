"""Redis servers that die, hang, forget and come back: an error or the whole, never a hang."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.log import RedisStore
from tests.log.sources import answer, followed, told

LONG = 60


async def outcome(logs: ls.log.Logs, run: str) -> tuple[list[ls.Event], str]:
    """The events that a reader sees, and how its reading ends."""
    found = list[ls.Event]()
    try:
        async for seq, event in logs.follow(run, wait_s=10):
            assert seq == len(found)
            found.append(event)
    except ls.LLMStreamError as error:
        return found, error.code
    return found, "whole"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--appendonly", "yes")], ids=["without disk", "with disk"])
async def test_a_restarted_redis_is_no_hang(make_redis, options) -> None:
    """With its data on disk the run is whole; without, everybody gets an error."""
    redis = make_redis(*options)
    async with ls.open_logs(redis.url, lease_s=3) as logs, ls.open_logs(redis.url, lease_s=3) as others:
        live = await logs.start("answer", told(answer(LONG), 0.02))
        readers = [asyncio.ensure_future(outcome(each, "answer")) for each in (logs, others, others)]
        await asyncio.sleep(0.4)
        redis.kill()
        await asyncio.sleep(0.2)
        redis.start()
        async with asyncio.timeout(30):
            ends = [await reader for reader in readers]
            with contextlib.suppress(ls.LogLost):
                await live.wait()
    if options:
        assert live.state == "closed"
        assert ends == [(answer(LONG), "whole")] * 3
    else:
        assert isinstance(live.error, ls.LogLost)
        assert {end for _, end in ends} == {"log-lost"}
        assert all(found == answer(LONG)[: len(found)] for found, _ in ends)


@pytest.mark.slow
async def test_a_lost_second_is_written_again(make_redis) -> None:
    """The frames that a crash of Redis took come again from the producer's memory, with their numbers."""
    redis = make_redis()
    async with ls.open_logs(redis.url) as logs:
        store = RedisStore(redis.url)
        await store.open()
        live = await logs.start("answer", told(answer(LONG), 0.02))
        reader = asyncio.ensure_future(outcome(logs, "answer"))
        await asyncio.sleep(0.5)
        async with store._reached() as client:  # as if the last commits had not been synced
            run, frames = store._keys("answer")
            entries = await client.xrevrange(frames, count=8)
            kept = int(entries[-1][0].split(b"-")[0]) - 1 - int(entries[-1][1][b"count"])
            async with client.pipeline(transaction=True) as change:
                rest = await client.xrange(frames, max=entries[-1][0])
                change.delete(frames)
                for name, fields in rest[:-1]:
                    change.xadd(frames, fields, id=name)
                change.hset(run, "tail", str(kept))
                await change.execute()
        await store.aclose()
        assert await live.wait() == "closed"
        assert await reader == (answer(LONG), "whole")
        assert await followed(logs, "answer") == answer(LONG)


async def test_a_hanging_redis_is_waited_for(make_redis) -> None:
    redis = make_redis()
    async with ls.open_logs(redis.url) as logs:
        live = await logs.start("answer", told(answer(LONG), 0.01))
        reader = asyncio.ensure_future(outcome(logs, "answer"))
        await asyncio.sleep(0.2)
        redis.send(signal.SIGSTOP)
        await asyncio.sleep(0.5)
        redis.send(signal.SIGCONT)
        assert await live.wait() == "closed"
        assert await reader == (answer(LONG), "whole")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_a_dead_redis_is_an_error(make_redis, how: str) -> None:
    """After the lease, for producer and readers, whether it refuses or hangs."""
    redis = make_redis()
    timeout_s = 0.3
    logs = ls.open_logs(RedisStore(redis.url, timeout_s=timeout_s), lease_s=1)
    try:
        live = await logs.start("answer", told(answer(1_000), 0.01))
        reader = asyncio.ensure_future(outcome(logs, "answer"))
        await asyncio.sleep(0.2)
        redis.kill() if how == "killed" else redis.send(signal.SIGSTOP)
        async with asyncio.timeout(20):
            with pytest.raises(ls.LogUnavailable, match=r"redis.sock cannot be used"):
                await live.wait()
            found, end = await reader
            assert end == "log-unavailable"
            assert found == answer(1_000)[: len(found)]
            with pytest.raises(ls.LogUnavailable):
                await logs.start("other", told(answer(1)))
    finally:
        async with asyncio.timeout(20):
            await logs.aclose()


async def test_no_server_is_a_clear_error(tmp_path) -> None:
    async def attempt(url: str) -> str:
        logs = ls.open_logs(url)
        with pytest.raises(ls.LogUnavailable) as refused:
            await logs.status("answer")
        await logs.aclose()
        return str(refused.value)

    message = await attempt("redis://user:secret@127.0.0.1:1/0")
    assert "Redis at 127.0.0.1:1 cannot be used" in message
    assert "secret" not in message
    assert "/no.sock cannot be used" in await attempt(f"unix://{tmp_path}/no.sock")


async def test_scripts_are_loaded_again(redis_server) -> None:
    """A server that was restarted does not know them."""
    store = RedisStore(redis_server.url)
    await store.open()
    async with store._reached() as client:
        await client.flushall()
        await client.script_flush()
    (part,) = await store.read([("answer", -1)], 10)
    assert part.status is None
    await store.aclose()


@pytest.mark.slow
async def test_an_idle_listener_stays(redis_server) -> None:
    """It is not cut off by the timeout of its connection, so it receives what comes after a silence."""
    one, other = RedisStore(redis_server.url, timeout_s=1.0), RedisStore(redis_server.url)
    await one.open()
    await other.open()
    changes: asyncio.Queue[str | None] = asyncio.Queue()
    listener = asyncio.ensure_future(one.listen(changes.put_nowait))
    assert await changes.get() is None
    await asyncio.sleep(2.5)
    await other.delete("changed")
    assert await changes.get() == "changed"  # and not None, for a new connection
    listener.cancel()
    await asyncio.wait({listener})
    await one.aclose()
    await other.aclose()


async def test_closing_at_once_ends(redis_server) -> None:
    """At any point of the opening: redis-py swallows a cancellation while it connects."""
    async with asyncio.timeout(60):
        for turns in range(60):
            async with ls.open_logs(redis_server.url):
                for _ in range(turns % 30):
                    await asyncio.sleep(0)


async def test_redis_keys_expire(redis_server) -> None:
    async with ls.open_logs(redis_server.url, keep_s=50) as logs:
        store = RedisStore(redis_server.url)
        await store.open()
        await (await logs.start("expires", told(answer(3)))).wait()
        assert grammar.check(await followed(logs, "expires")) == []
        async with store._reached() as client:
            record, frames = [await client.pttl(key) for key in store._keys("expires")]
        assert 0 < frames <= 50_000 < record <= 100_000
        await store.aclose()


async def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ls.Unsupported, match=r"pip install 'llmstream-sdk\[redis\]'"):
        await RedisStore("redis://localhost").open()
