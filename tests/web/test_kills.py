"""A process that is killed at each write of a conversation: what the next process finds.

Each point is before or after a write of the conversation or of the log, or within the tool. The process asks,
approves and reads to the end; the next one views the conversation and continues it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.log.sqlite import SQLiteStore
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.web import Conversations, ConversationStore, Decision, View
from tests.ui.vercel.test_chat_kills import Point, killed_everywhere

from .test_conversations import approval_of, text

LEASE_S = 0.3
PAY = Turn(text="Pay.", calls=(Call("pay", {"euros": 3}),))


def agent_of(folder: Path, *turns: object, point: Point | None = None) -> ls.Agent:
    @ls.tool(needs_approval=True)
    def pay(euros: int) -> str:
        """Pay."""
        with (folder / "paid").open("a") as file:
            file.write(f"{euros},")
        if point is not None:
            point.reach("tool")
        return f"paid {euros}"

    return ls.Agent(ScriptedModel(*turns), tools=[pay])


async def ended(conversations: Conversations, view: View) -> View:
    """The view after its open run has ended; it may have ended by now."""
    async with asyncio.timeout(10):
        while view.open_run is not None:
            async for _ in conversations.follow(view.open_run):
                pass
            view = await conversations.view(view.id)
    return view


async def killed(folder: Path, at: str) -> None:
    """What the process does that is killed; one that gets to its end says so."""
    point = Point(at)
    for name in ("acquire", "append"):
        point.around(SQLiteStore, name)
    write = ConversationStore.update

    def writing(*args: object) -> object:
        point.reach("update")
        found = write(*args)
        point.reach("update")
        return found

    setattr(ConversationStore, "update", writing)
    agent = agent_of(folder, PAY, "Done.", point=point)
    async with ls.open_logs(f"sqlite:{folder / 'runs.db'}", lease_s=LEASE_S) as logs:
        conversations = Conversations(agent, logs, ConversationStore(folder / "web.db"))
        view = await ended(conversations, await conversations.begin("Go"))
        view = await conversations.decide(view.id, {approval_of(view): Decision(approve=True)})
        await ended(conversations, view)
    print("complete")


async def check_next_process(folder: Path) -> bool:
    """Nothing that was stored is lost, nothing hangs, and the tool never runs twice.

    returns: whether a decision was stored whose run had not begun
    """
    paid, store = folder / "paid", ConversationStore(folder / "web.db")
    async with ls.open_logs(f"sqlite:{folder / 'runs.db'}", lease_s=LEASE_S) as logs:
        conversations = Conversations(agent_of(folder, "Paid.", "Paid."), logs, store)
        if not (found := conversations.summaries()):
            return False
        last = store.get(found[0].id).turns[-1:]
        decided = bool(last and last[0].waited)
        view = await ended(conversations, await conversations.view(found[0].id))
        assert view.waiting or not decided
        if view.waiting:
            assert not paid.exists()
            view = await conversations.decide(view.id, {approval_of(view): Decision(approve=True)})
            view = await ended(conversations, view)
            assert text(view) == "Paid."
            assert paid.read_text() == "3,"
        view = await ended(conversations, await conversations.send(view.id, "Go on"))
        assert text(view) == "Paid."
        assert not paid.exists() or paid.read_text() == "3,"
    return decided


@pytest.mark.slow
async def test_killed_at_every_write(tmp_path: Path) -> None:
    kinds = ("acquire", "append", "update", "tool")
    points, decided = await killed_everywhere(__name__, kinds, tmp_path, check_next_process)
    assert points > 15
    # After the turn was stored, and before its run begins.
    assert decided > 1


if __name__ == "__main__":
    asyncio.run(killed(Path(sys.argv[1]), sys.argv[2]))
