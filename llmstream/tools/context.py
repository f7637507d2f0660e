"""`ToolContext`: information for a running tool about its call."""

from __future__ import annotations

import asyncio
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

if TYPE_CHECKING:
    from llmstream.chats.message import Message


if TYPE_CHECKING:  # a default (PEP 696) is what type checkers know, and Python from 3.13 on
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")

__all__ = ["ToolContext", "is_context"]


async def _nowhere(value: Any) -> None:
    """Ignores progress; the default if there is no listener."""


@dataclass(frozen=True, slots=True)
class ToolContext(Generic[Deps]):
    """Passed to the parameter of a tool that is annotated with it; the model never sees that parameter.

    `ToolContext[Shop]` declares the type of `deps` for type checkers; nothing is checked at run time.

    call_id:   the id of the call
    tool_name: the name that the model called
    step:      the step of the run, from 0
    messages:  copies of the conversation at the start of the call, made when they are read
    deadline:  when the run ends at the latest, in loop time; None for no deadline
    note:      the note of the person who approved the call; "" without an approval
    deps:      the application's object, from `Agent(deps=...)` or `stream(deps=...)`
    key:       globally unique for this call, and the same when a durable run repeats it: an
               idempotency key for a service that the tool calls
    continued: where the run of a sub-agent resumes; None for all other calls
    """

    call_id: str = ""
    tool_name: str = ""
    step: int = 0
    messages: Sequence[Message] = ()
    deadline: float | None = None
    deps: Deps = None  # type: ignore[assignment]  # where no agent gave one
    note: str = ""
    key: str = ""
    steps: Any = field(default=None, repr=False, compare=False)  # where a sub-agent records its steps
    price: Any = field(default=None, repr=False, compare=False)  # for a sub-agent without its own price
    continued: Any = field(default=None, repr=False, compare=False)
    reporter: Callable[[Any], Awaitable[None]] = field(default=_nowhere, repr=False, compare=False)

    async def report(self, value: Any) -> None:
        """Reports progress: a preliminary result, like a `yield` of an async generator.

        Waits if the reader of the run is slower than the tool.
        """
        await self.reporter(value)

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, at least 0; None without a deadline. Call it in a coroutine."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


def is_context(annotation: Any) -> bool:
    """Whether a parameter with this annotation takes the context: `ToolContext`, alone or in a union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(is_context(choice) for choice in typing.get_args(annotation))
    # `ToolContext[Shop]` is not a class, but its origin is.
    found = typing.get_origin(annotation) or annotation
    return inspect.isclass(found) and issubclass(found, ToolContext)
