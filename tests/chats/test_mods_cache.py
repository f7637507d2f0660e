"""The oldest saved form, a bare list of messages."""

from __future__ import annotations

import pytest

from llmstream.chats import Chat, Message, Role, Text, ToolCall, ToolResult, load_messages
from llmstream.errors import DecodeError


def test_old_cache_loads_calls_and_results() -> None:
    old = b"""
    [{"role": "system", "content": "be brief"},
     {"role": "user", "content": "what day is it?", "tool_call_id": "", "tool_calls": null},
     {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "date", "arguments": "{}"}]},
     {"role": "tool", "content": "Friday", "tool_call_id": "c1"},
     {"role": "assistant", "content": "Friday."}]"""
    assert load_messages(old) == [
        Message.system("be brief"),
        Message.user("what day is it?"),
        Message.assistant(ToolCall("c1", "date", "{}")),
        Message.tool([ToolResult("c1", "Friday", name="date")]),
        Message.assistant("Friday."),
    ]
    assert Chat.from_json(Chat.from_json(old).to_json()).messages() == load_messages(old)


def test_calls_without_ids_get_ids_in_order() -> None:
    old = b"""[
     {"role": "assistant", "content": "x", "tool_calls": [
         {"name": "a", "arguments": "1"}, {"name": "b", "arguments": "2"}]},
     {"role": "tool", "content": "A"},
     {"role": "tool", "content": "B"}]"""
    assert load_messages(old) == [
        Message.assistant("x", ToolCall("call_0_0", "a", "1"), ToolCall("call_0_1", "b", "2")),
        Message.tool([ToolResult("call_0_0", "A", name="a")]),
        Message.tool([ToolResult("call_0_1", "B", name="b")]),
    ]


def test_result_may_repeat_call_and_error() -> None:
    old = b"""[
     {"role": "assistant", "tool_calls": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]},
     {"role": "tool", "content": "broken", "tool_calls": [{"id": "2", "name": "b", "is_error": true}]}]"""
    assert load_messages(old)[1].tool_results == [ToolResult("2", "broken", is_error=True, name="b")]


def test_a_result_without_any_call_is_kept() -> None:
    assert load_messages(b'[{"role":"tool","content":"x"}]') == [Message.tool([ToolResult("", "x")])]


def test_empty_and_other_roles_load() -> None:
    assert load_messages(b" []") == []
    assert load_messages(b'[{"role":"developer","content":"x"}]') == [Message("", "developer", (Text("x"),))]
    assert load_messages(b'[{"role":"user"}]')[0] == Message("", Role.USER)


@pytest.mark.parametrize("old", [b"[1]", b'[{"content":"x"}]', b'[{"role":"user","content":1}]', b"[{}"])
def test_a_defective_cache_is_a_decode_error(old: bytes) -> None:
    with pytest.raises(DecodeError, match="not a saved chat"):
        load_messages(old)
