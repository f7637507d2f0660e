"""The pytest plugin, in projects of its own: nothing here is seen by them but the installed package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guides" / "testing.md").read_text("utf-8")

HEAD = """
import asyncio
import time
import llmstream as ls
import pytest
from llmstream.testing import Do, Pace, Refuse, Turn, answered

SAYS = b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\\n\\n'
"""


def run(folder: Path, source: str, *options: str, mode: str = "auto") -> str:
    """The words of pytest over one test file."""
    (folder / "test_it.py").write_text(HEAD + source, "utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers --strict-config -p llmstream.testing.pytest_plugin\n"
        f"asyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *options, str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.stdout + done.stderr


def counts(said: str) -> dict[str, int]:
    last = said.strip().splitlines()[-1]
    return {
        word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)", last)
    }


def test_fixtures_and_markers_work(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "hello.ndjson").write_text(
        '{"message":{"role":"assistant","content":"Recorded."},"done":false}\n'
        '{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n'
    )
    said = run(
        tmp_path,
        """
@pytest.mark.llm_simulator(Turn(fault=Refuse(status=503, retry_after_s=0)), "Here.")
async def test_turns(llm_simulator):
    model = ls.Model("anthropic:m", base_url=llm_simulator.url, api_key="x")
    assert (await model.stream("?").collect()).text == "Here."
    assert len(llm_simulator.requests) == 2

async def test_without_a_script_it_is_the_demo(llm_simulator):
    model = ls.Model("ollama:m", base_url=llm_simulator.url)
    assert (await model.stream("Hi").collect()).text

@pytest.mark.llm_recording("answers/hello.ndjson")
async def test_a_recording(llm_recording):
    model = ls.Model("ollama:m", base_url=llm_recording.url)
    assert (await model.stream("?").collect()).text == "Recorded."

@pytest.mark.llm_fault_server(answered(SAYS, Do.RESET))
async def test_faults(llm_fault_server, llm_no_leaks):
    model = ls.Model("openai:m", base_url=llm_fault_server.url, api_key="x")
    with pytest.raises(ls.ConnectionLost):
        await model.stream("?").collect()

@pytest.mark.llm_simulator(Turn(text="a b c", pace=Pace(first_s=1000, delta_s=200)))
async def test_the_clock_is_everybodys(llm_virtual_clock, llm_simulator):
    began = time.monotonic()
    model = ls.Model(
        "openai:m", base_url=llm_simulator.url + "/v1", api_key="x",
        deadlines=ls.Deadlines(first_event_s=1001, idle_s=201),
    )
    assert (await model.stream("?").collect()).text == "a b c"
    assert llm_virtual_clock.elapsed_s == pytest.approx(1400)
    assert time.monotonic() - began < 100

@pytest.mark.llm_virtual_clock
@pytest.mark.llm_no_leaks
async def test_markers_alone(tmp_path):
    await asyncio.sleep(5000)
""",
    )
    assert counts(said) == {"passed": 6}, said


def test_what_is_wrong_fails(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
@pytest.mark.llm_no_leaks(within_s=0.05)
async def test_a_task_stays():
    test_a_task_stays.task = asyncio.create_task(asyncio.sleep(60), name="forgotten")

def test_no_coroutine(llm_virtual_clock):
    pass

async def test_no_marker(llm_recording):
    pass

async def test_no_scripts(llm_fault_server):
    pass

@pytest.mark.llm_simulator("a", object())
async def test_two_scripts(llm_simulator):
    pass
""",
    )
    assert counts(said) == {"failed": 2, "error": 3}, said
    assert "leaked: task forgotten" in said
    assert "need an `async def` test" in said
    assert 'needs the marker @pytest.mark.llm_recording("path")' in said


def test_sync_test_has_servers_in_a_thread(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
@pytest.mark.llm_simulator(lambda request: "Yes.")
def test_it(llm_simulator):
    model = ls.Model("ollama:m", base_url=llm_simulator.url)
    assert asyncio.run(model.stream("?").collect()).text == "Yes."
""",
    )
    assert counts(said) == {"passed": 1}, said


def test_a_project_may_forbid_real_requests(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
async def ask():
    await ls.Model("openai:m", base_url="http://192.0.2.1:9/v1", api_key="x").stream(
        "?", deadlines=ls.Deadlines(connect_s=0.01), retry=ls.Retry(max_retries=0)
    ).collect()

async def test_forbidden():
    with pytest.raises(ls.InvalidRequest, match="forbids real requests"):
        await ask()

@pytest.mark.llm_real_requests
async def test_allowed():
    with pytest.raises(ls.TransportError):
        await ask()
""",
        "-o",
        "llm_forbid_requests=true",
    )
    assert counts(said) == {"passed": 2}, said


def test_works_with_anyio_instead(tmp_path: Path) -> None:
    """anyio takes the place of pytest-asyncio."""
    said = run(
        tmp_path,
        """
@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
@pytest.mark.llm_virtual_clock
@pytest.mark.llm_simulator("Yes.")
async def test_it(llm_simulator):
    await asyncio.sleep(5000)
    model = ls.Model("anthropic:m", base_url=llm_simulator.url, api_key="x")
    assert (await model.stream("?").collect()).text == "Yes."
""",
        mode="strict",
    )
    assert counts(said) == {"passed": 1}, said


def test_project_without_use_pays_nothing() -> None:
    lines = [
        "import sys, pytest",
        "before = set(sys.modules)",
        "import llmstream.testing.pytest_plugin",
        "print(*sorted(name.partition('.')[0] for name in set(sys.modules) - before))",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not {"aiohttp", "msgspec", "asyncio", "anyio", "ssl"} & set(done.stdout.split()), done.stdout


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    examples = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "mark.llm_" in code]
    if not examples:
        pytest.fail("docs/guides/testing.md shows nothing of the plugin")
    said = run(tmp_path, "\n".join(examples))
    assert counts(said).keys() == {"passed"}, said


CASSETTES = """
@pytest.fixture
def told():
    return "Hi"

@pytest.mark.cassette
async def test_marked(told):
    assert (await ls.Model("sim:demo").ask(told)).text.startswith("You said: Hi")

@pytest.mark.cassette
@pytest.mark.parametrize("told", ["one", "two/three"])
def test_sync(told):
    assert asyncio.run(ls.Model("sim:demo").ask(told)).text.startswith(f"You said: {told}")

@pytest.mark.cassette
async def test_fixture(llm_cassette):
    assert llm_cassette.path.name == "test_fixture.json"
    await ls.Model("sim:demo").ask("Hello")
"""


def test_cassettes_are_recorded_and_replayed(tmp_path: Path) -> None:
    """In the second run nothing is sent, and a changed test shows what differs."""
    assert counts(run(tmp_path, CASSETTES)) == {"passed": 4}
    names = sorted(file.name for file in (tmp_path / "cassettes" / "test_it").iterdir())
    assert names == [
        "test_fixture.json",
        "test_marked.json",
        "test_sync-one.json",
        "test_sync-two-three-7eae973a.json",
    ]
    no_demo = CASSETTES.replace('"sim:demo"', '"sim:demo", base_url="http://127.0.0.1:9"')
    assert counts(run(tmp_path, no_demo, "--llm-cassettes=none")) == {"passed": 4}
    changed = no_demo.replace('return "Hi"', 'return "Hey"')
    said = run(tmp_path, changed, "--llm-cassettes=none")
    assert counts(said) == {"passed": 3, "failed": 1}
    assert "UnrecordedRequest" in said
    assert '"text": "Hey"' in said


SAME_NAMES = """
class TestOne:
    @pytest.mark.cassette
    def test_it(self):
        assert asyncio.run(ls.Model("sim:demo").ask("one")).text.startswith("You said: one")

class TestTwo:
    @pytest.mark.cassette
    def test_it(self):
        assert asyncio.run(ls.Model("sim:demo").ask("two")).text.startswith("You said: two")

@pytest.mark.cassette
@pytest.mark.parametrize("said", ["Hi!", "Hi?", "Hi", "Hi there. " * 30, "Hi there. " * 29])
def test_it(said):
    assert asyncio.run(ls.Model("sim:demo").ask(said)).text.startswith(f"You said: {said}"[:-1])
"""


def test_each_test_has_its_own_cassette(tmp_path: Path) -> None:
    """Also methods of two classes with the same name, and parameters that differ in what no file may have."""
    for _ in range(2):
        assert counts(run(tmp_path, SAME_NAMES)) == {"passed": 7}
    assert len(list((tmp_path / "cassettes" / "test_it").iterdir())) == 7
