"""Servers that others wrote, each started once as a process of its own on a free port of loopback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from llmstream import grammar
from llmstream.events import Event, TextDelta
from llmstream.streams import Model

HERE = Path(__file__).parent
START_S = 30.0


class Answer:
    """The events of one response, and what was raised after them."""

    def __init__(self, events: list[Event], error: Exception | None) -> None:
        self.events = events
        self.error = error

    @property
    def text(self) -> str:
        return "".join(e.delta for e in self.events if isinstance(e, TextDelta))

    def all(self, kind: type) -> list:
        return [e for e in self.events if isinstance(e, kind)]


async def read_answer(model: Model, prompt: str, **options: object) -> Answer:
    events: list[Event] = []
    error = None
    try:
        async for event in model.events(prompt, **options):
            events.append(event)
    except Exception as caught:
        error = caught
    assert grammar.check(events) == []
    return Answer(events, error)


Read = Callable[..., Awaitable[Answer]]


@pytest.fixture(scope="session")
def read() -> Read:
    """`await read(model, prompt, **options)`: one response, held against the grammar."""
    return read_answer


def running(command: list[str], log: Path, url: str) -> Iterator[str]:
    """Runs a server until the generator is closed; gives the address it prints.

    url: a pattern for the address
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=HERE)
    try:
        yield printed(url, log, process)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def printed(url: str, log: Path, process: subprocess.Popen) -> str:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        said = log.read_text(encoding="utf-8", errors="replace")
        found = re.search(url, said)
        if found:
            return found.group(0)
        if process.poll() is not None:
            break
        time.sleep(0.02)
    pytest.fail(f"the server did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")


@pytest.fixture(scope="session")
def fakellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of fakellm, without a path."""
    if find_spec("fakellm") is not None:
        command = [sys.executable, "-m", "fakellm.cli"]
    elif shutil.which("fakellm"):
        command = ["fakellm"]
    else:
        pytest.skip("fakellm is not installed; see tests/peers/README.md")
    command += ["serve", "--port", "0", "--config", "fakellm.yaml"]
    log = tmp_path_factory.mktemp("fakellm") / "log"
    yield from running(command, log, r"(?<=running on )http://127\.0\.0\.1:[1-9]\d*")


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of aimock, without a path."""
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or HERE / "node_modules")
    server = modules / "@copilotkit" / "aimock" / "dist" / "cli.js"
    if shutil.which("node") is None:
        pytest.skip("node is not installed; see tests/peers/README.md")
    if not server.is_file():
        pytest.skip("@copilotkit/aimock is not installed; see tests/peers/README.md")
    command = ["node", str(server.resolve()), "--port", "0", "--strict", "--validate-on-load"]
    command += ["--chunk-size", "5", "--fixtures", "aimock.json"]
    log = tmp_path_factory.mktemp("aimock") / "log"
    yield from running(command, log, r"(?<=listening on )http://127\.0\.0\.1:[1-9]\d*")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule() -> Generator[None, pytest.Module, pytest.Module]:
    """Marks every test of this folder as slow."""
    module = yield
    module.add_marker(pytest.mark.slow)
    return module
