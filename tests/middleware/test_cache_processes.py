"""Processes that share a cache: one asks, others read; some are killed. `LLMSTREAM_KILLS=50` kills more."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.events import RetryNotice
from llmstream.grammar import check
from llmstream.middleware import cache, wrap
from llmstream.middleware.caching.form import decode_answer
from llmstream.testing import ScriptedModel

ASKER = Path(__file__).with_name("asker.py")
WAIT_S = 120

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="kill -9")]


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts askers; those that are left are killed."""
    processes = list[subprocess.Popen[bytes]]()

    def started(kept: Any, mode: str) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, str(ASKER), str(kept), mode]
        environment = {**os.environ, "PYTHONPATH": str(Path(ls.__file__).parents[1])}
        processes.append(subprocess.Popen(command, env=environment, **pipes))
        return processes[-1]

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def texts(events: list[ls.Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ls.TextDelta))


async def line_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        return await asyncio.to_thread(process.stdout.readline)


async def test_one_asks_and_another_reads(tmp_path: Path, start: Any) -> None:
    """The other sees the first word while the process that asked waits."""
    await asked_and_read(tmp_path, start, killed=False)


async def test_if_one_dies_another_asks(shared: Any, start: Any) -> None:
    await asked_and_read(shared, start, killed=True)


async def asked_and_read(shared: Any, start: Any, *, killed: bool) -> None:
    asker = start(shared, "live")
    assert await line_of(asker) == b"halted\n"
    inner, seen = ScriptedModel("four five"), list[ls.Event]()
    async with asyncio.timeout(WAIT_S), wrap(inner, cache(shared)).stream("Hi") as stream:
        async for event in stream:
            seen.append(event)
            if texts(seen) == "one" and isinstance(event, ls.TextDelta):
                if killed:
                    asker.send_signal(signal.SIGKILL)
                else:
                    asker.stdin.write(b"\n")
                    asker.stdin.flush()
    assert check(seen) == []
    retries = [at for at, event in enumerate(seen) if isinstance(event, RetryNotice)]
    assert len(retries) == len(inner.requests) == killed
    assert texts(seen[retries[0] :] if killed else seen) == ("four five" if killed else "one two three")
    assert stream.text == ("four five" if killed else "one two three")


def stored(kept: Any) -> Iterator[bytes]:
    """All answers, past the cache."""
    if isinstance(kept, Path):
        yield from [file.read_bytes() for file in kept.glob("*.jsonl")]
        return
    with sqlite3.connect(kept.removeprefix("sqlite:")) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        rows = connection.execute("select data, size from answers").fetchall()
        (total,) = connection.execute("select bytes from total").fetchone()
    connection.close()
    assert total == sum(size for _, size in rows) == sum(len(data) for data, _ in rows)
    yield from [zlib.decompress(data) for data, _ in rows]


@pytest.mark.parametrize("where", ["folder", "sqlite"])
async def test_killed_writers_leave_whole_answers(where: str, tmp_path: Path, start: Any) -> None:
    """Two processes store over one another, and are killed while they do."""
    kept = tmp_path / "answers" if where == "folder" else f"sqlite:{tmp_path / 'answers.db'}"
    for _ in range(int(os.environ.get("LLMSTREAM_KILLS", "1"))):
        askers = [start(kept, "store") for _ in range(2)]
        for asker in askers:
            await line_of(asker)
        await asyncio.sleep(random.uniform(0, 0.3))  # where in its work it is killed
        for asker in askers:
            asker.send_signal(signal.SIGKILL)
            asker.wait()
        answers = [decode_answer(data) for data in stored(kept)]
        assert answers
        assert all(texts(answer.events) == "word " * 5_000 for answer in answers)
    inner = ScriptedModel("never")
    text = (await wrap(inner, cache(kept, max_bytes=2_000_000)).stream("Hi 0").collect()).text
    assert (text, inner.requests) in [("word " * 5_000, []), ("never", inner.requests)]
