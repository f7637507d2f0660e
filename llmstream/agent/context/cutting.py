"""Where a conversation may be cut, and the effects that do: last turns, token limit, tool results."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import compress, repeat
from operator import attrgetter, eq
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec

from llmstream.agent.context.effects import ContextEffect, Effect, Scan, is_count
from llmstream.chats.content import Audio, Document, File, Image, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs

__all__ = [
    "SUMMARY",
    "Count",
    "approximate_tokens",
    "cut_tool_results",
    "from_place",
    "is_summary",
    "sliding_window",
    "step_starts",
    "system_of",
    "token_budget",
    "tokens_of",
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
        # A summary stands for turns; behind a user message it stands for steps of that turn.
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
    # Unchanged messages stay the same objects, which later comparisons find by identity.
    if all(len(result.content) <= max_chars for result in message.tool_results):
        return message
    return msgspec.structs.replace(message, parts=tuple([_shorter(p, max_chars) for p in message.parts]))


def _shorter(part: Part, max_chars: int) -> Part:
    if not isinstance(part, ToolResult) or part.provider_executed or len(part.content) <= max_chars:
        return part
    note = f"\n[cut: the result had {len(part.content)} characters]"
    # The note is part of the limit: the result may be cut for a model with a small window.
    return msgspec.structs.replace(part, content=part.content[: max_chars - len(note)] + note)


def sliding_window(turns: int, *, replace: bool = False) -> Effect:
    """Sends the last turns, and the system messages.

    turns:   a turn is a user message and everything up to the next one
    replace: also cuts the run's history
    raises:  InvalidRequest for less than one turn
    """
    if not is_count(turns):
        raise InvalidRequest(f"turns must be an integer of at least 1, got {turns!r}")

    def begun() -> ContextEffect:
        repairs = Repairs()

        def window(messages: list[Message]) -> list[Message]:
            history = repairs.repair(messages)[0]
            starts = turn_starts(history)
            return history if len(starts) <= turns else from_place(history, starts[-turns])

        return window

    return Effect.remembering(begun, replace)


Count: TypeAlias = Callable[[Message], int]
"""Returns the number of tokens of a message."""

# For English prose with common tokenizers; other scripts and code take more tokens.
_CHARS_PER_TOKEN = 4
# About the tokens of an image of one megapixel; a long document takes more.
_TOKENS_PER_FILE = 1_000
# Overhead of a message: its role and delimiters.
_TOKENS_PER_MESSAGE = 4


def approximate_tokens(message: Message) -> int:
    """An estimate without a tokenizer: a quarter of the characters, and 1 000 for a file."""
    return _TOKENS_PER_MESSAGE + sum(map(_part_tokens, message.parts))


def tokens_of(messages: Sequence[Message], count: Count) -> int:
    """The tokens of all messages."""
    return sum(map(count, messages))


def token_budget(max_tokens: int, *, count: Count = approximate_tokens, replace: bool = False) -> Effect:
    """Sends the last turns that fit, and the system messages.

    If the last turn alone does not fit, its user messages stay, with as many of its last steps as fit,
    but at least one. A call and its result are never separated, so the result may still be too long;
    `cut_tool_results` before this effect shortens results.

    count:   the tokens of one message; by default an estimate
    replace: also cuts the run's history
    raises:  InvalidRequest for less than one token
    """
    if not is_count(max_tokens):
        raise InvalidRequest(f"max_tokens must be an integer of at least 1, got {max_tokens!r}")

    def begun() -> ContextEffect:
        repairs, sums = Repairs(), Scan(_Sums(0, 0), lambda before, message: before.plus(message, count))

        def budget(messages: list[Message]) -> list[Message]:
            history = repairs.repair(messages)[0]
            found = sums.of(history)
            starts = turn_starts(history)
            if found[-1].all <= max_tokens or not starts:
                return history
            # Complete turns first: a turn loses its first steps only where it alone is too long.
            fitting = _first_fitting(starts, found, found[-1].all - max_tokens)
            if fitting is not None:
                return from_place(history, fitting)
            return _last_steps(history, found, starts[-1], max_tokens)

        return budget

    return Effect.remembering(begun, replace)


class _Sums(NamedTuple):
    """Tokens of all messages before an index, and of those of them that may be left out."""

    all: int
    left_out: int

    def plus(self, message: Message, count: Count) -> _Sums:
        size = count(message)
        return _Sums(self.all + size, self.left_out + (0 if message.role == Role.SYSTEM else size))


def _first_fitting(places: list[int], sums: list[_Sums], too_many: int, start: int = 0) -> int | None:
    """The first place before which enough tokens can be left out, from `start` on; sums never decrease."""
    needed = sums[start].left_out + too_many
    at = bisect_left(places, needed, key=lambda place: sums[place].left_out)
    return places[at] if at < len(places) else None


def _last_steps(history: list[Message], sums: list[_Sums], start: int, max_tokens: int) -> list[Message]:
    """The last turn without its first steps."""
    steps = step_starts(history, start)
    if not steps:
        return from_place(history, start)
    # System messages before the turn are sent in any case.
    too_many = sums[-1].all - sums[start].left_out - max_tokens
    fitting = _first_fitting(steps, sums, too_many, steps[0])
    first = steps[-1] if fitting is None else fitting
    return [
        *system_of(history[:start]),
        *history[start : steps[0]],
        *from_place(history[steps[0] :], first - steps[0]),
    ]


def _part_tokens(part: Part) -> int:
    match part:
        case Text(text) | Reasoning(text):
            return _text_tokens(text)
        case ToolCall():
            return _text_tokens(part.name) + _text_tokens(part.arguments)
        case ToolResult():
            given = part.content if part.result is None else str(part.result)
            return _text_tokens(given) + _TOKENS_PER_FILE * len(part.parts)
        case Image() | Audio() | Document() | File():
            return _TOKENS_PER_FILE
        case _:
            return 0


def _text_tokens(text: str) -> int:
    return -(-len(text) // _CHARS_PER_TOKEN)
