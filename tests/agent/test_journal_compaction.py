"""A journal does not grow for ever, and is whole after a cancellation at any await."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.agent.journal_lines import Line, read_lines
from llmstream.chats import ToolCall
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from tests.cancelling import CancelledAt


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on the disk is not the question here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@ls.tool
async def look(at: int) -> str:
    """Looks."""
    return f"seen {at}"


@ls.tool(eager=True)
async def early() -> str:
    """Looks at once."""
    return "e"


CALLS = Turn(text="Well.", calls=(Call("look", {"at": 1}), Call("early"), Call("look", {"at": 2})))


def agent(journal: ls.Journal | None, *turns: Turn | str, name: str = "a", **options: Any) -> ls.Agent:
    model = ScriptedModel(*(turns or (CALLS, CALLS, "Done.")))
    return ls.Agent(model, name=name, tools=[look, early], journal=journal, **options)


def runs_of(path: Path) -> list[str]:
    return [line.agent for line in read_lines(str(path)) if line.type == "run"]


async def test_ended_runs_compacted_but_the_last(tmp_path: Path) -> None:
    """The last run of each agent stays."""
    path = tmp_path / "journal"
    journal = ls.Journal(path, compact_after=50)
    sizes = []
    for _ in range(20):
        for name in ("a", "b"):
            last = agent(journal, name=name).stream("Go")
            await last.collect()
        sizes.append(path.stat().st_size)
    assert max(sizes[6:]) < 2 * max(sizes[:6])
    assert len(runs_of(path)) < 10
    assert agent(None).recover(path)[-1].text == "Done."
    assert agent(None, name="b").recover(path) == last.messages()


async def test_small_writers_compact_for_others(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for _ in range(12):
        await agent(ls.Journal(path, compact_after=50)).run("Go")
    assert len(runs_of(path)) < 6


async def test_compaction_midrun_loses_nothing(tmp_path: Path) -> None:
    """What a crash in the middle of a tool would leave is the file as the tool finds it."""

    async def crashed(name: str, compact_after: int | None) -> tuple[list[str], int]:
        journal, left = ls.Journal(tmp_path / name, compact_after=compact_after), tmp_path / f"{name}-left"

        @ls.tool
        async def dies() -> None:
            shutil.copy(journal.path, left)

        model = ScriptedModel(*[CALLS] * 8, Turn(calls=(Call("dies"),)), "Done.")
        await ls.Agent(model, name="a", tools=[look, early, dies], journal=journal).run("Go")
        found = agent(None).recover(left)
        return [r.content for m in found for r in m.tool_results], len(list(read_lines(str(left))))

    whole, lines = await crashed("whole", None)
    short, fewer = await crashed("short", 7)
    assert short == whole
    assert "may have had effects" in short[-1]
    assert fewer < lines / 2


async def test_what_a_crash_left_is_never_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    before = ls.Journal(path)
    await before.write(Line("run", "crashed", agent="a"))
    await before.write(Line("call", "crashed", call=ToolCall("c", "look", "{}")))
    before.close()
    journal = ls.Journal(path, compact_after=5)
    for _ in range(3):
        await agent(journal).run("Go")
    lines = [line for line in read_lines(str(path)) if line.run == "crashed"]
    assert [line.type for line in lines] == ["run", "call"]


async def test_uncompactable_journal_continues(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"no line of ours\n")
    await agent(ls.Journal(path, compact_after=4)).run("Go")
    assert "could not be compacted" in caplog.text
    assert path.read_bytes().count(b'"end"') == 1
    with pytest.raises(ls.InvalidRequest):
        ls.Journal(path, compact_after=0)


async def test_journal_of_cancelled_run_resumes(tmp_path: Path) -> None:
    """The run is cancelled at any await."""
    path = tmp_path / "journal"
    journal = ls.Journal(path, compact_after=60)
    for place in range(1, 500):
        run = agent(journal).stream("Go")
        driver = CancelledAt(run.collect(), place)

        async def drive(driver: CancelledAt = driver) -> None:
            await driver

        task = asyncio.create_task(drive())
        await asyncio.wait([task])
        assert len(asyncio.all_tasks()) == 1
        if path.exists() and runs_of(path):
            found = agent(None).recover(journal)
            calls = [call.id for m in found for call in m.tool_calls]
            assert [r.tool_call_id for m in found for r in m.tool_results] == calls
            again = agent(None, "Here I am.").stream([*found, ls.Message.user("And?")])
            assert (await again.collect()).text == "Here I am."
        if not task.cancelled():
            break
    assert 20 < place < 499
    assert len(runs_of(path)) < 20  # runs that were cancelled are dropped too
