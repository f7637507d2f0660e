"""`token_budget`: sends only the last turns that fit a token limit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from llmstream.agent.context.effects import ContextEffect, Effect, Scan, is_count
from llmstream.agent.context.turns import from_place, step_starts, system_of, turn_starts
from llmstream.chats.content import Audio, Document, File, Image, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs

__all__ = ["Count", "approximate_tokens", "token_budget", "tokens_of"]

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
