"""A simulator in a thread of its own, so that commands can run their own event loops beside it."""

from __future__ import annotations

import asyncio
import io
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from llmstream.simulator import Script, Simulator
from llmstream.store import open_store
from tests.cli.terminal_session import WITHOUT, Session
from tests.display.screen import Screen

Start = Callable[..., Simulator]
Spawn = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]


@pytest.fixture
def simulate() -> Iterator[Start]:
    """`simulate(script, **options)` gives a running Simulator; it ends with the test."""
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    running: list[Simulator] = []

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(ready.set)
        loop.run_forever()

    def do(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(10)

    def start(*args: Any, **options: Any) -> Simulator:
        simulator = Simulator(*args, **options)
        do(simulator.start())
        running.append(simulator)
        return simulator

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield start
    finally:
        for simulator in running:
            do(simulator.close())
        do(loop.shutdown_asyncgens())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def _obey_ctrl_c() -> None:
    """A process that is started where Ctrl-C is ignored would ignore it too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def spawn() -> Spawn:
    """`with spawn(*argv) as process`: the program as a process of its own, killed at the end."""

    @contextmanager
    def start(*argv: object, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "llmstream", *map(str, argv)]
        with subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_obey_ctrl_c
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return start


@pytest.fixture
def typed_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`typed_in(text)`: standard input of the next command, a pipe."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No keys, models, addresses or conversations of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in (
        "LLMSTREAM_HISTORY",
        "LLMSTREAM_LOG",
        "LLMSTREAM_MODEL",
        "LLMSTREAM_TRACEBACK",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OLLAMA_API_KEY",
        "OLLAMA_HOST",
        "NO_COLOR",
        "FORCE_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., list[str]]:
    """`kept(name)`: the texts of a conversation in the store, by default of the last one."""

    def texts(name: str | None = None) -> list[str]:
        with open_store(f"sqlite:{tmp_path}/state/llmstream/chats.db", read_only=True) as store:
            return [message.text for message in store.chat(name or store.conversations(limit=1)[0].id)]

    return texts


@pytest.fixture
def screen() -> Screen:
    """A terminal of 80 columns."""
    return Screen()


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    """Sessions to kill at the end."""
    pytest.importorskip("fcntl")
    opened: list[Session] = []
    yield opened
    for session in opened:
        session.kill()


@pytest.fixture
def chat(simulate, sessions, monkeypatch):
    """`chat(script, *argv)`: a session of `llmstream chat` with a simulator."""
    monkeypatch.setenv("OPENAI_API_KEY", "sim-key")

    def start(script: Script, *argv: object, **options: str) -> tuple[Session, list]:
        simulator = simulate(script)
        address = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
        sessions.append(Session("chat", *address, *argv, **options))
        return sessions[-1], simulator.requests

    return start


@pytest.fixture(params=["prompt_toolkit", "readline"])
def talk(request, chat):
    """`talk(script, *argv)`: a conversation, with either way to read a prompt."""
    pytest.importorskip(request.param)

    def start(script: Script, *argv: object, **options: str) -> tuple[Session, list]:
        code = "" if request.param == "prompt_toolkit" else WITHOUT.format("prompt_toolkit")
        return chat(script, *argv, code=code, **options)

    return start
