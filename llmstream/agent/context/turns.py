"""Where a conversation may be cut: before turns, and between the steps of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, repeat
from operator import attrgetter, eq
from typing import Final

from llmstream.chats.message import Message, Role

__all__ = ["SUMMARY", "from_place", "is_summary", "step_starts", "system_of", "turn_starts"]

SUMMARY: Final = "llmstream.summary"
"""In a message's own metadata, which no vendor sees: this one is a summary."""


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """The places where turns begin: at each user's message, but for a summary that stands behind one.

    What other agents said in a conversation of several stands here as users' messages; so each of
    them is a turn.
    """
    starts: list[int] = []
    for place in compress(range(len(messages)), _have_role(messages, Role.USER)):
        if not (is_summary(messages[place]) and _role_before(messages, place) == Role.USER):
            starts.append(place)
    return starts


def _role_before(messages: Sequence[Message], place: int) -> str:
    """The role of the message before a place, system messages apart."""
    roles = (messages[at].role for at in range(place - 1, -1, -1))
    return next((role for role in roles if role != Role.SYSTEM), "")


def _have_role(messages: Sequence[Message], role: Role) -> Iterator[bool]:
    """Whether each message has a role; in C, for effects ask it of a whole conversation at each step."""
    return map(eq, map(attrgetter("role"), messages), repeat(role))


def is_summary(message: Message) -> bool:
    """Whether the message stands in place of others."""
    return message.role == Role.USER and bool(message.get_meta(SUMMARY)[0])


def step_starts(messages: Sequence[Message], start: int) -> list[int]:
    """The places from `start` on where an assistant's message begins a step; its results stand behind it."""
    return list(compress(range(start, len(messages)), _have_role(messages[start:], Role.ASSISTANT)))


def system_of(messages: Sequence[Message]) -> list[Message]:
    """The system messages, which nothing drops."""
    return list(compress(messages, _have_role(messages, Role.SYSTEM)))


def from_place(messages: Sequence[Message], place: int) -> list[Message]:
    """The messages from a place on, with the system messages before it."""
    return [*system_of(messages[:place]), *messages[place:]]
