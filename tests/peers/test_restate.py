"""Durable runs as workflows of Restate: its server starts them again, and no tool runs twice.

This file is also the program that is killed: `python -m tests.peers.test_restate FOLDER NAME SOCKET PLACE`.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import llmstream as ls
from llmstream.durable import Runs
from llmstream.durable.conformance import STEPS_CHECKS
from llmstream.durable.sqlite import SQLiteRunStore
from llmstream.errors import InvalidRequest
from tests.durable.clerk import ANSWER, PROMPT, Effects, clerk
from tests.durable.opening import opener

restate = pytest.importorskip("restate", reason="restate_sdk is not installed (extra: frameworks)")

import hypercorn.asyncio  # noqa: E402  # comes with the extra that brings restate
import hypercorn.config  # noqa: E402

from llmstream.durable.restate import workflow  # noqa: E402  # restate may be missing

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
LEASE_S = 1.0

Answered = tuple[int, Any]


def binary() -> Path:
    """The server, from npm."""
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or ROOT / "tests/peers/node_modules")
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"@restatedev/restate-server-{sys.platform}-{machine}"
    return modules / package / "bin" / "restate-server"


class Server:
    """The server, over sockets in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def _asked(self, name: str, method: str, path: str, body: Any = None) -> Answered:
        connector = aiohttp.UnixConnector(str(self._folder / f"{name}.sock"))
        data = {} if body is None else {"json": body}
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, f"http://restate{path}", **data) as answer,
        ):
            text = await answer.text()
        return answer.status, json.loads(text) if text else None

    async def ready(self) -> None:
        """Waits until it serves."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    if (await self._asked("admin", "GET", "/health"))[0] == 200:
                        return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.05)

    async def register(self, port: int) -> None:
        body = {"uri": f"http://127.0.0.1:{port}", "force": True}
        status, answer = await self._asked("admin", "POST", "/deployments", body)
        assert status in (200, 201), answer

    async def call(self, path: str, body: Any = None, method: str = "POST") -> Answered:
        return await asyncio.wait_for(self._asked("ingress", method, path, body), LIMIT_S)

    async def cancel(self, invocation: str) -> None:
        status, answer = await self._asked("admin", "PATCH", f"/invocations/{invocation}/cancel")
        assert status in (200, 202), answer


@contextmanager
def running_server() -> Iterator[Server]:
    """A server in a folder of its own; it may not serve yet."""
    program = binary()
    if not program.is_file():
        pytest.skip(f"{program.parent.parent.name} is not installed; see tests/peers/README.md")
    folder = Path(tempfile.mkdtemp(prefix="restate"))  # short, for the paths of sockets
    command = [str(program), "--base-dir", str(folder), "--listen-mode", "unix", "--no-logo"]
    command += ["--node-name", "test"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "RESTATE_DISABLE_TELEMETRY": "true"},
        )
    try:
        yield Server(folder / "test")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as found:
        asyncio.run(found.ready())
        yield found


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Where workers serve; it stays open when one dies, so that the next one has the same address."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def opened(folder: Path) -> Runs:
    return Runs(f"sqlite:{folder / 'runs.db'}", lease_s=LEASE_S)


async def serve(agent: ls.Agent, runs: Runs, descriptor: int, until: Callable[[], Any], *others: Any) -> None:
    config = hypercorn.config.Config()
    config.bind = [f"fd://{os.dup(descriptor)}"]  # it closes what it serves
    config.graceful_timeout = 0.1
    app = restate.app([workflow(agent, runs), *others])
    await hypercorn.asyncio.serve(app, config, shutdown_trigger=until)


class Clerk:
    """The workflow of one agent at the server."""

    def __init__(self, server: Server, runs: Runs, name: str) -> None:
        self.runs = runs
        self._server, self._name = server, name

    async def start(self, prompt: str = PROMPT) -> str:
        """Starts it, and returns the id of the invocation."""
        status, answer = await self._server.call(f"/llmstream.{self._name}/order/run/send", prompt)
        assert status == 202, answer
        return answer["invocationId"]

    async def answer(self) -> Answered:
        return await self._server.call(f"/restate/workflow/llmstream.{self._name}/order/attach", method="GET")

    async def decide(self, **given: Any) -> Answered:
        return await self._server.call(f"/llmstream.{self._name}/order/decide", given)

    async def state(self, wanted: str) -> Any:
        async with asyncio.timeout(LIMIT_S):
            while (info := await self.runs.status("order")) is None or info.state != wanted:
                await asyncio.sleep(0.05)
        return info


@asynccontextmanager
async def served(agent: ls.Agent, server: Server, folder: Path, at: socket.socket) -> AsyncIterator[Clerk]:
    """Serves the workflow in this process."""
    end = asyncio.Event()
    async with opened(folder) as runs, asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        group.create_task(serve(agent, runs, at.fileno(), end.wait))
        await server.register(at.getsockname()[1])
        yield Clerk(server, runs, agent.name)
        end.set()


async def test_restate_runs_to_the_end(server: Server, tmp_path: Path, listening: socket.socket) -> None:
    effects = Effects(tmp_path / "effects")
    async with served(clerk(effects, name="plain"), server, tmp_path, listening) as found:
        await found.start()
        assert await found.answer() == (200, ANSWER)
        info = await found.state("done")
    assert info.text == ANSWER
    assert len(effects.lines("tool")) == 3


async def test_restate_waits_for_decision(server: Server, tmp_path: Path, listening: socket.socket) -> None:
    effects = Effects(tmp_path / "effects")
    agent = clerk(effects, approval=True, name="decided")
    async with served(agent, server, tmp_path, listening) as found:
        await found.start()
        info = await found.state("waiting")
        status, answer = await found.decide(decisions={"other": True})
        assert (status, answer["message"][:15]) == (400, "invalid-request")
        (call,) = info.pending
        refusal = {"approve": False, "reason": "too dear"}
        assert await found.decide(decisions={call.approval_id: refusal}) == (200, None)
        status, answer = await found.answer()
    assert (status, "too dear" in answer) == (200, True)
    assert len(effects.lines("tool")) == 2


async def test_restate_sees_what_others_gave(
    server: Server, tmp_path: Path, listening: socket.socket
) -> None:
    effects = Effects(tmp_path / "effects")
    agent = clerk(effects, approval=True, name="others")
    async with served(agent, server, tmp_path, listening) as found, opened(tmp_path) as others:
        await found.start()
        info = await found.state("waiting")
        await others.decide("order", {call.approval_id: True for call in info.pending})
        assert await found.answer() == (200, ANSWER)
    assert len(effects.lines("tool")) == 3


async def test_restate_cancel_stops_the_run(server: Server, tmp_path: Path, listening: socket.socket) -> None:
    agent = clerk(Effects(tmp_path / "effects"), approval=True, name="cancelled")
    async with served(agent, server, tmp_path, listening) as found:
        invocation = await found.start()
        await found.state("waiting")
        await server.cancel(invocation)
        await found.state("stopped")
        assert (await found.answer())[0] == 409


async def test_restate_reports_a_failed_run(server: Server, tmp_path: Path, listening: socket.socket) -> None:
    agent = clerk(Effects(tmp_path / "effects"), name="failed")
    async with served(agent, server, tmp_path, listening) as found:
        await found.runs.submit("other", "order", PROMPT)
        await found.start()
        status, answer = await found.answer()
    assert status == 500
    assert answer["message"].startswith("invalid-request: run 'order' belongs to agent 'other'")


async def test_restate_steps_pass_every_check(
    server: Server, tmp_path: Path, listening: socket.socket
) -> None:
    """The conformance checks over the steps of runs, within an entry of Restate's journal."""
    checks = restate.Service("checks")

    @checks.handler()
    async def check(context: Any, number: int) -> str:
        async def done() -> str:
            await STEPS_CHECKS[number](opener(store))
            return STEPS_CHECKS[number].__name__

        return await context.run_typed("check", done)

    store = SQLiteRunStore(tmp_path / "steps.db")
    await store.open()
    end = asyncio.Event()
    async with opened(tmp_path) as runs, asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        agent = clerk(Effects(tmp_path / "effects"), name="checked")
        group.create_task(serve(agent, runs, listening.fileno(), end.wait, checks))
        await server.register(listening.getsockname()[1])
        for number, expected in enumerate(STEPS_CHECKS):
            assert await server.call("/checks/check", number) == (200, expected.__name__)
        end.set()
    await store.aclose()


def test_restate_needs_a_named_agent(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="needs a name"):
        workflow(clerk(Effects(tmp_path / "effects"), name=""), opened(tmp_path))


class Workers:
    """Processes that serve one workflow, one after the other."""

    def __init__(self, folder: Path, name: str, at: socket.socket) -> None:
        self._arguments = [str(folder), name, str(at.fileno())]
        self._descriptor = at.fileno()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, place: str = "") -> None:
        """Starts one that is killed at a place."""
        command = [sys.executable, "-m", "tests.peers.test_restate", *self._arguments, place]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[self._descriptor])

    async def died(self) -> None:
        assert self._process is not None
        await asyncio.wait_for(asyncio.to_thread(self._process.wait), LIMIT_S)
        assert self._process.returncode == -signal.SIGKILL

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@asynccontextmanager
async def killed(
    server: Server, folder: Path, name: str, at: socket.socket
) -> AsyncIterator[tuple[Clerk, Workers]]:
    """The workflow and its workers, none of which is left at the end."""
    workers = Workers(folder, name, at)
    try:
        async with opened(folder) as runs:
            yield Clerk(server, runs, name), workers
    finally:
        workers.kill()


@pytest.mark.parametrize(
    ("places", "told"),
    [(("model", "after pay"), True), (("after weigh 1", "before pay"), True), (("model", "model"), False)],
    ids=["model and pay", "weigh and pay", "model twice"],
)
async def test_restate_recovers_after_kills(
    server: Server, tmp_path: Path, listening: socket.socket, places: tuple[str, ...], told: bool
) -> None:
    """Workers are killed at a place each; the server calls the next one."""
    name = "_".join(["killed", *places]).replace(" ", "_")
    async with killed(server, tmp_path, name, listening) as (found, workers):
        workers.start(places[0])
        await server.register(listening.getsockname()[1])
        await found.start()
        for place in (*places[1:], ""):
            await workers.died()
            workers.start(place)
        status, answer = await found.answer()
    assert (status, answer[: len(ANSWER)]) == (200, ANSWER)
    assert ("may have had effects" in answer) == told
    ran = Effects(tmp_path / "effects").lines("tool")
    assert len(ran) == len(set(ran)), ran
    assert told or len(ran) == 3


async def test_restate_waits_over_a_kill(server: Server, tmp_path: Path, listening: socket.socket) -> None:
    """The worker is killed while the run waits; the next one is called after the decision."""
    async with killed(server, tmp_path, "approved", listening) as (found, workers):
        workers.start()
        await server.register(listening.getsockname()[1])
        await found.start()
        info = await found.state("waiting")
        workers.kill()
        workers.start()
        assert await found.decide(decisions={call.approval_id: True for call in info.pending}) == (200, None)
        assert await found.answer() == (200, ANSWER)
    assert len(Effects(tmp_path / "effects").lines("tool")) == 3


async def work(folder: Path, name: str, descriptor: int, place: str) -> None:
    """Serves until it is killed: by others, or at a place, which for a request to the model is the second."""
    effects = Effects(folder / "effects")

    def at(here: str) -> None:
        if here == place and (here != "model" or len(effects.lines("asked")) >= 1):
            os.kill(os.getpid(), signal.SIGKILL)

    async with opened(folder) as runs:
        agent = clerk(effects, at=at, name=name, approval=name == "approved")
        await serve(agent, runs, descriptor, asyncio.Event().wait)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
