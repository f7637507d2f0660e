"""Telling an observer what a run does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeAlias

import msgspec

from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.errors import LLMStreamError
from llmstream.events import FinishReason, Usage
from llmstream.streams.model import Model
from llmstream.streams.observations import CallContent, Observation, cleaned, tell, wants_content
from llmstream.tools import Tool, ToolCallStatus

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


# What an observer of an agent's runs is told: small values, without content unless it wants that.


class RunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A run is read for the first time.

    run_id: the same in all observations of a run
    agent:  its name, or ""
    """

    run_id: str
    agent: str
    provider: str
    model: str


class CallObserved(msgspec.Struct, frozen=True, kw_only=True):
    """What an observer of one of the run's calls of a model is told."""

    run_id: str
    step: int
    observation: Observation | CallContent

    @property
    def is_content(self) -> bool:
        """Whether only observers that want content are told."""
        return isinstance(self.observation, CallContent)


class ToolStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A tool begins to run. Told in the task of the call, in which nothing else runs.

    tool_call_id: the same in `ToolFinished`
    is_known:     whether there is such a tool; otherwise the model invented the name
    """

    run_id: str
    step: int
    tool_call_id: str
    name: str
    description: str = ""
    is_known: bool = True


class ToolContent(msgspec.Struct, frozen=True, kw_only=True):
    """What went in and came out; comes right before `ToolFinished`, to an observer with `wants_content`.

    arguments: as they ran, as JSON text
    result:    what the model sees; None where the call was cancelled
    """

    is_content: ClassVar[bool] = True

    run_id: str
    tool_call_id: str
    name: str
    arguments: str
    result: str | None = None


class ToolFinished(msgspec.Struct, frozen=True, kw_only=True):
    """It is over, in whatever way; comes once for each `ToolStarted`.

    error_type: the class of what it raised, "error", or "cancelled"; None where nothing failed
    is_known:   whether there is such a tool
    """

    run_id: str
    step: int
    tool_call_id: str
    name: str
    duration_s: float
    error_type: str | None = None
    is_known: bool = True


class RunFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A run is over, in whatever way; comes once for each `RunStarted`.

    steps:      how many are over
    error_code: why it failed; None where it did not
    left:       the reader went before the end, or was cancelled
    suspended:  it waits for a decision
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
"""Called at once, in the task where it happens; it has to be quick. What it raises is logged and dropped.

One whose attribute `wants_content` is true is told what is said, too.
"""


class RunWatch:
    """Tells an observer of one run."""

    def __init__(self, observe: ObserveRun, clock: Callable[[], float]) -> None:
        self._observe = observe
        self._clock = clock
        self._run_id = str(uuid.uuid4())
        self._content = wants_content(observe)
        self._agent = ""
        self._model: Model | None = None
        self._began: float | None = None

    def began(self, agent: str, model: Model) -> None:
        """The run is read for the first time."""
        self._agent, self._model, self._began = agent, model, self._clock()
        whom = {"provider": model.provider.name, "model": model.name}
        tell(self._observe, RunStarted(run_id=self._run_id, agent=agent, **whom))

    def calls(self, step: int) -> Callable[[Observation], object]:
        """The observer of the calls of a model in a step."""
        return _OfCalls(self._observe, self._run_id, step)

    async def tool(
        self, call: ToolCall, step: int, tool: Tool | None, running: Coroutine[Any, Any, ToolCallStatus]
    ) -> ToolCallStatus:
        """The status of a call, which runs now."""
        whose = {"run_id": self._run_id, "tool_call_id": call.id, "name": call.name}
        is_known = tool is not None
        description = tool.spec.description if tool is not None else ""
        tell(self._observe, ToolStarted(step=step, description=description, is_known=is_known, **whose))
        status, began = None, self._clock()
        try:
            status = await running
        finally:
            if self._content:
                result = None if status is None else status.result.content
                content = ToolContent(arguments=call.arguments, result=result, **whose)
                tell(self._observe, cleaned(content, self._cleaner()))
            finished = ToolFinished(
                step=step,
                duration_s=self._clock() - began,
                error_type="cancelled" if status is None else _error_type(status),
                is_known=is_known,
                **whose,
            )
            tell(self._observe, finished)
        return status

    def _cleaner(self) -> Callable[[str], str]:
        """Takes the model's keys out of what a tool was given or found, such as in an environment."""
        secrets = () if self._model is None else self._model.known_secrets()

        def clean(text: str) -> str:
            for secret in secrets:
                text = text.replace(secret, "***")
            return text

        return clean

    def ended(
        self,
        state: RunState,
        finish_reason: FinishReason | None,
        failure: BaseException | None,
        *,
        suspended: bool,
    ) -> None:
        """The run is over; told once, if it began. Without a finish reason or a failure it was left."""
        if self._began is None:
            return
        began, self._began = self._began, None
        error_code = None
        if isinstance(failure, Exception):
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
        tell(self._observe, finished)


class _OfCalls:
    """An observer of calls that tells one of runs."""

    def __init__(self, observe: ObserveRun, run_id: str, step: int) -> None:
        self._observe, self._run_id, self._step = observe, run_id, step
        self.wants_content = wants_content(observe)

    def __call__(self, observation: Observation | CallContent) -> None:
        self._observe(CallObserved(run_id=self._run_id, step=self._step, observation=observation))


def _error_type(status: ToolCallStatus) -> str | None:
    if status.error is None:
        return None
    return type(status.exception).__name__ if status.exception is not None else "error"
