"""The container: what goes in, what comes out, and who may change it."""

from __future__ import annotations

import copy
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest

from llmstream.chats import Chat, Message, Reasoning, Role, Text
from llmstream.errors import DecodeError, InvalidRequest


def three() -> Chat:
    return Chat(Message.system("be brief"), Message.new_text("alice", "user", "hi"), Message.assistant("yes"))


def texts(chat: Chat) -> list[str]:
    return [message.text for message in chat]


def test_new_chat_is_ready_without_a_loop() -> None:
    chat = Chat()
    assert len(chat) == chat.len() == 0
    assert chat.last() is None
    assert chat.messages() == list(chat) == chat.by_sender("x") == []
    assert chat.system_prompt() == ""
    assert chat.since(0) is None
    chat.append(Message.user("a"))
    assert texts(chat) == ["a"]


@pytest.mark.parametrize("index", [0, -1, 1])
def test_at_on_an_empty_chat_raises(index: int) -> None:
    with pytest.raises(IndexError, match="the chat has 0"):
        Chat().at(index)


def test_at_counts_from_start_not_negative() -> None:
    chat = three()
    assert chat.at(2).text == "yes"
    for index in (-1, -3, 3):
        with pytest.raises(IndexError, match=f"no message {index}"):
            chat.at(index)


def test_append_takes_none_or_many() -> None:
    chat = Chat()
    chat.append()
    assert len(chat) == 0
    chat.append(Message.user("a"), Message.user("b"))
    assert texts(chat) == ["a", "b"]
    last = chat.last()
    assert last is not None
    assert last.text == "b"


def test_append_with_a_bad_message_adds_none() -> None:
    chat = three()
    wrong: Any = "text"
    with pytest.raises(InvalidRequest, match=r"Message\.user"):
        chat.append(Message.user("good"), wrong)
    with pytest.raises(InvalidRequest):
        chat.replace(Message.user("good"), wrong)
    assert len(chat) == 3


def test_replace_may_shrink_and_may_empty() -> None:
    chat = three()
    chat.replace(Message.user("a"), Message.user("b"))
    assert texts(chat) == ["a", "b"]
    chat.replace()
    assert len(chat) == 0
    assert chat.last() is None


def test_since_gives_tail_none_out_of_range() -> None:
    chat = Chat(Message.user("a"), Message.user("b"))
    assert [m.text for m in chat.since(0) or []] == ["a", "b"]
    assert [m.text for m in chat.since(1) or []] == ["b"]
    assert chat.since(len(chat)) is None
    assert chat.since(5) is None
    assert chat.since(-1) is None


def test_by_sender_keeps_order() -> None:
    chat = Chat(*(Message.new_text(s, "user", str(i)) for i, s in enumerate("abab")))
    assert [m.text for m in chat.by_sender("a")] == ["0", "2"]
    assert chat.by_sender("c") == []


def test_first_system_message_is_the_prompt() -> None:
    """Its position does not matter."""
    chat = Chat(Message.user("u"), Message.system("one"), Message.system("two"))
    assert chat.system_prompt() == "one"
    assert Chat(Message.user("u")).system_prompt() == ""


def test_each_goes_in_order_until_false() -> None:
    seen: list[tuple[int, str]] = []

    def fn(index: int, message: Message) -> bool:
        seen.append((index, message.text))
        return index < 1

    three().each(fn)
    assert seen == [(0, "be brief"), (1, "hi")]


def test_each_reads_a_snapshot() -> None:
    """The callback may append and replace."""
    chat, seen = three(), []

    def fn(index: int, message: Message) -> bool:
        seen.append(message.text)
        chat.append(Message.user("more"))
        if index == 1:
            chat.replace()
        return True

    chat.each(fn)
    assert seen == ["be brief", "hi", "yes"]
    assert texts(chat) == ["more"]


def test_iteration_sees_a_snapshot() -> None:
    chat = three()
    for message in chat:
        chat.append(message)
    assert len(chat) == 6


def spoil(message: Message) -> None:
    """Change everything in a message that can be changed."""
    message.sender, message.role = "mallory", "user"
    message.metadata["deep"]["list"].append("spoiled")  # type: ignore[index]  # set by the test
    part = message.parts[0]
    assert isinstance(part, Reasoning)
    assert part.metadata is not None
    part.metadata["acme"]["signature"] = "spoiled"
    message.parts = (*message.parts, Text("spoiled"))


def precious() -> Message:
    return Message(
        "bob", Role.SYSTEM, (Reasoning("r", {"acme": {"signature": "s"}}),), {"deep": {"list": [1]}}
    )


def test_returned_values_cannot_alter_chat() -> None:
    chat = Chat(precious())
    spoil(chat.at(0))
    spoil(chat.messages()[0])
    spoil((chat.since(0) or [])[0])
    spoil(chat.by_sender("bob")[0])
    spoil(next(iter(chat)))

    def spoil_each(_: int, message: Message) -> bool:
        spoil(message)
        return True

    chat.each(spoil_each)
    last = chat.last()
    assert last is not None
    spoil(last)
    chat.messages().clear()
    assert chat.messages() == [precious()]


def test_what_went_in_cannot_alter_the_chat() -> None:
    given = [precious() for _ in range(3)]
    chat = Chat(given[0])
    chat.append(given[1])
    spoil(given[0])
    spoil(given[1])
    assert chat.messages() == [precious(), precious()]
    chat.replace(given[2])
    spoil(given[2])
    assert chat.messages() == [precious()]


def test_forks_and_copies_are_independent() -> None:
    chat = Chat(precious())
    for branch in (chat.fork(), Chat(*chat.messages()), copy.deepcopy(chat), copy.copy(chat)):
        branch.append(Message.user("only here"))
        spoil(branch.at(0))
        assert len(branch) == 2
    chat.append(Message.user("a"), Message.user("b"))
    assert len(chat) == 3
    assert pickle.loads(pickle.dumps(chat)).messages() == chat.messages()


def test_repr_is_short_and_tells_no_content() -> None:
    assert repr(three()) == "<Chat of 3 messages>"
    assert repr(Chat(Message.user("secret"))) == "<Chat of 1 message>"


def test_save_then_load_gives_same_messages(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text("old")
    path.chmod(0o644)
    chat = Chat(precious(), Message.user("hé"))
    chat.save(path)
    assert Chat.load(str(path)).messages() == chat.messages()
    assert os.listdir(tmp_path) == ["chat.json"]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    three().save(path)
    with pytest.raises(InvalidRequest):
        Chat(Message("", "user", (), {"x": object})).save(path)
    assert len(Chat.load(path)) == 3


def test_load_names_the_damaged_file(tmp_path: Path) -> None:
    """A missing file is a FileNotFoundError."""
    path = tmp_path / "chat.json"
    with pytest.raises(FileNotFoundError):
        Chat.load(path)
    path.write_bytes(b'{"format"')
    with pytest.raises(DecodeError, match=r"chat\.json: not a saved chat"):
        Chat.load(path)
