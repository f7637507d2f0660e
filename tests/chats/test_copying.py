"""Copies that share nothing mutable."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from llmstream.chats import Image, Message, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import LateCopies, copy_message, copy_messages
from llmstream.errors import InvalidRequest


def test_plain_frozen_parts_are_shared() -> None:
    message = Message.user("x", Image(data=b"1" * 1000), ToolResult("1", parts=()))
    copy = copy_message(message)
    assert copy == message
    assert copy is not message
    assert all(a is b for a, b in zip(copy.parts, message.parts, strict=True))


def test_metadata_is_deep_copied() -> None:
    message = Message.assistant(Reasoning("r", {"acme": {"list": [1]}}), ToolResult("1", result={"a": [1]}))
    message.set_meta("deep", {"list": [{"x": 1}]})
    copy = copy_message(message)
    assert copy == message
    meta: Any = copy.metadata
    meta["deep"]["list"][0]["x"] = 2
    reasoning, result = copy.parts
    assert isinstance(reasoning, Reasoning)
    assert reasoning.metadata
    assert isinstance(result, ToolResult)
    reasoning.metadata["acme"]["list"].append(2)
    result.result["a"].append(2)
    assert message.metadata == {"deep": {"list": [{"x": 1}]}}
    assert message.parts == (Reasoning("r", {"acme": {"list": [1]}}), ToolResult("1", result={"a": [1]}))


def test_result_part_metadata_is_copied() -> None:
    message = Message.tool([ToolResult("1", parts=(Image(url="u", metadata={"a": {"b": [1]}}),))])
    metadata = copy_message(message).tool_results[0].parts[0].metadata
    assert metadata is not None
    metadata["a"]["b"].append(2)
    assert message.tool_results[0].parts[0].metadata == {"a": {"b": [1]}}


def test_parts_of_others_are_copied_too() -> None:
    class Sketch:
        part_kind = "sketch"

        def __init__(self) -> None:
            self.strokes: list[int] = []

    sketch = Sketch()
    copy = copy_message(Message.user(sketch)).parts[0]
    assert isinstance(copy, Sketch)
    assert isinstance(copy, Part)
    copy.strokes.append(1)
    assert sketch.strokes == []


def test_a_subclass_of_message_stays_one() -> None:
    class Noted(Message):
        notes: list[str] = msgspec.field(default_factory=list)

    noted = Noted("", "user", (Text("x"),), None, ["a"])
    copy = copy_message(noted)
    assert isinstance(copy, Noted)
    assert copy == noted
    copy.notes.append("b")
    assert noted.notes == ["a"]


def test_mutable_part_bytes_are_not_shared() -> None:
    data: Any = bytearray(b"abc")
    copy = copy_message(Message.user(Image(data=data))).parts[0]
    data[0] = 0
    assert isinstance(copy, Image)
    assert copy.data == b"abc"


def test_list_of_parts_becomes_a_tuple() -> None:
    parts: Any = [Text("x")]
    assert copy_message(Message("", "user", parts)).parts == (Text("x"),)


def test_what_cannot_be_copied_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"cannot be copied: TypeError.*lock.*plain values"):
        copy_message(Message("", "user", (), {"lock": threading.Lock()}))


@pytest.mark.parametrize("wrong", ["hello", [Message.user("x")], None])
def test_what_is_no_message_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="a chat is made of Messages"):
        copy_message(wrong)


PLAIN = [
    Message.user("hi"),
    Message.assistant("x", Reasoning("r"), ToolCall("c", "f", "{}")),
    Message.tool([ToolResult("c", "found", name="f")]),
    Message("", "user"),
]
ODD = [
    Message("", "user", (Text("x"),), {"k": [1]}),
    Message.assistant(Text("x", {"openai": {"id": ["i"]}})),
    Message.tool([ToolResult("c", "found", name="f", result={"a": [1]})]),
    Message.tool([ToolResult("c", "found", parts=(Image(url="https://x/y", metadata={"p": {"a": 1}}),))]),
    Message("", "user", [Text("a list")]),  # type: ignore[arg-type]  # not what the type says
]


def test_many_plain_messages_share_parts():
    copies = copy_messages(PLAIN)
    assert copies == PLAIN
    for copied, message in zip(copies, PLAIN, strict=True):
        assert copied is not message
        assert copied.parts is message.parts


@pytest.mark.parametrize("odd", ODD)
def test_mutable_values_copied_among_many(odd):
    copied = copy_messages([*PLAIN, odd])[-1]
    assert copied == copy_message(odd)
    assert copied is not odd
    if odd.metadata is not None:
        assert copied.metadata["k"] is not odd.metadata["k"]
    elif odd.parts:
        assert copied.parts[0] is not odd.parts[0] or odd.parts[0] == Text("a list")


def test_late_copies_are_of_their_moment():
    message = Message.user("hi")
    late = LateCopies([message])
    assert (len(late), late[0], late[0:1], list(late)) == (1, message, (message,), [message])
    assert late[0] is not message
    assert late == (message,)
    assert repr(late) == repr((message,))


def test_non_message_among_messages_refused():
    with pytest.raises(InvalidRequest, match="not of str"):
        copy_messages([Message.user("hi"), "hi"])
