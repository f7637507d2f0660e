"""Conversations over logs in memory, the command as a process, and a browser for its page."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.web import Conversations, ConversationStore
from tests.browser import CHROMIUM

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def logs() -> AsyncIterator[ls.log.Logs]:
    async with ls.open_logs("memory:") as logs:
        yield logs


@pytest.fixture
def store() -> ConversationStore:
    return ConversationStore()


@pytest.fixture
def make(logs: ls.log.Logs, store: ConversationStore) -> Callable[..., Conversations]:
    """Makes conversations with the demo model, or with an agent."""
    return lambda agent=None, **options: Conversations(agent or ls.Agent("sim:demo"), logs, store, **options)


class Server:
    """`llmstream web` in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._env = {**os.environ, "XDG_STATE_HOME": str(folder)}
        self._env.pop("LLMSTREAM_MODEL", None)
        self._env.pop("LLMSTREAM_HISTORY", None)
        self._process: asyncio.subprocess.Process | None = None
        self._port = 0
        self.url = ""

    async def start(self) -> None:
        command = [sys.executable, "-m", "llmstream", "web", "--no-open", "--port", str(self._port)]
        self._process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=self._env, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/#token=\S+", line)
        assert found, line
        self.url, self._port = found[0], int(found[1])

    async def end(self, sent: signal.Signals = signal.SIGINT) -> int:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(sent)
        # The pipe is read to its end, so that its transport is closed with the process.
        await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path)
    await server.start()
    yield server
    await server.end(signal.SIGKILL)


@pytest.fixture
def chromium() -> str:
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    return CHROMIUM
