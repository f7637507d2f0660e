"""How one call went: the result for the model, and a line for people."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.transcript import ran_tool_line
from llmstream.tools.outcome import ToolOutcome

__all__ = ["ToolCallStatus", "render_statuses"]


class ToolCallStatus(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The end of one call. A value: it can be saved and compared.

    error:  what failed, in words; None where nothing did
    result: what stands in the history
    """

    name: str
    error: str | None = None
    tool_call_id: str = ""
    result: ToolResult = ToolResult("")

    @classmethod
    def of(cls, call: ToolCall, outcome: ToolOutcome) -> ToolCallStatus:
        """The status of a call that had this outcome."""
        result = ToolResult(
            call.id, outcome.content, outcome.error is not None, call.name, parts=outcome.parts
        )
        status = cls(call.name, outcome.error, call.id, result)
        status.__dict__["_exception"] = outcome.exception
        return status

    @property
    def exception(self) -> Exception | None:
        """What the tool raised. It lives in this process only: neither saved nor compared."""
        found: Exception | None = self.__dict__.get("_exception")
        return found

    def __str__(self) -> str:
        return ran_tool_line(self.name, self.error)


def render_statuses(statuses: Iterable[ToolCallStatus]) -> str:
    """One line for each call, in order; "" for no calls."""
    return "".join([str(status) for status in statuses])
