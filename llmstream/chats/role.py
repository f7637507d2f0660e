"""Who speaks: system, user, assistant or tool."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Role", "is_valid_role"]


class Role(StrEnum):
    """The four roles. A message may hold another string: what others invent is kept."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


_ROLES = frozenset(role.value for role in Role)


def is_valid_role(role: str) -> bool:
    """Whether it is one of the four."""
    return role in _ROLES
