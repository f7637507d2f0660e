"""`python -m benchmarks.engines [ENGINE ...]`: what a durable step costs on each engine, beside a bare one.

Needs the extra `frameworks`, Debian's `postgresql`, Restate's server (`npm install --prefix tests/peers`).
A step is one response of a scripted model and two tools, all instant. Each engine has a process of its own;
engines take turns, and the figures are medians over all runs: milliseconds a step on the clock, and of CPU in
the process of the worker, without that of a server.

Beside them, on DBOS with an SQLite file: `dbos-own`, the loop of an agent by hand, in which each response and
each call is a step of DBOS, and `dbos-pydantic-ai`, an agent of pydantic-ai with its own integration.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llmstream as ls
from benchmarks.arguments import arguments
from llmstream.chats import ToolResult
from llmstream.durable import Runs
from llmstream.durable.sqlite import SQLiteRunStore
from llmstream.log import open_logs
from llmstream.request import Request
from llmstream.simulator.script import Call
from llmstream.testing import ScriptedModel, Turn

STEPS = 10
RUNS = 5
ROUNDS = 3

Run = Callable[[str], Awaitable[Any]]


def weigh(item: int) -> str:
    """Weigh an item."""
    return f"item {item}: 2 kg"


def answer(request: Request) -> Turn:
    number = sum(message.role == "assistant" for message in request.messages)
    if number >= STEPS:
        return Turn(text="Done.")
    return Turn(text="Weighing.", calls=(Call("weigh", {"item": 1}), Call("weigh", {"item": 2})))


def agent() -> ls.Agent:
    return ls.Agent(ScriptedModel(answer), name="clerk", tools=[weigh], max_steps=STEPS + 1)


@asynccontextmanager
async def bare() -> AsyncIterator[Run]:
    yield lambda run: agent().run("Weigh.")


@asynccontextmanager
async def own(runs: Runs) -> AsyncIterator[Run]:
    async with runs:
        yield lambda run: runs.run(agent(), run, "Weigh.")


@asynccontextmanager
async def sqlite_normal() -> AsyncIterator[Run]:
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteRunStore(f"{folder}/runs.db", synchronous="normal")
        async with open_logs(f"sqlite:{folder}/log.db") as logs, own(Runs(store, logs=logs)) as run:
            yield run


@asynccontextmanager
async def sqlite_full() -> AsyncIterator[Run]:
    with tempfile.TemporaryDirectory() as folder:
        async with own(Runs(f"sqlite:{folder}/runs.db")) as run:
            yield run


@contextlib.contextmanager
def postgres_address() -> Any:
    from tests.postgres import removed, started

    server = started()
    try:
        yield server.database("runs")
    finally:
        removed(server)


@asynccontextmanager
async def postgres() -> AsyncIterator[Run]:
    with postgres_address() as where:
        async with own(Runs(where)) as run:
            yield run


def configure_dbos(**options: Any) -> None:
    from dbos import DBOS

    DBOS(config={"name": "bench", "application_version": "1", "log_level": "ERROR", **options})


@asynccontextmanager
async def dbos(where: str, **database: Any) -> AsyncIterator[Run]:
    from dbos import DBOS, DBOSPortableJSONSerializer

    from llmstream.durable.dbos import workflow

    configure_dbos(serializer=DBOSPortableJSONSerializer(), **database)
    async with Runs(where) as runs:
        clerk = workflow(agent(), runs)
        DBOS.launch()

        async def run(name: str) -> None:
            await (await DBOS.start_workflow_async(clerk, name, "Weigh.")).get_result()

        yield run
        DBOS.destroy()


@asynccontextmanager
async def dbos_sqlite() -> AsyncIterator[Run]:
    from llmstream.durable.dbos import engine

    with tempfile.TemporaryDirectory() as folder:
        system = engine(f"sqlite:{folder}/dbos.db")
        async with dbos(f"sqlite:{folder}/runs.db", system_database_engine=system) as run:
            yield run


@asynccontextmanager
async def dbos_postgres() -> AsyncIterator[Run]:
    with postgres_address() as where:
        async with dbos(where, system_database_url=where) as run:
            yield run


@asynccontextmanager
async def dbos_workflow(work: Callable[[str], Awaitable[Any]]) -> AsyncIterator[Run]:
    """A function as a workflow, with the steps that it makes itself, in a file as `dbos_sqlite` has it."""
    from dbos import DBOS

    from llmstream.durable.dbos import engine

    with tempfile.TemporaryDirectory() as folder:
        configure_dbos(system_database_engine=engine(f"sqlite:{folder}/dbos.db"))
        registered = DBOS.workflow()(work)
        DBOS.launch()

        async def run(name: str) -> None:
            done = await (await DBOS.start_workflow_async(registered, "Weigh.")).get_result()
            assert done == "Done.", done

        yield run
        DBOS.destroy()


@asynccontextmanager
async def dbos_own() -> AsyncIterator[Run]:
    from dbos import DBOS

    model = ScriptedModel(answer)

    @DBOS.step()
    async def respond(messages: list[ls.Message]) -> ls.Message:
        return await model.ask(messages)

    @DBOS.step()
    async def weighed(item: int) -> str:
        return weigh(item)

    async def work(prompt: str) -> str:
        messages = [ls.Message.user(prompt)]
        while True:
            response = await respond(messages)
            messages.append(response)
            if not response.tool_calls:
                return response.text
            given = {call.id: json.loads(call.arguments)["item"] for call in response.tool_calls}
            messages.append(
                ls.Message.tool([ToolResult(call, await weighed(item)) for call, item in given.items()])
            )

    async with dbos_workflow(work) as run:
        yield run


@asynccontextmanager
async def dbos_pydantic_ai() -> AsyncIterator[Run]:
    from dbos import DBOS
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.dbos import DBOSDurability
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def response(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = sum(message.kind == "response" for message in messages)
        if number >= STEPS:
            return ModelResponse(parts=[TextPart("Done.")])
        calls = [ToolCallPart("weighed", {"item": item}) for item in (1, 2)]
        return ModelResponse(parts=[TextPart("Weighing."), *calls])

    @DBOS.step()
    async def weighed(item: int) -> str:
        """Weigh an item."""
        return weigh(item)

    clerk = Agent(FunctionModel(response), name="clerk", tools=[weighed], capabilities=[DBOSDurability()])

    async def work(prompt: str) -> str:
        return (await clerk.run(prompt)).output

    async with dbos_workflow(work) as run:
        yield run


@asynccontextmanager
async def restate() -> AsyncIterator[Run]:
    from tests.peers.test_restate import running_server, serve

    with (
        running_server() as server,
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as at,
    ):
        async with Runs(f"sqlite:{folder}/runs.db") as runs:
            serving = asyncio.create_task(serve(agent(), runs, at.fileno(), asyncio.Event().wait))
            await server.ready()
            await server.register(at.getsockname()[1])

            async def run(name: str) -> None:
                status, answer = await server.call(f"/llmstream.clerk/{name}/run", "Weigh.")
                assert status == 200, answer

            yield run
            serving.cancel()
            await asyncio.wait([serving])


ENGINES: dict[str, Callable[[], Any]] = {
    "bare": bare,
    "sqlite-normal": sqlite_normal,
    "sqlite": sqlite_full,
    "postgres": postgres,
    "dbos-sqlite": dbos_sqlite,
    "dbos-postgres": dbos_postgres,
    "dbos-own": dbos_own,
    "dbos-pydantic-ai": dbos_pydantic_ai,
    "restate": restate,
}


def missing_package(name: str) -> str | None:
    """A package that an engine needs and that is not installed."""
    needed = {"dbos": ["dbos"], "dbos-pydantic-ai": ["pydantic_ai"], "restate": ["restate"]}
    packages = needed.get(name.partition("-")[0], []) + needed.get(name, [])
    return next((package for package in packages if find_spec(package) is None), None)


async def measured(name: str) -> list[tuple[float, float]]:
    """Milliseconds a step, on the clock and of CPU, of each run."""
    found = []
    async with ENGINES[name]() as run:
        for number in range(RUNS + 1):
            wall, cpu = time.perf_counter(), time.process_time()
            await run(f"run-{number}")
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            found.append((wall * 1000 / (STEPS + 1), cpu * 1000 / (STEPS + 1)))
    return found[1:]  # the first one imports and connects


def main(names: list[str]) -> None:
    for name in names:
        if name not in ENGINES:
            sys.exit(f"there is no engine {name!r}: {', '.join(ENGINES)}")
    found: dict[str, list[list[float]]] = {}
    for name in names:
        if package := missing_package(name):
            print(f"{name:<16} not measured: {package} is not installed (extra: frameworks)")
        else:
            found[name] = []
    for _ in range(ROUNDS):
        for name in found:
            command = [sys.executable, "-m", "benchmarks.engines", "--one", name]
            root = Path(__file__).resolve().parents[1]
            done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
            found[name] += json.loads(done.stdout.splitlines()[-1])
    for name, runs in found.items():
        wall, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{name:<16} {wall:6.1f} ms wall  {cpu:6.1f} ms CPU a step")


if __name__ == "__main__":
    given = arguments("[ENGINE ...]", __doc__)
    if given[:1] == ["--one"]:
        print(json.dumps(asyncio.run(measured(given[1]))))
    else:
        main(given or list(ENGINES))
