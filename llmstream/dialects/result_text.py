"""What a tool gave, as text; that it failed, too, on wires that have no field for that."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from llmstream.chats.content import ToolResult

__all__ = ["failure_text", "result_text", "told_result"]

_SAYS_SO: Final = re.compile(
    r"(?:\b|_)(?:\w*error|\w*exception|fail(?:ed|s|ure)?|no result|not run|denied|refused|rejected|cancell?ed"
    r"|timed out|ended while|invalid)\b",
    re.IGNORECASE,
)
_BEGINNING: Final = 100


def result_text(part: ToolResult) -> str:
    """The text of a result, or the JSON of its value where it has no text."""
    if part.content or part.result is None:
        return part.content
    return msgspec.json.encode(part.result).decode()


def told_result(part: ToolResult) -> str:
    """The same, and a failure says so in it."""
    text = result_text(part)
    return failure_text(text) if part.is_error else text


def failure_text(content: str) -> str:
    """The words of a failure, which say at once that it is one."""
    if not content:
        return "Error"
    return content if _SAYS_SO.search(content[:_BEGINNING]) else f"Error: {content}"
