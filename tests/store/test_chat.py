"""Chats that are kept: what two processes see, branches, forks, conflicts, files."""

from __future__ import annotations

import pickle

import pytest

import llmstream as ls
from llmstream.chats.content import Reasoning, ToolCall, ToolResult
from llmstream.store import StoreError

BIG = bytes(range(256)) * 200


def said(*texts: str) -> list[ls.Message]:
    kinds = (ls.Message.user, ls.Message.assistant)
    return [kinds[at % 2](text) for at, text in enumerate(texts)]


def texts(chat: ls.Chat) -> list[str]:
    return [message.text for message in chat]


def test_messages_come_back_equal(opened):
    given = [
        ls.Message.system("Be brief."),
        ls.Message.user("What is this?", ls.Image(data=BIG, media_type="image/png")),
        ls.Message.assistant(Reasoning("Hm."), ToolCall("c1", "look", "{}"), "I look."),
        ls.Message.tool([ToolResult("c1", "seen", parts=(ls.Image(data=BIG, media_type="image/png"),))]),
        ls.Message.assistant("A picture.").with_meta("mine", {"a": [1]}),
    ]
    opened().chat("one").append(*given)
    assert opened().chat("one").messages() == given


def test_a_file_sent_twice_is_one(store):
    part = ls.Image(data=BIG, media_type="image/png")
    store.chat("one").append(ls.Message.user("A", part), ls.Message.user("B", part))
    store.chat("two").append(ls.Message.user("C", part))
    with store.database.reading() as db:
        assert db.execute("select count(*), sum(size) from files").fetchone() == (1, len(BIG))


def test_a_chat_is_made_by_its_first_word(store):
    chat = store.chat("one")
    assert store.conversations() == []
    assert len(chat) == 0
    chat.append(*said("Where  is\nOslo?"))
    (info,) = store.conversations()
    assert (info.id, info.title, info.messages) == ("one", "Where is Oslo?", 1)


def test_appending_again_adds_nothing(store):
    chat = store.chat("one")
    chat.append(*said("A", "B"))
    chat.replace(*said("A", "B", "C"))
    with store.database.reading() as db:
        assert db.execute("select count(*) from messages").fetchone() == (3,)
    assert texts(store.chat("one")) == ["A", "B", "C"]


def test_a_branch_overwrites_nothing(store):
    chat = store.chat("one")
    chat.append(*said("A", "B", "C", "D"))
    chat.branch(at=2)
    chat.append(*said("E", "F"))
    assert texts(store.chat("one")) == ["A", "B", "E", "F"]
    old, new = chat.branches(at=2)
    assert (old.text, old.length, old.current) == ("C", 4, False)
    assert (new.text, new.length, new.current) == ("E", 4, True)
    assert [branch.id for branch in chat.branches()] == [old.id, new.id]
    assert [message.text for message in chat.messages_of(old)] == ["A", "B", "C", "D"]
    assert texts(chat) == ["A", "B", "E", "F"]
    with pytest.raises(ls.InvalidRequest, match="no branch 99"):
        chat.messages_of(99)
    chat.switch(old)
    assert texts(chat) == texts(store.chat("one")) == ["A", "B", "C", "D"]


def test_the_first_message_may_be_another(store):
    chat = store.chat("one")
    chat.append(*said("A", "B"))
    chat.replace(*said("Z"))
    assert [branch.text for branch in chat.branches(at=0)] == ["A", "Z"]
    assert texts(store.chat("one")) == ["Z"]


def test_the_loser_of_a_race_is_a_branch(opened):
    mine, theirs = opened().chat("one"), None
    mine.append(*said("A", "B"))
    theirs = opened().chat("one")
    theirs.append(*said("C"))
    assert mine.is_branch
    mine.append(*said("D"))
    mine.append(*said("E"))
    assert texts(mine) == ["A", "B", "D", "E"]
    assert not theirs.is_branch
    after = opened().chat("one")
    assert texts(after) == ["A", "B", "C"]
    assert [branch.text for branch in after.branches(at=2)] == ["C", "D"]
    after.switch(after.branches(at=2)[1])
    assert texts(opened().chat("one")) == ["A", "B", "D", "E"]


def test_a_fork_shares_and_goes_its_way(store):
    chat = store.chat("one")
    chat.append(*said("A", "B"))
    fork = chat.fork("two")
    fork.append(*said("C"))
    chat.append(*said("D"))
    assert texts(store.chat("one")) == ["A", "B", "D"]
    assert texts(store.chat("two")) == ["A", "B", "C"]
    assert store.info("two").forked_from == "one"
    with store.database.reading() as db:
        assert db.execute("select count(*) from messages").fetchone() == (4,)


def test_a_fork_without_name_is_in_memory(store):
    chat = store.chat("one")
    chat.append(*said("A"))
    fork = chat.fork()
    fork.append(*said("B"))
    assert texts(store.chat("one")) == ["A"]
    assert texts(fork) == ["A", "B"]
    assert texts(pickle.loads(pickle.dumps(chat))) == ["A"]


def test_a_deleted_chat_is_not_revived(opened):
    chat = opened().chat("one")
    chat.append(*said("A"))
    opened().delete("one")
    with pytest.raises(StoreError, match="was deleted"):
        chat.append(*said("B"))
    assert texts(chat) == ["A"]
    assert opened().conversations() == []


def test_a_failed_beginning_is_no_end(store):
    chat = store.chat("one")

    def fails(db, head):
        raise StoreError("no place")

    with pytest.raises(StoreError, match="no place"):
        chat.add(said("A"), fails, keep=False)
    assert store.conversations() == []
    chat.append(*said("A"))
    assert texts(store.chat("one")) == ["A"]


def test_owners_see_only_their_own(opened):
    ada, bob = opened(owner="ada"), opened(owner="bob")
    ada.chat("one").append(*said("mine"))
    bob.chat("one").append(*said("yours"))
    assert texts(ada.chat("one")) == ["mine"]
    assert texts(bob.chat("one")) == ["yours"]
    assert [hit.excerpt for hit in ada.search("mine")] == ["mine"]
    assert bob.search("mine") == []


def test_wrong_places_are_refused(store):
    chat = store.chat("one")
    chat.append(*said("A"))
    with pytest.raises(ls.InvalidRequest, match="the chat has 1"):
        chat.branch(at=2)
    with pytest.raises(ls.InvalidRequest, match="no branch 99"):
        chat.switch(99)
    with pytest.raises(StoreError, match="cannot be the name"):
        store.chat("a\nb").append(*said("A"))
