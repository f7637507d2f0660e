"""How one call went: the result for the model, and a line for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.transcript import ran_tool_line
from llmstream.tools.outcome import ToolOutcome

__all__ = ["ToolCallStatus", "render_statuses"]

_NOTHING = ToolOutcome()
"""The outcome of a status that was saved and loaded: what lived in the process is gone."""


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
        status.__dict__["outcome"] = outcome
        return status

    @property
    def exception(self) -> Exception | None:
        """What the tool raised. It lives in this process only: neither saved nor compared."""
        return self._outcome.exception

    @property
    def value(self) -> Any:
        """What the tool returned, or the `value` of its `ToolOutput`. It lives in this process only."""
        return self._outcome.value

    @property
    def output(self) -> Any:
        """What the model sees as a JSON value, or as text where it is text or was cut."""
        found = self._outcome.output
        return self.result.content if found is None else found

    @property
    def stop(self) -> bool:
        """Whether the tool asked the run to end after this step."""
        return self._outcome.stop

    @property
    def _outcome(self) -> ToolOutcome:
        found: ToolOutcome = self.__dict__.get("outcome", _NOTHING)
        return found

    def __str__(self) -> str:
        return ran_tool_line(self.name, self.error)


def render_statuses(statuses: Iterable[ToolCallStatus]) -> str:
    """One line for each call, in order; "" for no calls."""
    return "".join([str(status) for status in statuses])
