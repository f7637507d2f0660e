"""A conversation as Markdown for people to read.

**User**: What day is it?

**Assistant**: Let me look.

> Ran tool: `date`

**Assistant**: It is Friday.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from llmstream.chats.content import Part, Text, ToolResult

if TYPE_CHECKING:
    from llmstream.chats.message import Message

__all__ = ["notebook_transcript", "ran_tool_line", "transcript"]


def transcript(messages: Iterable[Message]) -> str:
    """A chat, or any messages, as Markdown: sender and text, and a line for every tool that ran.

    A message is headed by its sender's name, else by its role. Only text and tool results show:
    reasoning, images and other parts do not. No messages give "".
    """
    names: dict[str, str] = {}  # of tools, by call id
    paragraphs: list[str] = []
    tools_ran = False
    for message in messages:
        # A result may lack the name of its tool.
        names.update((call.id, call.name) for call in message.tool_calls)
        for kind, run in groupby(message.parts, key=_shown_kind):
            if kind is ToolResult:
                lines = "".join(_result_line(part, names) for part in run if isinstance(part, ToolResult))
                # Tools that ran consecutively share one quotation.
                if tools_ran:
                    lines = paragraphs.pop() + lines
                paragraphs.append(lines)
                tools_ran = True
            elif kind is Text:
                text = "".join(part.text for part in run if isinstance(part, Text)).strip("\n")
                if not text.strip():
                    continue
                paragraphs.append(f"**{_speaker(message)}**: {text}\n")
                tools_ran = False
    return "\n".join(paragraphs)


def notebook_transcript(messages: Iterable[Message]) -> str:
    """All parts of messages as Markdown for a notebook, each message below its sender's name or its role."""
    from llmstream.chats.markdown import parts_markdown  # loaded by those who have a notebook

    names: dict[str, str] = {}
    shown: list[str] = []
    for message in messages:
        names.update((call.id, call.name) for call in message.tool_calls)
        if text := parts_markdown(message.parts, names=names):
            shown.append(f"**{_speaker(message)}**\n\n{text}")
    return "\n\n".join(shown)


def ran_tool_line(name: str, error: str | None = None) -> str:
    """The line about one tool's run, newline included.

    "> Ran tool: `name`", and " - failed: `error`" after it where it failed. An error of several
    lines is folded into one; a backtick in either is fenced by a longer run of them.
    """
    line = f"> Ran tool: {_code(name)}"
    if error is not None:
        line += f" - failed: {_code(error)}" if error.strip() else " - failed"
    return line + "\n"


def _shown_kind(part: Part) -> type[Text | ToolResult] | None:
    if isinstance(part, Text):
        return Text
    return ToolResult if isinstance(part, ToolResult) else None


def _result_line(result: ToolResult, names: dict[str, str]) -> str:
    name = result.name or names.get(result.tool_call_id) or result.tool_call_id or "unknown"
    return ran_tool_line(name, result.content if result.is_error else None)


def _speaker(message: Message) -> str:
    name = _fold(message.sender) or _fold(message.role).capitalize()
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", name)


def _fold(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def _code(text: str) -> str:
    """A code span of one line (CommonMark 0.31, 6.1)."""
    text = _fold(text)
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    if text.startswith("`") or text.endswith("`"):
        text = f" {text} "
    return f"{fence}{text}{fence}"
