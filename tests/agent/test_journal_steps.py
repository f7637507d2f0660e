"""Steps in a journal: the port in a file, over kills and compactions.

This file is also the program that is killed: `python -m tests.agent.test_journal_steps FOLDER PLACE`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.agent.durable_steps import Steps
from llmstream.agent.journal import JournalInUse
from llmstream.durable.conformance import STEPS_CHECKS, StepsCheck
from llmstream.errors import InvalidRequest, Lost
from llmstream.testing import ScriptedModel
from tests.durable.clerk import ANSWER, PROMPT, Effects, clerk

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("check", STEPS_CHECKS, ids=lambda check: check.__name__)
async def test_steps_pass_every_check(check: StepsCheck, tmp_path: Path) -> None:
    journals = list[ls.Journal]()

    async def open_steps(run: str) -> Steps:
        journals.append(ls.Journal(tmp_path / "steps.journal"))
        return await journals[-1].steps(run)

    await check(open_steps)
    journals[-1].close()


def gives(data: bytes) -> Callable[[], Awaitable[bytes]]:
    async def do() -> bytes:
        return data

    return do


async def test_compaction_keeps_open_runs(tmp_path: Path) -> None:
    """Steps stay until they are forgotten; the begin of a step that is done goes."""
    journal = ls.Journal(tmp_path / "steps.journal", compact_after=40)
    kept, gone = await journal.steps("kept"), await journal.steps("gone")
    for number in range(12):
        await kept.step(f"{number}/call/a", gives(b"%d" % number), again=False)
    await gone.step("0/model", gives(b"x"), again=True)
    await journal.forget("gone")
    with pytest.raises(Lost):
        await gone.step("1/model", gives(b"y"), again=True)
    for _ in range(20):
        await journal.steps("kept")
    text = (tmp_path / "steps.journal").read_text()
    assert '"gone"' not in text
    assert '"begin"' not in text
    again = await journal.steps("kept")
    assert [await again.wait(f"{number}/call/a", 0) for number in range(12)] == [
        b"%d" % number for number in range(12)
    ]
    assert await (await journal.steps("gone")).wait("0/model", 0) is None
    journal.close()


async def test_unwritten_step_ends_the_run(tmp_path: Path) -> None:
    """Its file was deleted: no later step of the run is done, and the next run makes a new file."""
    journal = ls.Journal(tmp_path / "steps.journal")
    steps = await journal.steps("order")
    (tmp_path / "steps.journal").unlink()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            await steps.step("0/call/a", gives(b"x"), again=False)
    assert await (await journal.steps("order")).wait("0/call/a", 0) is None
    journal.close()


async def test_journal_has_histories_and_steps(tmp_path: Path) -> None:
    """One file for both: `recover` gives the history of the agent's run, and the steps go on with theirs."""
    journal = ls.Journal(tmp_path / "both.journal", compact_after=10)
    effects = Effects(tmp_path / "effects")
    agent = clerk(effects, journal=journal)
    run = agent.stream(PROMPT, steps=await journal.steps("order"))
    assert (await run.collect()).text == ANSWER
    assert [m.text for m in agent.recover(journal)] == [m.text for m in run.messages()]
    again = agent.stream(PROMPT, steps=await journal.steps("order"))
    assert (await again.collect()).text == ANSWER
    assert len(effects.lines("tool")) == len(effects.lines("asked")) == 3
    journal.close()


async def test_sent_message_is_in_the_file(tmp_path: Path) -> None:
    """It is on disk when `send` returns: a process that goes on has it, and a run that is over refuses it."""
    model = ScriptedModel("One.", "Two.")
    agent = ls.Agent(model, name="clerk")
    journal = ls.Journal(tmp_path / "steps.journal")
    await (await journal.steps("order")).send("And be quick.")
    steps = await journal.steps("order")
    run = agent.stream(PROMPT, steps=steps)
    with pytest.raises(InvalidRequest, match=r"runs\.send"):
        run.send("It would be lost.")
    async for event in run:
        if isinstance(event, ls.StepFinish) and event.step == 0:
            await asyncio.gather(*(steps.send(text) for text in ("And two?", "And three?")))
    model.assert_exhausted()
    texts = [m.text for m in run.messages()]
    assert [*texts[:3], *sorted(texts[3:5]), texts[5]] == [
        *(PROMPT, "And be quick.", "One.", "And three?", "And two?", "Two.")
    ]
    with pytest.raises(InvalidRequest, match="has ended"):
        await steps.send("Too late.")
    again = agent.stream(PROMPT, steps=await journal.steps("order"))
    await again.collect()
    assert [m.text for m in again.messages()] == texts
    journal.close()


def program(folder: Path, place: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.agent.test_journal_steps", str(folder), place],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_next_process_goes_on(tmp_path: Path) -> None:
    """Killed in the tool that pays; the next process asks for no recorded response and pays nothing again."""
    killed = program(tmp_path, "after pay")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = program(tmp_path, "")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(f"{ANSWER} The process ended while the call ran.")
    effects = Effects(tmp_path / "effects")
    assert len(effects.lines("tool")) == len(set(effects.lines("tool"))) == 3
    assert len(effects.lines("asked")) == 3


async def test_file_of_another_process(tmp_path: Path) -> None:
    steps = await ls.Journal(tmp_path / "steps.journal").steps("order")
    await steps.step("0/model", gives(b"x"), again=True)
    code = (
        "import asyncio, llmstream as ls\n"
        f"asyncio.run(ls.Journal({str(tmp_path / 'steps.journal')!r}).steps('order'))"
    )
    found = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert JournalInUse.__name__ in found.stderr


async def work(folder: Path, place: str) -> None:
    def at(here: str) -> None:
        if here == place:
            os.kill(os.getpid(), signal.SIGKILL)

    agent = clerk(Effects(folder / "effects"), at=at)
    steps = await ls.Journal(folder / "steps.journal").steps("order")
    print((await agent.stream(PROMPT, steps=steps).collect()).text)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
