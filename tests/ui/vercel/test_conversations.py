"""Stores of conversations: nothing is overwritten, and what is loaded is what was stored."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools.approval import Approve, Deny
from llmstream.ui.vercel import Conversation, Conversations, MemoryConversations, SQLiteConversations
from llmstream.ui.vercel.conversations import Decided, open_conversations

KEY = '["ada", "c"]'
HELLO = Conversation(
    messages=(Message.user("Hello").with_meta("id", "u1"),), run="r1", message_id="m1", version=0
)


@pytest.fixture(params=["memory:", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Conversations]:
    path = tmp_path / "chats.db"
    opened = open_conversations("memory:" if request.param == "memory:" else f"sqlite:{path}")
    yield opened
    await opened.aclose()


async def test_stored_is_loaded(store: Conversations) -> None:
    @ls.tool(needs_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        return path

    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("delete", {"path": "a"}),))), tools=[delete])
    async with agent.stream("Delete a.") as run:
        await run.collect()
    waiting = Conversation(messages=tuple(run.messages()), suspension=run.suspended)
    assert await store.save(KEY, waiting)
    found = await store.load(KEY)
    assert found is not None
    assert found.version == 1
    assert found.messages == waiting.messages
    assert found.suspension == run.suspended


async def test_stored_decisions_are_loaded(store: Conversations) -> None:
    decided = Decided(
        decisions={"a": Approve({"path": "b"}, note="n"), "b": Approve(), "c": Deny("no")},
        results=(ToolResult("call", "Oslo"),),
        complete=False,
    )
    await store.save(KEY, Conversation(decided=decided))
    found = await store.load(KEY)
    assert found is not None
    assert found.decided == decided


async def test_unknown_one_is_none(store: Conversations) -> None:
    assert await store.load(KEY) is None
    await store.delete(KEY)


async def test_older_version_stores_nothing(store: Conversations) -> None:
    assert await store.save(KEY, HELLO) is True
    assert await store.save(KEY, HELLO) is False
    found = await store.load(KEY)
    assert found is not None
    assert found.version == 1
    assert await store.save(KEY, found) is True
    assert await store.save(KEY, found) is False


async def test_deleted_one_stays_deleted(store: Conversations) -> None:
    """A run that ends later does not bring it back."""
    await store.save(KEY, HELLO)
    found = await store.load(KEY)
    assert found is not None
    await store.delete(KEY)
    assert await store.save(KEY, found) is False
    assert await store.load(KEY) is None


async def test_what_is_loaded_is_a_copy(store: Conversations) -> None:
    await store.save(KEY, HELLO)
    first = await store.load(KEY)
    assert first is not None
    first.messages[0].set_meta("id", "forged")
    second = await store.load(KEY)
    assert second is not None
    assert second.messages == HELLO.messages


async def test_two_processes_share_a_file(tmp_path: Path) -> None:
    one, other = [SQLiteConversations(tmp_path / "chats.db") for _ in range(2)]
    try:
        assert await one.save(KEY, HELLO) is True
        assert await other.save(KEY, HELLO) is False
        found = await other.load(KEY)
        assert found is not None
        assert await other.save(KEY, found) is True
        assert await one.save(KEY, found) is False
    finally:
        await one.aclose()
        await other.aclose()
        await other.aclose()


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """The change to WAL needs a lock that SQLite does not wait for."""
    stores = [SQLiteConversations(tmp_path / "chats.db") for _ in range(8)]
    found = await asyncio.gather(*[store.load(KEY) for store in stores])
    assert found == [None] * 8
    for store in stores:
        await store.aclose()


async def test_damaged_one_is_named(tmp_path: Path) -> None:
    store = SQLiteConversations(tmp_path / "chats.db")
    await store.save(KEY, HELLO)
    with sqlite3.connect(tmp_path / "chats.db") as connection:
        connection.execute("update conversations set data = 'no'")
    connection.close()
    with pytest.raises(ls.DecodeError, match="not a stored conversation"):
        await store.load(KEY)
    await store.aclose()
    with pytest.raises(ls.InvalidRequest, match="closed"):
        await store.load(KEY)


@pytest.mark.parametrize("where", ["chats.db", "sqlite:", "sqlite:///chats.db", "memory:x", "redis://a"])
def test_other_addresses_are_refused(where: str) -> None:
    with pytest.raises(ls.InvalidRequest, match=r"sqlite:chats\.db"):
        open_conversations(where)
    assert isinstance(open_conversations("memory:"), MemoryConversations)
