"""As much of a conversation's end as fits a number of tokens, which are estimated or counted."""

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
"""How many tokens a message takes."""

_CHARS_PER_TOKEN = 4
"""Of English prose with the tokenizers in use; other scripts and code take more tokens."""
_TOKENS_PER_FILE = 1_000
"""About what an image of a megapixel takes; a long document takes more."""
_TOKENS_PER_MESSAGE = 4
"""What surrounds a message: its role and the marks of its ends."""


def approximate_tokens(message: Message) -> int:
    """An estimate without a tokenizer: a quarter of the characters, and 1 000 for a file."""
    return _TOKENS_PER_MESSAGE + sum(map(_part_tokens, message.parts))


def tokens_of(messages: Sequence[Message], count: Count) -> int:
    """The tokens of a conversation."""
    return sum(map(count, messages))


def token_budget(max_tokens: int, *, count: Count = approximate_tokens, replace: bool = False) -> Effect:
    """Shows the last turns that fit, and the system messages.

    Of a last turn that alone does not fit, the user's messages stay, and the last steps that fit
    behind them, at least one: a call and its result are never parted, so that what is shown may
    still be too long. `cut_tool_results` before it makes results shorter.

    count:   the tokens of one message; by default an estimate
    replace: the run's history is cut too
    raises:  InvalidRequest for less than one token
    """
    if not is_count(max_tokens):
        raise InvalidRequest(f"a budget has at least one token, got {max_tokens!r}")

    def begun() -> ContextEffect:
        repairs, sums = Repairs(), Scan(_Sums(0, 0), lambda before, message: before.plus(message, count))

        def budget(messages: list[Message]) -> list[Message]:
            whole = repairs.repair(messages)[0]
            found = sums.of(whole)
            starts = turn_starts(whole)
            if found[-1].all <= max_tokens or not starts:
                return whole
            fitting = _first_fitting(starts, found, found[-1].all - max_tokens)
            if fitting is not None:
                return from_place(whole, fitting)
            return _last_steps(whole, found, starts[-1], max_tokens)

        return budget

    return Effect.remembering(begun, replace)


class _Sums(NamedTuple):
    """Tokens of all messages before a place, and of those that may be left out."""

    all: int
    left_out: int

    def plus(self, message: Message, count: Count) -> _Sums:
        size = count(message)
        return _Sums(self.all + size, self.left_out + (0 if message.role == Role.SYSTEM else size))


def _first_fitting(places: list[int], sums: list[_Sums], too_many: int, start: int = 0) -> int | None:
    """The first place before which enough can be left out, counted from a start on; the sums only grow."""
    needed = sums[start].left_out + too_many
    at = bisect_left(places, needed, key=lambda place: sums[place].left_out)
    return places[at] if at < len(places) else None


def _last_steps(whole: list[Message], sums: list[_Sums], start: int, max_tokens: int) -> list[Message]:
    """The last turn without its first steps."""
    steps = step_starts(whole, start)
    if not steps:
        return from_place(whole, start)
    too_many = sums[-1].all - sums[start].left_out - max_tokens
    fitting = _first_fitting(steps, sums, too_many, steps[0])
    kept = steps[-1] if fitting is None else fitting
    return [
        *system_of(whole[:start]),
        *whole[start : steps[0]],
        *from_place(whole[steps[0] :], kept - steps[0]),
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
