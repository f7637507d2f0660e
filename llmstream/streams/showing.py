"""Compact views of streams and runs: one line, and a table for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from llmstream.short_forms import counted

if TYPE_CHECKING:
    from llmstream.errors import LLMStreamError
    from llmstream.streams.event_stream import EventStream
    from llmstream.usage import Usage

__all__ = ["short_form", "state_of", "stream_form", "stream_table"]


def state_of(error: LLMStreamError | None, end: str | None, *, begun: bool) -> str:
    """The state in a word or two: "in progress", "stop", "failed (rate-limited)".

    end: the finish reason, or another reason for the end
    """
    if error is not None:
        return f"failed ({error.code})"
    return end or ("in progress" if begun else "not read yet")


def short_form(handle: object, model: str, state: str, facts: Iterable[str], usage: Usage) -> str:
    """Kind, model, state, facts and tokens of a stream or run, in one line without content."""
    tokens = ((usage.input_tokens, "in"), (usage.output_tokens, "out"))
    known = [f"{counted(count, 'token')} {way}" for count, way in tokens if count is not None]
    return f"<{type(handle).__name__} of {model}: {', '.join([state, *facts, *known])}>"


def stream_form(stream: EventStream[Any], *, left: bool, begun: bool) -> str:
    """The `repr` of a stream."""
    message, end = stream.message, stream.finish_reason or ("left" if left else None)
    counts = ((len(message.text), "character"), (len(message.tool_calls), "tool call"))
    facts = [counted(count, noun) for count, noun in counts if count]
    response = stream.response
    model = f"{response.provider}:{response.model}"
    return short_form(stream, model, state_of(stream.error, end, begun=begun), facts, stream.usage)


def stream_table(stream: EventStream[Any]) -> str:
    """The current response of a stream as an HTML table of one row."""
    from llmstream.display.table import CallCell, TableRow, html_table  # imported only for notebooks

    response, pending = stream.response, {call.id for call in stream.pending_calls}
    row = TableRow(
        model=f"{response.provider}:{response.model}",
        finish=stream.finish_reason or "",
        calls=[CallCell(call.name, pending=call.id in pending) for call in stream.message.tool_calls],
        usage=stream.usage,
    )
    return html_table(repr(stream).strip("<>"), [row], error=stream.error)
