"""Who speaks: system, user, assistant or tool."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["ROLES", "Role", "as_role", "is_valid_role"]


class Role(StrEnum):
    """The four roles. A message may hold another string: what others invent is kept."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    @staticmethod
    def valid(role: str) -> bool:
        """Whether it is one of the four; a message may hold another."""
        return role in ROLES


ROLES: Final = frozenset(role.value for role in Role)


def is_valid_role(role: str) -> bool:
    """Whether it is one of the four."""
    return role in ROLES


def as_role(role: str) -> str:
    """The `Role` of that name, as a message that is made has it; what others invent stays as it is."""
    return Role(role) if role in ROLES else role
