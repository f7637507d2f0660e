"""Hooks: an application's say before and after each answer of the model and each tool call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from llmstream.agent.decisions import Decision
from llmstream.chats.content import ToolCall
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest, ToolError
from llmstream.tools import ToolCallStatus
from llmstream.tools.signature import check_arguments

if TYPE_CHECKING:
    from llmstream.agent.state import RunState

__all__ = ["Hooks", "Repair", "answered"]

_T = TypeVar("_T")

BeforeModel: TypeAlias = "Callable[[RunState], Decision | Awaitable[Decision]]"
AfterModel: TypeAlias = "Callable[[RunState, Message], Decision | Awaitable[Decision]]"
BeforeTool: TypeAlias = "Callable[[RunState, ToolCall], Decision | Awaitable[Decision]]"
AfterTool: TypeAlias = "Callable[[RunState, ToolCall, ToolCallStatus], Decision | Awaitable[Decision]]"
Repair: TypeAlias = Callable[[ToolCall, ToolError], ToolCall | Awaitable[ToolCall | None] | None]
"""Given a call that cannot run and why; gives the call to run in its place, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions, sync or async, that are asked on the way. Each gives a decision, or None to go on.

    before_model: `Rewrite(messages)` shows the model those, for this step; `Skip(text or Message)`
                  stands as its answer, and it is not asked; `Stop`
    after_model:  `Rewrite(message)` stands in the history in place of what the model said, and its
                  calls are those that run; `Again(feedback)` has the model answer once more, and no
                  call of the answer runs; `Stop`
    before_tool:  `Rewrite(arguments)` as a JSON value or text; `Skip(result)`; `Approve` spares the
                  call a person's approval; `Deny`; `Stop`. Asked again before a call runs that a person
                  approved while the run was suspended: then `Rewrite` refuses the call, unless it gives
                  the arguments that were approved
    after_tool:   `Rewrite(result)`, any value that a tool may return; `Stop`
    max_again:    how often a run may be told `Again`; the next time it fails with InvalidOutput

    An exception of a hook ends the run and is raised as it is.

    raises: InvalidRequest where one is no function or takes other arguments, or max_again is no number
    """

    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    max_again: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.max_again, int) or isinstance(self.max_again, bool) or self.max_again < 0:
            raise InvalidRequest(f"max_again is a whole number from 0 on, got {self.max_again!r}")
        for name, arguments in _ARGUMENTS.items():
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise InvalidRequest(f"the hook {name} is a function, got {hook!r}")
            if hook is not None:
                check_arguments(f"the hook {name}", hook, *arguments)


_ARGUMENTS: Final = {
    "before_model": ("state",),
    "after_model": ("state", "message"),
    "before_tool": ("state", "call"),
    "after_tool": ("state", "call", "status"),
}


async def answered(hook: Callable[..., _T | Awaitable[_T]] | None, *args: Any) -> _T | None:
    """What a hook says, sync or async; None where there is no hook."""
    if hook is None:
        return None
    said: Any = hook(*args)
    found: _T | None = await said if inspect.isawaitable(said) else said
    return found
