"""Turns and steps of a conversation, between which it may be cut, and `cut_tool_results`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, repeat
from operator import attrgetter, eq
from typing import Final, cast

import msgspec

from llmstream.agent.context.effects import ContextEffect, Effect, Scan, is_count
from llmstream.chats.content import Part, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs

__all__ = [
    "SUMMARY",
    "cut_tool_results",
    "from_place",
    "is_summary",
    "step_starts",
    "system_of",
    "turn_starts",
]


SUMMARY: Final = "llmstream.summary"
"""Marks a summary in a message's metadata, which is not sent to vendors."""


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """The indexes where turns begin: at each user message, except a summary right after one.

    In a chat of several agents the messages of other agents are user messages, so each begins a turn.
    """
    starts: list[int] = []
    for place in compress(range(len(messages)), _have_role(messages, Role.USER)):
        if not (is_summary(messages[place]) and _role_before(messages, place) == Role.USER):
            starts.append(place)
    return starts


def _role_before(messages: Sequence[Message], place: int) -> str:
    """The role of the previous message that is not a system message."""
    roles = (messages[at].role for at in range(place - 1, -1, -1))
    return next((role for role in roles if role != Role.SYSTEM), "")


def _have_role(messages: Sequence[Message], role: Role) -> Iterator[bool]:
    """Whether each message has the role; in C, because effects scan the conversation at each step."""
    return map(eq, map(attrgetter("role"), messages), repeat(role))


def is_summary(message: Message) -> bool:
    """Whether the message is a summary of others."""
    return message.role == Role.USER and bool(message.get_meta(SUMMARY)[0])


def step_starts(messages: Sequence[Message], start: int) -> list[int]:
    """The indexes from `start` on where an assistant message begins a step; its results follow it."""
    return list(compress(range(start, len(messages)), _have_role(messages[start:], Role.ASSISTANT)))


def system_of(messages: Sequence[Message]) -> list[Message]:
    """The system messages, which no effect drops."""
    return list(compress(messages, _have_role(messages, Role.SYSTEM)))


def from_place(messages: Sequence[Message], place: int) -> list[Message]:
    """The messages from an index on, preceded by the earlier system messages."""
    return [*system_of(messages[:place]), *messages[place:]]


# Cutting long tool results.

# A shorter limit leaves no room for the note about the cut.
_SHORTEST = 100


def cut_tool_results(max_chars: int, *, replace: bool = False) -> Effect:
    """Cuts each tool result to a number of characters, including a note about the cut.

    Results of the vendor's own tools stay: the vendor requires them back unchanged.

    replace: also cuts the run's history
    raises:  InvalidRequest for less than 100 characters
    """
    if not is_count(max_chars, _SHORTEST):
        raise InvalidRequest(f"max_chars must be an integer of at least {_SHORTEST}, got {max_chars!r}")

    def begun() -> ContextEffect:
        repairs = Repairs()
        shorter: Scan[Message | None] = Scan(None, lambda _, message: _cut(message, max_chars))

        def cut(messages: list[Message]) -> list[Message]:
            return cast(list[Message], shorter.of(repairs.repair(messages)[0])[1:])

        return cut

    return Effect.remembering(begun, replace)


def _cut(message: Message, max_chars: int) -> Message:
    if all(len(result.content) <= max_chars for result in message.tool_results):
        return message
    return msgspec.structs.replace(message, parts=tuple([_shorter(p, max_chars) for p in message.parts]))


def _shorter(part: Part, max_chars: int) -> Part:
    if not isinstance(part, ToolResult) or part.provider_executed or len(part.content) <= max_chars:
        return part
    note = f"\n[cut: the result had {len(part.content)} characters]"
    return msgspec.structs.replace(part, content=part.content[: max_chars - len(note)] + note)
