"""docs/recipes/task-queues.md: workers of real queues are killed during a run, and the run ends once."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmstream.durable import Runs
from tests.durable.clerk import ANSWER, PROMPT, Effects
from tests.postgres import PostgresServer, removed, started
from tests.redis_servers import NO_REDIS, RedisServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "recipes" / "task-queues.md"
LIMIT_S = 60.0

# The agent of the recipes: the one of the other tests, which can be killed at a place.
CLERK = """
import os, signal
from pathlib import Path
from tests.durable.clerk import Effects, clerk

FOLDER = Path(os.environ["FOLDER"])

def at(here):
    if here == os.environ["PLACE"] and not (FOLDER / "killed").exists():
        (FOLDER / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)

agent = clerk(Effects(FOLDER / "effects"), at=at)
"""


class Recipe:
    """The programs of the page in a folder, and workers that run them."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.effects = Effects(folder / "effects")
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{folder}:{ROOT}",
            "FOLDER": str(folder),
            "PLACE": "",
            **environment,
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        text = PAGE.read_text(encoding="utf-8")
        found = re.findall(r'^```python title="(.+?)"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
        for title, program in found:
            # The lease of the dead passes sooner.
            program = program.replace("Runs(DATABASE)", "Runs(DATABASE, lease_s=1.0)")
            (folder / title).write_text(program, encoding="utf-8")
        (folder / "clerk.py").write_text(CLERK, encoding="utf-8")

    def start(self, *command: str, place: str = "") -> subprocess.Popen[bytes]:
        """Starts `python -m COMMAND`, in a process group of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env={**self._environment, "PLACE": place},
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def run(self, *command: str) -> None:
        assert self.start(*command).wait(LIMIT_S) == 0

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for process in self._processes:
            self.kill(process)

    def check(self, info: Any) -> None:
        """The run ended, and no tool ran twice."""
        assert info.text.startswith(ANSWER)
        ran = self.effects.lines("tool")
        assert len(ran) == len(set(ran)) == 3, ran


async def state(where: str, wanted: str) -> Any:
    async with asyncio.timeout(LIMIT_S), Runs(where) as runs:
        while (info := await runs.status("order")) is None or info.state != wanted:
            await asyncio.sleep(0.1)
    return info


async def dead(process: subprocess.Popen[bytes]) -> None:
    assert await asyncio.wait_for(asyncio.to_thread(process.wait), LIMIT_S) == -signal.SIGKILL


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = started()
    yield server
    removed(server)


@pytest.fixture
def broker() -> Iterator[RedisServer]:
    if not any((Path(folder) / "redis-server").exists() for folder in os.get_exec_path()):
        pytest.skip(NO_REDIS)
    with tempfile.TemporaryDirectory(prefix="celery") as folder:
        server = RedisServer(Path(folder))
        server.start()
        yield server
        server.kill()


async def test_procrastinate_resumes_the_run(postgres: PostgresServer, tmp_path: Path) -> None:
    """The worker dies in a tool; another one has only the task `resume`."""
    procrastinate = pytest.importorskip("procrastinate", reason="procrastinate is not installed")
    place = postgres.database("tasks")
    recipe = Recipe(tmp_path, DATABASE=place)
    command = ("procrastinate", "--app=with_procrastinate.app")
    try:
        recipe.run(*command, "schema", "--apply")
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=place))
        async with app.open_async():
            work = app.configure_task("with_procrastinate.work", queue="agents")
            await work.defer_async(run_id="order", prompt=PROMPT)
            await dead(recipe.start(*command, "worker", "--queues=agents", place="after pay"))
            assert (await state(place, "running")).owner
            resume = app.configure_task("with_procrastinate.resume", queue="agents")
            recipe.start(*command, "worker", "--queues=agents")
            info = None
            async with asyncio.timeout(LIMIT_S):
                while info is None or info.state != "done":
                    # Once a minute in the recipe; the lease of the dead has to pass.
                    await resume.defer_async(timestamp=0)
                    await asyncio.sleep(1)
                    async with Runs(place) as runs:
                        info = await runs.status("order")
            assert "may have had effects" in info.text
        recipe.check(info)
    finally:
        recipe.close()


async def test_celery_delivers_the_task_again(broker: RedisServer, tmp_path: Path) -> None:
    """The process of the task dies: Celery delivers it again, and the worker goes on with the run."""
    celery = pytest.importorskip("celery", reason="celery is not installed")
    place, url = f"sqlite:{tmp_path / 'runs.db'}", f"redis+socket://{broker.socket}"
    recipe = Recipe(tmp_path, DATABASE=place, BROKER=url)
    try:
        app = celery.Celery("agents", broker=url)
        app.send_task("with_celery.work", ["order", PROMPT])
        recipe.start("celery", "--app=with_celery", "worker", "--concurrency=1", place="after pay")
        recipe.check(await state(place, "done"))
        assert (tmp_path / "killed").exists()
    finally:
        recipe.close()


async def test_celery_resumes_the_run(broker: RedisServer, tmp_path: Path) -> None:
    """The whole worker dies, so that Redis holds the task back for an hour; `resume` ends the run."""
    celery = pytest.importorskip("celery", reason="celery is not installed")
    place, url = f"sqlite:{tmp_path / 'runs.db'}", f"redis+socket://{broker.socket}"
    recipe = Recipe(tmp_path, DATABASE=place, BROKER=url)
    try:
        app = celery.Celery("agents", broker=url)
        app.send_task("with_celery.work", ["order", PROMPT])
        first = recipe.start("celery", "--app=with_celery", "worker", "--pool=solo", place="after pay")
        await dead(first)
        recipe.start("celery", "--app=with_celery", "worker", "--pool=solo")
        info = None
        async with asyncio.timeout(LIMIT_S), Runs(place) as runs:
            while info is None or info.state != "done":
                app.send_task("with_celery.resume")
                await asyncio.sleep(1)
                info = await runs.status("order")
        recipe.check(info)
    finally:
        recipe.close()


@pytest.fixture
def temporal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the recipe, in this process."""
    pytest.importorskip("temporalio", reason="temporalio is not installed")
    recipe = Recipe(tmp_path)
    monkeypatch.setenv("DATABASE", f"sqlite:{tmp_path / 'runs.db'}")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setenv("PLACE", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    import with_temporal

    yield with_temporal
    recipe.close()
    for name in ("with_temporal", "clerk"):
        sys.modules.pop(name, None)


async def test_temporal_activity_goes_on(temporal: Any, tmp_path: Path) -> None:
    """Cancelled in the middle, as when its worker shuts down; the next attempt ends the run."""
    from temporalio.testing import ActivityEnvironment

    first = ActivityEnvironment()
    beats = list[Any]()
    first.on_heartbeat = lambda *details: beats.append(details)
    attempt = asyncio.create_task(first.run(temporal.produce, "order", PROMPT))
    effects = Effects(tmp_path / "effects")
    async with asyncio.timeout(LIMIT_S):
        while not effects.lines("tool"):
            await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([attempt])
    assert beats
    found = await asyncio.wait_for(ActivityEnvironment().run(temporal.produce, "order", PROMPT), LIMIT_S)
    assert (found[0], found[1][: len(ANSWER)]) == ("done", ANSWER)
    ran = effects.lines("tool")
    assert len(ran) == len(set(ran))


def test_temporal_loads_the_workflow(temporal: Any) -> None:
    """As a worker does before it asks the server for work: the definition, in the sandbox."""
    from temporalio.worker import Replayer

    replayer = Replayer(workflows=[temporal.Clerk])
    assert [found.__name__ for found in replayer.config()["workflows"]] == ["Clerk"]
