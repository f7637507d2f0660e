"""As much of a conversation's end as fits a number of tokens, which are estimated or counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llmstream.agent.context.effects import Effect, is_count
from llmstream.agent.context.turns import from_place, step_starts, system_of, turn_starts
from llmstream.chats.content import Audio, Document, File, Image, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.streams.history import mended

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

    def budget(messages: list[Message]) -> list[Message]:
        whole = mended(messages)[0]
        sizes = [count(message) for message in whole]
        starts = turn_starts(whole)
        if sum(sizes) <= max_tokens or not starts:
            return whole
        always = [size if m.role == Role.SYSTEM else 0 for m, size in zip(whole, sizes, strict=True)]
        for start in starts:
            if sum(always[:start]) + sum(sizes[start:]) <= max_tokens:
                return from_place(whole, start)
        return _last_steps(whole, sizes, always, starts[-1], max_tokens)

    return Effect(budget, replace)


def _last_steps(
    whole: list[Message], sizes: list[int], always: list[int], start: int, max_tokens: int
) -> list[Message]:
    """The last turn without its first steps."""
    steps = step_starts(whole, start)
    if not steps:
        return from_place(whole, start)
    head = sum(always[:start]) + sum(sizes[start : steps[0]])
    fitting = (s for s in steps if head + sum(always[steps[0] : s]) + sum(sizes[s:]) <= max_tokens)
    kept = next(fitting, steps[-1])
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
