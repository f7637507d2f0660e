"""Models to wrap, and what a reader saw of one."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.grammar import check


@dataclasses.dataclass
class Seen:
    """A stream as its reader saw it."""

    events: list[ls.Event]
    error: ls.LLMStreamError | None
    stream: ls.EventStream

    @property
    def text(self) -> str:
        return self.stream.text

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


class Reader:
    async def __call__(self, model: ls.Model, prompt: str = "Hi", **options: Any) -> Seen:
        """Reads a stream to its end, and checks that it is a sentence."""
        events: list[ls.Event] = []
        error = None
        async with model.stream(prompt, **options) as stream:
            try:
                async for event in stream:
                    events.append(event)
            except ls.LLMStreamError as caught:
                error = caught
        assert check(events) == []
        assert (error is not None) == any(isinstance(event, ls.ErrorEvent) for event in events)
        return Seen(events, error, stream)


@pytest.fixture
def read() -> Reader:
    return Reader()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A redis-server of this session's own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    folder = tempfile.mkdtemp(prefix="redis")
    path = f"{folder}/redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not _answers(path):
        assert time.monotonic() < until
        time.sleep(0.01)
    yield f"unix://{path}"
    server.kill()
    server.wait()
    shutil.rmtree(folder)


def _answers(path: str, command: bytes = b"PING\r\n") -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(command)
        return client.recv(64).startswith(b"+")
    return False


def _store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if kind == "memory":
        return {}
    if kind == "folder":
        return tmp_path / "answers"
    if kind == "sqlite":
        return f"sqlite:{tmp_path / 'answers.db'}"
    url: str = request.getfixturevalue("redis_url")
    assert _answers(url.removeprefix("unix://"), b"FLUSHALL\r\n")
    return url


@pytest.fixture(params=["memory", "folder", "sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty place for answers."""
    return _store(request.param, request, tmp_path)


@pytest.fixture(params=["folder", "sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty place for answers that processes share."""
    return _store(request.param, request, tmp_path)
