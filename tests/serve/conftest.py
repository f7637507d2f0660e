"""Web servers as processes of their own, in front of the simulator, and a client that can misbehave."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llmstream.simulator import Cut, Pace, Refuse, Simulator, Stall, Turn
from llmstream.simulator.recording import Received
from llmstream.testing import in_thread

LAUNCH = Path(__file__).parent / "servers" / "launch.py"
WITHIN_S = 30.0
_prompts = count()


class Vendor:
    """The simulator, and what became of each prompt."""

    def __init__(self, simulator: Simulator) -> None:
        self.url = simulator.url
        self._simulator = simulator

    def request(self, prompt: str) -> Received | None:
        for received in self._simulator.requests:
            if received.request is not None and received.request.messages[-1].text == prompt:
                return received
        return None

    def count(self, prompt: str) -> int:
        requests = [received.request for received in self._simulator.requests]
        return sum(request is not None and request.messages[-1].text == prompt for request in requests)

    def was_left(self, prompt: str) -> bool:
        received = self.request(prompt)
        return received is not None and received.disconnected


class Connection:
    """A client's connection, byte by byte."""

    def __init__(self, port: int, path: str, *, window: int = 0) -> None:
        self.socket = socket.socket()
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.settimeout(WITHIN_S)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        self.data = b""

    def read_until(self, text: bytes) -> bytes:
        while text not in self.data:
            more = self.socket.recv(65536)
            assert more, f"the server closed the connection after {self.data!r}"
            self.data += more
        return self.data

    def read_to_end(self) -> bytes:
        """All that comes until the connection ends, in whatever way."""
        with suppress(ConnectionError):
            while more := self.socket.recv(65536):
                self.data += more
        return self.data

    def close(self) -> None:
        self.socket.close()


class Reply(NamedTuple):
    """A response that has been read to its end."""

    status: int
    headers: http.client.HTTPMessage
    data: bytes
    is_cut: bool  # the connection ended before the body


class Server:
    """A running web server."""

    def __init__(self, name: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.port, self.process, self.log = name, port, process, log

    def get(self, path: str, method: str = "GET") -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            try:
                data, is_cut = response.read(), False
            except (http.client.IncompleteRead, ConnectionError):
                data, is_cut = b"", True
            finally:
                response.close()
            return Reply(response.status, response.headers, data, is_cut)
        finally:
            connection.close()

    def listens(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def connect(self, path: str, **options: int) -> Connection:
        return Connection(self.port, path, **options)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/state").data)
        return found


@pytest.fixture(name="until")
def _until() -> Callable[[Callable[[], object], str], None]:
    """`until(condition, what)`."""
    return until


def until(condition: Callable[[], object], what: str) -> None:
    """Waits for something that a working server does at once."""
    ends = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < ends, f"not within {WITHIN_S:g} s: {what}"
        time.sleep(0.005)


@pytest.fixture
def prompt() -> Callable[[str], str]:
    """`prompt("silent")`: a prompt for which the simulator does this; no other test has the same."""
    return lambda kind: f"{kind}-{next(_prompts)}"


def _turn(request: Any) -> Turn:
    kind = request.messages[-1].text.partition("-")[0]
    if kind == "refused":
        return Turn(fault=Refuse(status=429, retry_after_s=7, message="at 10.0.0.7"))
    if kind == "silent":
        return Turn(text="Once upon a time.", fault=Stall(after_events=4))
    if kind == "odd":
        return Turn(text="A line\u2028separator, \U0001f600 and\n\ntwo newlines. " * 20)
    if kind == "slow":
        text = " ".join(f"word{number}" for number in range(30))
        return Turn(text=text, pace=Pace(delta_s=0.02), fault=Stall(after_events=25))
    if kind == "mute":
        return Turn(text="Once upon a time.", fault=Stall())
    if kind == "broken":
        return Turn(text="Once upon a time.", fault=Cut(after_events=4))
    if kind == "pause":
        return Turn(text="Once upon a time.", fault=Stall(after_events=4, stall_s=4.0))
    return Turn(text="Once upon a time there was a stream. " * 50)


@pytest.fixture(scope="session")
def vendor() -> Iterator[Vendor]:
    with in_thread(Simulator(_turn)) as simulator:
        yield Vendor(simulator)


@pytest.fixture(scope="session")
def started(vendor: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """`started("uvicorn-h11")`: this server; each is started once."""
    servers: dict[str, Server] = {}

    def start(name: str) -> Server:
        for package in name.split("-"):
            if package != "gthread" and find_spec(package) is None:
                pytest.skip(f"{package} is not installed (extra: test)")
        if name not in servers:
            servers[name] = launched(name, vendor, tmp_path_factory.mktemp(name) / "log")
        return servers[name]

    yield start
    for server in servers.values():
        server.process.terminate()
    for server in servers.values():
        try:
            server.process.wait(10)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()


def launched(name: str, vendor: Vendor, log: Path) -> Server:
    port = free_port()
    environment = os.environ | {"SIMULATOR_URL": vendor.url, "PYTHONPATH": os.getcwd()}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(LAUNCH), name, str(port)], env=environment, stdout=output, stderr=output
        )
    server = Server(name, port, process, log)
    until(server.listens, f"{name} listens")
    return server


@pytest.fixture(name="free_port")
def _free_port() -> Callable[[], int]:
    """`free_port()`: a port of loopback that nobody listens on."""
    return free_port


@pytest.fixture
def server_at() -> type[Server]:
    """The client's side of a server that a test started: `server_at(name, port, process, log)`."""
    return Server


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
