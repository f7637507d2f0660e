"""Every example runs as a reader would run it, with warnings as errors, and says what it promises."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from llmstream import events, grammar
from tests import postgres
from tests.redis_servers import NO_REDIS, RedisServer

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FOUND = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.name.startswith("_")]
SERVERS = [path.name for path in FOUND if '"--port"' in path.read_text()]
PROGRAMS = [path.name for path in FOUND if path.name not in SERVERS]

SAID = {
    "agent_chat.py": [
        "> And in Lima?\nLet me use clock.clock says: 03:30.",
        "13 messages, 1 of them the system's",
    ],
    "agent_loop.py": ["[step 0]", 'calls clock({"city":"Oslo"})', "clock gave", "in 2 steps]"],
    "approval.py": [
        "a decision is due, approval\nprocess 1: saved, and over\nprocess 2: may I? refund({",
        "are on their way. That is all there is.\n['user', 'assistant', 'tool', 'assistant']",
    ],
    "cancel_midway.py": ["left after 5 fragments", "kept: 'Once upon a time a'", "['user', 'assistant']"],
    "chat.py": [
        "> What was my name?\nYou said: What was my name?",
        "7 messages; the last is the assistant's",
    ],
    "crash_recovery.py": [
        "charging 20 euros\nshipping 17 ... and the power fails\nthe first process ended with 9\ncharge: ",
        "ship: The process ended while the call ran. It may have had effects",
        "The card was charged once.",
    ],
    "errors_and_deadlines.py": [
        "The second attempt was let in.",
        "broke off (connection-lost) after 'This answer is cut'",
        "too slow (idle) after 'This answer stops and'",
        "sim refused with 401 authentication, retryable: False",
        "StreamStart ErrorEvent Finish and the error is kept: sim: ",
    ],
    "kernel_loop.py": [
        "6 fragments of 2 calls\n   Oslo: -2 °C, light snow\n   LookupError: no such city on the map\n",
        "0: '', 2 fragments of 1 calls\n   Lima: -2 °C, light snow\n",
        "too many iterations",
    ],
    "long_conversation.py": [
        "all             201 messages,  500000 characters of results, whole: True\nwindow ",
        "summarised       11 messages,     400 characters of results, whole: True\n",
        "the chat keeps 203 messages",
    ],
    "manual_tool_loop.py": [
        "> Ran tool: `weather`\n> Ran tool: `weather` - failed: `LookupError: no such city on the map`\n",
        "Atlantis is not on the map.",
        "tool      tool_result, tool_result",
    ],
    "mcp_tools.py": [
        "the server has library_search, library_stock\ncalls library_search\n  1 of 3: history\n",
        "is on the shelf poetry.\nlibrary_search says: 'Where",
    ],
    "next_and_call_tools.py": [
        "up.\n\n> Ran tool: `weather`\n"
        "> Ran tool: `weather` - failed: `LookupError: no such city on the map`\n",
        "cached: user assistant tool assistant",
    ],
    "one_program_every_wire.py": [
        "result='LookupError: no such city on the map' toolCallId=3 toolName='weather' isError=True\n"
        "step-start",
        "sim                     44 events, the same\nsim-openai-responses    44 events, the same\n",
        "sim-mistral             44 events, the same\nsim-ollama              44 events, the same\n",
    ],
    "middleware.py": [
        "overloaded.json failed (overloaded): too much to do; the next model was used\n"
        "  reasoning: Short waves",
        "the second time:\n",
        "  from the cache\n  reasoning: Short waves are scattered more.\n  text: Because air",
        "1 answer stored",
    ],
    "pattern_matching.py": [
        "ToolInputEnd     input breaks off\nErrorEvent       failed: overloaded: too much to do\nFinish  ",
    ],
    "replay.py": ['"toolCallId":"toolu_example_1"}\n{"type":"finish"', "15 events, the same byte by byte"],
    "resumable_stream.py": [
        "Once upon a time a\n-- left after event 7; the run goes on --\n river wanted to know",
        "whose producer ",
        "\nthe text is incomplete: True\nproducer-lost: The process that produced this run ended before",
        "the log is failed at event ",
    ],
    "save_and_resume.py": ["saved 2 messages", "assistant: You said: And another one?"],
    "structured_output.py": [
        "Recipe(title='Pea soup', minutes=UNSET, steps=UNSET)",
        "minutes=40, steps=[Step(text='Soak'",
        "told: The answer does not fit Recipe: Expected `int`, got `str` - at `$.minutes`.",
        "Pea soup, 40 minutes, 2 steps",
    ],
    "sub_agent_approval.py": [
        '  looking up rent\nsaved; it waits for clerk: transfer({"account":"rent","euros":700})\nanother',
        "another process:\n  moving 700 euros to rent\nYour rent is paid.\n",
    ],
    "sub_agents.py": [
        "editor: calls research\neditor: step 0 is over (tool-calls)\nresearcher: calls library\n",
        "editor: step 1 is over (stop)\neditor: research says: library says: Goroutines",
        "critic  You said: writer: ",
    ],
    "tool_progress.py": [
        "calls crawl\n",
        "  weather: asking the station\n",
        "  crawl: 2 of 3, climate\n  crawl: 3 of 3, people\n  crawl is done\n",
    ],
    "websocket.py": [
        "2 steps: It is noon in Oslo.\nOnce upon a time a river wanted",
        "-- the model has heard: in French --\nLa rivière",
        "arrivait.\nstop; one message of 3 parts",
    ],
    "two_vendors.py": ["sim-anthropic:demo: 30 events", "\nthe same events\n"],
}
"""What is characteristic of each; one that is not named here has to say something all the same."""

Ran = subprocess.CompletedProcess[str]


def command(name: str, *arguments: str) -> dict[str, Any]:
    """How an example is started, as keywords of subprocess."""
    return {
        "args": [sys.executable, "-u", "-W", "error", str(EXAMPLES / name), *arguments],
        "env": {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "PYTHONIOENCODING": "utf-8"},
        "text": True,
        "encoding": "utf-8",
    }


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Future[Ran]]]:
    """All programs, started side by side."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        yield {
            name: pool.submit(subprocess.run, **command(name), capture_output=True, timeout=60)
            for name in PROGRAMS
        }


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_and_says_what_it_promises(name: str, runs: dict[str, Future[Ran]]) -> None:
    ran = runs[name].result()
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout
    for expected in SAID.get(name, []):
        assert expected in ran.stdout


class Server:
    """An example that serves, on a free port of its own."""

    def __init__(self, name: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            **command(name, "--port", "0", *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.said = ""

    def wait_for_address(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line
            if found := re.search(r"http://127\.0\.0\.1:[1-9]\d*", line):
                return found.group()
        raise AssertionError(f"it never said where it listens: {self.said}")

    def stop(self) -> int:
        """Ctrl-C, and the exit status."""
        self._process.send_signal(signal.SIGINT)
        try:
            self.said += self._process.communicate(timeout=20)[0]
        finally:
            self._process.kill()
        return self._process.returncode


@pytest.mark.parametrize("name", SERVERS)
async def test_it_streams_a_sentence_to_a_browser(name: str) -> None:
    server = Server(name)
    try:
        address = server.wait_for_address()
        async with (
            aiohttp.ClientSession() as browser,
            browser.get(f"{address}/events", params={"prompt": "Hi there"}) as answer,
        ):
            assert answer.content_type == "text/event-stream"
            body = await answer.read()
    finally:
        status = server.stop()
    *frames, end, rest = body.decode().split("\n\n")
    assert (end, rest) == ("event: end\ndata: {}", "")
    got = [events.decode(frame.splitlines()[1].removeprefix("data: ")) for frame in frames]
    assert grammar.check(got) == []
    text = "".join(event.delta for event in got if isinstance(event, events.TextDelta))
    assert text.startswith("You said: Hi there")
    assert (status, "Traceback" in server.said) == (0, False), server.said


@pytest.mark.parametrize("name", SERVERS)
async def test_a_browser_that_leaves_does_no_harm(name: str) -> None:
    slow = f"sim:{EXAMPLES / 'scripts' / 'long_story.json'}"
    server = Server(name, "--live", slow)
    try:
        address = server.wait_for_address()
        async with aiohttp.ClientSession() as browser:
            answer = await browser.get(f"{address}/events")
            assert await answer.content.readany()
            answer.close()
    finally:
        status = server.stop()
    assert (status, "Traceback" in server.said) == (0, False), server.said


def test_examples_state_idea_and_stay_short() -> None:
    for path in FOUND:
        source = path.read_text()
        assert source.startswith('"""'), f"{path.name} does not say what it shows"
        assert len(source.splitlines()) <= 100, f"{path.name} is too long for one idea"


def test_expectations_name_existing_examples() -> None:
    assert set(SAID) <= set(PROGRAMS)


def test_durable_agent_survives_two_kills() -> None:
    ran = subprocess.run(**command("durable_agent/drill.py"), capture_output=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("is killed]") == 2
    assert ran.stdout.count("paid 20 euros") == 1
    assert "Order 17 is packed, paid and on its way.\n\ndone: " in ran.stdout


def test_fleet_pays_each_order_once() -> None:
    """Workers that are killed one after the other: a short form of `make -C examples/fleet`."""
    if shutil.which("redis-server") is None:
        pytest.skip(NO_REDIS)
    if postgres.binaries() is None:
        pytest.skip(postgres.NO_POSTGRES)
    ran = subprocess.run(
        **command("fleet/fleet.py", "--workers", "3", "--orders", "6", "--kill-every", "1", "--kills", "2"),
        capture_output=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " is killed, with order-" in ran.stdout
    assert "6 of 6 orders are done, 6 are paid\n0 orders were paid twice, 0 calls of" in ran.stdout


def test_fleet_of_the_compose_file(tmp_path: Path) -> None:
    """The commands of its containers as processes here, which are started again as `restart: always` does.

    What an engine itself does is not tested: the images, their network, the health check.
    """
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra: docs)")
    if shutil.which("redis-server") is None:
        pytest.skip(NO_REDIS)
    services = yaml.safe_load((EXAMPLES / "fleet" / "compose.yaml").read_text())["services"]
    database, folder = postgres.started(), Path(tempfile.mkdtemp(prefix="redis"))
    redis = RedisServer(folder)
    redis.start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    here = {
        "9000": port,
        "http://vendor:9000": f"http://127.0.0.1:{port}",
        "redis://redis:6379/0": redis.url,
        "postgresql://fleet:fleet@postgres/fleet": database.database("fleet"),
        "20": "4",  # seconds within which a worker kills itself
    }

    def of(service: str, *more: str) -> dict[str, Any]:
        program, *options = [
            "=".join(here.get(word, word) for word in option.split("=", 1))
            for option in services[service]["command"]
        ]
        return command(f"fleet/{program}", *options, *more)

    ended, killed = threading.Event(), list[int]()

    def work(name: str) -> None:
        while not ended.is_set():
            with subprocess.Popen(**of("worker", "--name", name), stderr=subprocess.PIPE) as worker:
                while worker.poll() is None and not ended.wait(0.05):
                    pass
                worker.terminate()
            if not ended.is_set():
                killed.append(worker.returncode)

    replicas = services["worker"]["deploy"]["replicas"]
    with ThreadPoolExecutor(replicas) as pool, subprocess.Popen(**of("vendor")) as vendor:
        workers = [pool.submit(work, f"worker-{number}") for number in range(replicas)]
        try:
            ran = subprocess.run(**of("shop", "--orders", "6"), capture_output=True, timeout=180)
        finally:
            ended.set()
            vendor.terminate()
    redis.kill()
    shutil.rmtree(folder)
    postgres.removed(database)
    for worker in workers:
        worker.result()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 of 6 orders are done, 6 are paid\n0 orders were paid twice, 0 calls of" in ran.stdout
    assert set(killed) <= {-signal.SIGKILL}
