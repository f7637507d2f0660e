"""A server that is killed at each write of a conversation: what its pages find when it has started again.

Each point is before or after a write of the conversation or of the log, or within the tool. The drill asks,
approves and reads to the end; the server that follows loads the conversation and goes on with it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.log.sqlite import SQLiteStore
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import vercel
from llmstream.ui.vercel import chats as chats_module
from llmstream.ui.vercel.conversations import SQLiteConversations
from tests.ui.vercel.test_chats import DELETE, ROOT, Page

LEASE_S = 0.3
LOOK = Turn(text="Look.", calls=(Call("weather", {"city": "Oslo"}),))


class Point:
    """The point of a process at which it is killed: `kind:number`.

    Points are numbered by kind, because a log commits its events in more or fewer writes each time.
    """

    def __init__(self, at: str) -> None:
        self.kind, _, number = at.partition(":")
        self.left = int(number)

    def reach(self, kind: str) -> None:
        if kind != self.kind:
            return
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def around(self, owner: type, name: str) -> None:
        """Makes two points of a method, of the kind `name`."""
        write = getattr(owner, name)

        async def writing(*args: object) -> object:
            self.reach(name)
            found = await write(*args)
            self.reach(name)
            return found

        setattr(owner, name, writing)


def agent_of(folder: Path, *turns: object, point: Point | None = None) -> ls.Agent:
    @ls.tool(needs_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        with (folder / "deleted").open("a") as file:
            file.write(path)
        if point is not None:
            point.reach("tool")
        return f"{path} is gone"

    def weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"{city}: -2"

    return ls.Agent(ScriptedModel(*turns), tools=[delete, weather])


async def killed(folder: Path, at: str) -> None:
    """What the process does that is killed; one that gets to its end says so."""
    point = Point(at)
    for owner, name in ((SQLiteStore, "acquire"), (SQLiteStore, "append"), (SQLiteConversations, "save")):
        point.around(owner, name)
    where, agent = f"sqlite:{folder / 'chats.db'}", agent_of(folder, LOOK, DELETE, "Done.", point=point)
    async with ls.open_logs(where, lease_s=LEASE_S) as logs, vercel.Chats(where, agent, logs=logs) as chats:
        page = Page(chats)
        await page.say("Go")
        page.decide(True)
        await page.send()
    print("complete")


async def check_next_server(folder: Path) -> bool:
    """Nothing is lost that was stored, nothing hangs, and the tool never runs twice.

    returns: whether a decision was stored whose run had not begun
    """
    where, agent = f"sqlite:{folder / 'chats.db'}", agent_of(folder, "On.", "On.")
    store = SQLiteConversations(str(folder / "chats.db"))
    found = await store.load('["ada", "c"]')
    await store.aclose()
    decided = found is not None and found.decided is not None
    async with ls.open_logs(where, lease_s=LEASE_S) as logs, vercel.Chats(where, agent, logs=logs) as chats:
        page = Page(chats)
        body = await chats.resume("c", user="ada")
        data = b"".join([chunk async for chunk in body])
        assert body.status != 200 or data.endswith(b"data: [DONE]\n\n")
        await asyncio.sleep(2 * chats_module._START_S)  # a run that was about to start never will
        page.messages = await chats.load("c", user="ada")
        calls = [part for message in page.messages for part in message["parts"] if "toolCallId" in part]
        if decided:
            assert [part["state"] for part in calls] == ["output-available"] * 2
            assert (folder / "deleted").read_text() == "a"
            assert page.texts[-1].endswith("On.")
        assert {part["state"] for part in calls} <= {"output-available", "output-error", "approval-requested"}
        if any(part["state"] == "approval-requested" for part in calls):
            page.decide(True)
            await page.send()
            assert page.texts[-1].endswith("On.")
            assert (folder / "deleted").read_text() == "a"
        page.number = len(page.messages)
        await page.say("Go on")
        assert page.texts[-2:] == ["Go on", "On."]
        assert not (folder / "deleted").exists() or (folder / "deleted").read_text() == "a"
    return decided


async def killed_everywhere(
    module: str, kinds: tuple[str, ...], tmp_path: Path, check: Callable[[Path], Awaitable[bool]]
) -> tuple[int, int]:
    """Kills a program at each of its points in turn, until it gets to its end, and checks what it leaves.

    returns: how many points there were, and how often the check was true
    """
    points = decided = 0
    for kind in kinds:
        for number in itertools.count():
            folder = tmp_path / f"{kind}-{number}"
            folder.mkdir()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, str(folder), f"{kind}:{number}"),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
            )
            said, _ = await process.communicate()
            if said:
                assert number, f"there is no point of the kind {kind!r}"
                break
            assert process.returncode == -signal.SIGKILL
            decided += await check(folder)
            points += 1
    return points, decided


@pytest.mark.slow
async def test_killed_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats_module, "_START_S", 0.05)
    kinds = ("acquire", "append", "save", "tool")
    points, decided = await killed_everywhere(__name__, kinds, tmp_path, check_next_server)
    assert points > 15
    # After it was stored, around the claim of its run, and before its run may begin.
    assert decided > 1


if __name__ == "__main__":
    asyncio.run(killed(Path(sys.argv[1]), sys.argv[2]))
