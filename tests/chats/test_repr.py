"""`repr` of messages: one line, without long text, payloads and addresses that may hold a credential."""

from __future__ import annotations

from llmstream.chats import (
    Custom,
    Image,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UnknownPart,
)


def test_each_part_is_in_one_line() -> None:
    parts = (
        Reasoning("Hm."),
        ToolCall("1", "find", '{"a":\n1}', metadata={"x": {"signature": "secret"}}),
        ToolResult("1", "no", is_error=True, name="find"),
        Custom("openai.x", {"openai": {"raw": "secret"}}),
        UnknownPart("video", b"secret"),
        Source("url", url="https://a.b/c?key=secret"),
        Image(url="https://user:secret@a.b/c"),
    )
    assert repr(Message("bot", "assistant", parts)) == (
        "Message(assistant, Reasoning('Hm.'), ToolCall('find', '{\"a\":\\n1}'), "
        "ToolResult('find', failed: 'no'), Custom('openai.x'), UnknownPart('video', 6 bytes), "
        "Source('https://a.b…'), Image('https://a.b…'), sender='bot')"
    )


def test_long_text_shows_its_length() -> None:
    assert repr(Message.user("x" * 1204)) == f"Message(user, Text('{'x' * 80}…' (1,204 characters)))"
    assert repr(Message.user(Image(data=bytes(2048), media_type="image/png"))) == (
        "Message(user, Image(image/png, 2,048 bytes))"
    )


def test_many_parts_show_as_a_number() -> None:
    assert repr(Message("", "user", (Text("a"),) * 10)).endswith("Text('a'), … 2 more parts)")


def test_str_of_a_message_is_its_text() -> None:
    assert str(Message.user("x" * 500)) == "x" * 500
