"""Redis servers for the tests: one for the session, and ones that a test may kill."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NO_REDIS = "redis-server is not installed (apt-get install redis-server)"


class RedisServer:
    """A redis-server on a socket in a folder, that can be killed, paused and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._command = [
            "redis-server",
            *("--port", "0", "--unixsocket", str(self.socket), "--dir", str(folder), "--save", ""),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1_000):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                if client.recv(64).startswith(b"+PONG"):
                    return
            time.sleep(0.01)
        raise AssertionError("redis-server does not start")

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path is short enough for a Unix socket."""
    folder = Path(tempfile.mkdtemp(prefix="log"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip(NO_REDIS)
    folder = Path(tempfile.mkdtemp(prefix="redis"))
    server = RedisServer(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder)


@pytest.fixture
def make_redis(short_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Starts servers that a test may kill."""
    if shutil.which("redis-server") is None:
        pytest.skip(NO_REDIS)
    servers = list[RedisServer]()

    def make(*options: str) -> RedisServer:
        servers.append(RedisServer(short_path, *options))
        servers[-1].start()
        return servers[-1]

    yield make
    for server in servers:
        server.kill()


def flushed(server: RedisServer) -> str:
    """The address of the server, which is empty now."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(os.fspath(server.socket))
        client.sendall(b"FLUSHALL\r\n")
        assert client.recv(64) == b"+OK\r\n"
    return server.url
