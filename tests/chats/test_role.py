"""Roles."""

from __future__ import annotations

import pytest

from llmstream.chats import Message, Role, is_valid_role


def test_exactly_four_roles_equal_strings() -> None:
    assert [str(role) for role in Role] == ["system", "user", "assistant", "tool"]
    assert isinstance(Role.USER, str)


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool", Role.TOOL])
def test_the_four_are_valid(role: str) -> None:
    assert is_valid_role(role)


@pytest.mark.parametrize("role", ["", "User", "developer", "user "])
def test_unknown_roles_invalid_but_storable(role: str) -> None:
    assert not is_valid_role(role)
    assert Message.new_text("", role, "x").role == role
