"""Where a conversation may be cut: before turns, and between the steps of one."""

from __future__ import annotations

from collections.abc import Sequence
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
    before = ""
    for place, message in enumerate(messages):
        if message.role == Role.SYSTEM:
            continue
        if message.role == Role.USER and not (before == Role.USER and is_summary(message)):
            starts.append(place)
        before = message.role
    return starts


def is_summary(message: Message) -> bool:
    """Whether the message stands in place of others."""
    return message.role == Role.USER and bool(message.get_meta(SUMMARY)[0])


def step_starts(messages: Sequence[Message], start: int) -> list[int]:
    """The places from `start` on where an assistant's message begins a step; its results stand behind it."""
    return [at for at in range(start, len(messages)) if messages[at].role == Role.ASSISTANT]


def system_of(messages: Sequence[Message]) -> list[Message]:
    """The system messages, which nothing drops."""
    return [message for message in messages if message.role == Role.SYSTEM]


def from_place(messages: Sequence[Message], place: int) -> list[Message]:
    """The messages from a place on, with the system messages before it."""
    return [*system_of(messages[:place]), *messages[place:]]
