"""Observations of runs: what an observer of an agent receives."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeAlias

import msgspec

from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.errors import LLMStreamError
from llmstream.events import FinishReason, Usage
from llmstream.streams.attempts import without_secrets
from llmstream.streams.observations import CallContent, Observation, cleaned, notify, wants_content
from llmstream.tools.outcome import ToolCallStatus
from llmstream.tools.tool import Tool

__all__ = [
    "AgentObservation",
    "CallObserved",
    "ObserveRun",
    "RunFinished",
    "RunStarted",
    "RunWatch",
    "ToolContent",
    "ToolFinished",
    "ToolStarted",
]


# Observations are small, and without content unless the observer has `wants_content`.


class RunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A run begins: it is read for the first time.

    run_id: the same in all observations of a run
    agent:  its name, or ""
    """

    run_id: str
    agent: str
    provider: str
    model: str


class CallObserved(msgspec.Struct, frozen=True, kw_only=True):
    """An observation of one of the run's calls of a model."""

    run_id: str
    step: int
    observation: Observation | CallContent

    @property
    def is_content(self) -> bool:
        """Whether it is sent only to observers with `wants_content`."""
        return isinstance(self.observation, CallContent)


class ToolStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call begins. The observer is called in the task of the call, in which nothing else runs.

    tool_call_id: the same in `ToolFinished`
    is_known:     whether the tool exists; else the model invented its name
    """

    run_id: str
    step: int
    tool_call_id: str
    name: str
    description: str = ""
    is_known: bool = True


class ToolContent(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments and result of a call; sent just before `ToolFinished`, to observers with `wants_content`.

    arguments: as they ran, as JSON text
    result:    what the model receives; None if the call was cancelled
    """

    is_content: ClassVar[bool] = True

    run_id: str
    tool_call_id: str
    name: str
    arguments: str
    result: str | None = None


class ToolFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call ended; sent once for each `ToolStarted`.

    error_type: the class of its exception, "error", or "cancelled"; None without a failure
    is_known:   whether the tool exists
    """

    run_id: str
    step: int
    tool_call_id: str
    name: str
    duration_s: float
    error_type: str | None = None
    is_known: bool = True


class RunFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A run ended; sent once for each `RunStarted`.

    steps:      the number of completed steps
    error_code: why it failed; None without a failure
    left:       the reader closed the run before the end, or was cancelled
    suspended:  the run waits for a decision
    """

    run_id: str
    agent: str
    steps: int
    usage: Usage
    duration_s: float
    finish_reason: FinishReason | None = None
    error_code: str | None = None
    left: bool = False
    suspended: bool = False


AgentObservation: TypeAlias = (
    RunStarted | CallObserved | ToolStarted | ToolContent | ToolFinished | RunFinished
)


ObserveRun: TypeAlias = Callable[[AgentObservation], object]
"""Called synchronously in the task of the observed step, so it must be fast. Its exceptions are logged.

An observer with a true attribute `wants_content` also receives content.
"""


class RunWatch:
    """Sends the observations of one run to its observer."""

    def __init__(self, observe: ObserveRun, clock: Callable[[], float]) -> None:
        self._observe = observe
        self._clock = clock
        self._run_id = str(uuid.uuid4())
        self._content = wants_content(observe)
        self._agent = ""
        self._secrets: Callable[[], tuple[str, ...]] = tuple
        self._began: float | None = None

    def began(self, agent: str, provider: str, model: str, secrets: Callable[[], tuple[str, ...]]) -> None:
        """Reports the first read of the run.

        secrets: returns the model's keys, which no observation may show
        """
        self._agent, self._secrets, self._began = agent, secrets, self._clock()
        notify(self._observe, RunStarted(run_id=self._run_id, agent=agent, provider=provider, model=model))

    def calls(self, step: int) -> Callable[[Observation], object]:
        """The observer for the model calls of a step."""
        return _OfCalls(self._observe, self._run_id, step)

    async def tool(
        self, call: ToolCall, step: int, tool: Tool | None, running: Coroutine[Any, Any, ToolCallStatus]
    ) -> ToolCallStatus:
        """Awaits a call and reports its start and end."""
        ids = {"run_id": self._run_id, "tool_call_id": call.id, "name": call.name}
        is_known = tool is not None
        description = tool.spec.description if tool is not None else ""
        notify(self._observe, ToolStarted(step=step, description=description, is_known=is_known, **ids))
        status, began = None, self._clock()
        try:
            status = await running
        finally:
            # Also when cancelled: each start has an end.
            if self._content:
                result = None if status is None else status.result.content
                content = ToolContent(arguments=call.arguments, result=result, **ids)
                notify(self._observe, cleaned(content, self._cleaner()))
            finished = ToolFinished(
                step=step,
                duration_s=self._clock() - began,
                error_type="cancelled" if status is None else _error_type(status),
                is_known=is_known,
                **ids,
            )
            notify(self._observe, finished)
        return status

    def _cleaner(self) -> Callable[[str], str]:
        """Redacts the model's keys, which a tool may have read from the environment, for example."""
        return functools.partial(without_secrets, secrets=self._secrets())

    def ended(
        self,
        state: RunState,
        finish_reason: FinishReason | None,
        failure: BaseException | None,
        *,
        suspended: bool,
    ) -> None:
        """Reports the end of the run once, if it began. Without finish reason and failure it was closed."""
        if self._began is None:
            return
        # The run may be closed more than once.
        began, self._began = self._began, None
        error_code = None
        if isinstance(failure, Exception):
            # For other exceptions only the name: their messages may quote content.
            error_code = failure.code if isinstance(failure, LLMStreamError) else type(failure).__name__
        finished = RunFinished(
            run_id=self._run_id,
            agent=self._agent,
            steps=len(state.steps),
            usage=state.total_usage,
            duration_s=self._clock() - began,
            finish_reason=finish_reason,
            error_code=error_code,
            left=finish_reason is None and error_code is None,
            suspended=suspended,
        )
        notify(self._observe, finished)


class _OfCalls:
    """An observer of model calls that passes observations to an observer of runs."""

    def __init__(self, observe: ObserveRun, run_id: str, step: int) -> None:
        self._observe, self._run_id, self._step = observe, run_id, step
        self.wants_content = wants_content(observe)

    def __call__(self, observation: Observation | CallContent) -> None:
        self._observe(CallObserved(run_id=self._run_id, step=self._step, observation=observation))


def _error_type(status: ToolCallStatus) -> str | None:
    if status.error is None:
        return None
    return type(status.exception).__name__ if status.exception is not None else "error"
