"""An MCP server over HTTP: one for a module, and one that a test may kill."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SERVER = Path(__file__).with_name("server.py")
_BEGINS_WITHIN_S = 60.0


@contextmanager
def _served() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, _SERVER, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            ends = time.monotonic() + _BEGINS_WITHIN_S
            while not _listens(port):
                assert process.poll() is None, "the server has ended"
                assert time.monotonic() < ends, f"the server does not listen within {_BEGINS_WITHIN_S} s"
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}/mcp", process
        finally:
            process.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def shared_server() -> Iterator[str]:
    """The address of a server for tests that leave it as it is: a process takes a second of CPU."""
    with _served() as (url, _):
        yield url


@pytest.fixture
def http_server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address and the process of a server."""
    with _served() as server:
        yield server
