"""Where a conversation may be cut: before turns, and between the steps of one."""

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


# Long results of tools, cut with a note that says so.

_SHORTEST = 100
"""Less has no room for the note."""


def cut_tool_results(max_chars: int, *, replace: bool = False) -> Effect:
    """Shows at most so many characters of each result of a tool, the note about the cut included.

    Results of the vendor's own tools stay: the vendor wants them back as they were.

    replace: the run's history is cut too
    raises:  InvalidRequest for less than 100 characters
    """
    if not is_count(max_chars, _SHORTEST):
        raise InvalidRequest(f"results are cut to at least {_SHORTEST} characters, got {max_chars!r}")

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
