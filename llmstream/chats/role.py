"""Who speaks: system, user, assistant or tool."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Role", "as_role", "is_valid_role"]


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


def as_role(role: str) -> str:
    """The `Role` of that name, as a message that is made has it; what others invent stays as it is."""
    return Role(role) if role in _ROLES else role
