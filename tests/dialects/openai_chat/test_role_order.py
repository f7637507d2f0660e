"""Roles in the order that some vendors demand."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmstream.dialects.openai_chat.role_order import alternating
from llmstream.events import OtherWarning, Warning


def ordered(*messages: tuple[str, Any]) -> tuple[list[tuple[str, Any]], list[str]]:
    warnings: list[Warning] = []
    out = alternating([{"role": role, "content": content} for role, content in messages], warnings)
    said = [warning.message for warning in warnings if isinstance(warning, OtherWarning)]
    return [(message["role"], message["content"]) for message in out], said


def test_what_alternates_stays() -> None:
    messages = [("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c")]
    assert ordered(*messages) == (messages, [])


def test_neighbours_become_one() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
    out, said = ordered(("user", "a"), ("user", "b"), ("assistant", "c"), ("user", [image]), ("user", "d"))
    assert out == [("user", "a\n\nb"), ("assistant", "c"), ("user", [image, {"type": "text", "text": "d"}])]
    assert said == []


def test_a_later_system_message_moves_to_the_top_with_a_warning() -> None:
    out, said = ordered(("system", "s"), ("user", "a"), ("system", "t"), ("user", "b"))
    assert out == [("system", "s"), ("system", "t"), ("user", "a\n\nb")]
    assert len(said) == 1


def test_the_user_begins_and_ends() -> None:
    out, said = ordered(("assistant", "a"))
    assert [role for role, _ in out] == ["user", "assistant", "user"]
    assert len(said) == 2


def test_calls_of_neighbours_are_kept() -> None:
    calls = [{"id": "a"}, {"id": "b"}]
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": calls[:1]},
        {"role": "assistant", "content": "c", "tool_calls": calls[1:]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    out = alternating(messages, [])
    assert out[1] == {"role": "assistant", "content": [{"type": "text", "text": "c"}], "tool_calls": calls}
    assert [message["role"] for message in out] == ["user", "assistant", "tool", "tool"]


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(min_size=1)), min_size=1))
def test_any_order_becomes_the_right_one_and_nothing_is_lost(messages: list[tuple[str, str]]) -> None:
    out, _ = ordered(*messages)
    roles = [role for role, _ in out]
    turns = roles[roles.count("system") :]
    assert "system" not in turns
    assert turns == ["user", "assistant"] * (len(turns) // 2) + ["user"] * (len(turns) % 2)
    assert not turns or turns[-1] == "user"
    said = "".join(str(content) for _, content in out)
    assert all(content in said for _, content in messages)
