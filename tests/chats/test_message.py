"""Messages."""

from __future__ import annotations

import pytest

from llmstream.chats import (
    Chat,
    Image,
    Message,
    Role,
    Text,
    ToolCall,
    ToolResult,
    dump_messages,
    load_messages,
)
from llmstream.errors import InvalidRequest


def test_new_takes_any_parts_or_none() -> None:
    empty = Message.new("bot", Role.ASSISTANT)
    assert (empty.sender, empty.role, empty.parts, empty.metadata) == ("bot", "assistant", (), None)
    assert Message.new("a", "user", Text("x"), Image(url="u")).parts == (Text("x"), Image(url="u"))
    assert Message.new_text("a", "user", "x") == Message("a", "user", (Text("x"),))


def test_constructors_set_role_and_parts() -> None:
    assert Message.system("s") == Message("", "system", (Text("s"),))
    assert Message.user("u", Image(url="i")) == Message("", "user", (Text("u"), Image(url="i")))
    assert Message.assistant("a") == Message("", "assistant", (Text("a"),))
    assert Message.tool([ToolResult("1"), ToolResult("2")]).tool_results == [ToolResult("1"), ToolResult("2")]


def test_text_joins_texts_and_skips_the_rest() -> None:
    assert Message.user("hello ", Image(url="i"), "world").text == "hello world"
    assert Message.user(Image(url="i")).text == ""
    assert Message.user().text == ""


def test_tool_calls_come_in_order_or_empty() -> None:
    one, two = ToolCall("1", "a"), ToolCall("2", "b")
    assert Message.assistant(one, "text", two).tool_calls == [one, two]
    assert Message.assistant("text").tool_calls == []


def test_set_meta_creates_overwrites_mutates() -> None:
    message = Message.user("x")
    message.set_meta("model", "m1")
    message.set_meta("model", "m2")
    assert message.metadata == {"model": "m2"}


def test_a_stored_none_is_not_a_missing_key() -> None:
    message = Message.user("x")
    assert message.get_meta("k") == (None, False)
    message.set_meta("k", None)
    assert message.get_meta("k") == (None, True)
    assert message.get_meta("other") == (None, False)


def test_with_meta_leaves_the_original_alone() -> None:
    message = Message.user("x")
    assert message.with_meta("k", 1).with_meta("l", 2).metadata == {"k": 1, "l": 2}
    assert message.metadata is None


@pytest.mark.parametrize("given", [("user", "hello"), ("assistant", "Hi there."), ("", "user", "hello")])
def test_role_text_order_is_not_mistaken(given) -> None:
    """Role and text are not taken for sender and role."""
    with pytest.raises(InvalidRequest, match=r"Message.user\(text\)"):
        Message(*given)


def test_foreign_role_stays_as_it_is() -> None:
    message = Message("bob", "moderator", (Text("Hi"),))
    assert load_messages(dump_messages([message])) == [message]
    entry = '{"sender":"user","role":"moderator","parts":[]}'
    saved = f'{{"format":"llmstream.chat","version":1,"messages":[{entry}]}}'
    (loaded,) = Chat.from_json(saved).messages()
    assert (loaded.sender, loaded.role) == ("user", "moderator")


def test_a_role_says_whether_it_is_valid() -> None:
    assert Role.valid("tool")
    assert not Role.valid("moderator")


def test_text_content_is_the_text() -> None:
    assert Message.user("a", "b").text_content == Message.user("a", "b").text == "ab"
