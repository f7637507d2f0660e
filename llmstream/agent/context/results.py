"""Long results of tools, cut with a note that says so."""

from __future__ import annotations

from typing import cast

import msgspec

from llmstream.agent.context.effects import ContextEffect, Effect, is_count
from llmstream.agent.context.scan import Scan
from llmstream.chats.content import Part, ToolResult
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs

__all__ = ["cut_tool_results"]

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
