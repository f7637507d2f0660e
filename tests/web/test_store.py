from __future__ import annotations

from pathlib import Path

import pytest

import llmstream as ls
from llmstream.web import Conversation, ConversationStore, Turn


def test_conversations_outlive_a_process(tmp_path: Path) -> None:
    first = ConversationStore(tmp_path / "conversations.db")
    first.add(Conversation(id="a", title="A", turns=[Turn(run="r", prompt="Hi")]))
    first.close()
    second = ConversationStore(tmp_path / "conversations.db")
    assert second.get("a").turns == [Turn(run="r", prompt="Hi")]
    second.close()


def test_a_failed_change_stores_nothing() -> None:
    store = ConversationStore()
    store.add(Conversation(id="a", title="A"))

    def change(stored: Conversation) -> None:
        stored.title = "B"
        raise ls.InvalidRequest("no")

    with pytest.raises(ls.InvalidRequest):
        store.update("a", change)
    assert store.get("a").title == "A"
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    path.write_text("not a database, but long enough to be read as one by SQLite " * 20)
    for wrong in (path, tmp_path, tmp_path / "none" / "conversations.db"):
        with pytest.raises(ls.InvalidRequest, match="cannot open the conversations"):
            ConversationStore(wrong)


def test_each_change_has_a_version() -> None:
    store = ConversationStore()
    store.add(Conversation(id="a", title="A"))
    assert [store.update("a", lambda stored: None).version for _ in range(3)] == [1, 2, 3]
    store.close()


def test_the_last_changed_is_first() -> None:
    store = ConversationStore()
    for name, at in (("a", 3.0), ("b", 5.0), ("c", 4.0)):
        store.add(Conversation(id=name, title=name, updated_at_s=at))
    assert [one.id for one in store.summaries()] == ["b", "c", "a"]
    store.close()
