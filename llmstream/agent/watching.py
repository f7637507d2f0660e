"""Telling an observer what a run does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from llmstream.agent.observations import (
    AgentObservation,
    CallObserved,
    RunFinished,
    RunStarted,
    ToolContent,
    ToolFinished,
    ToolStarted,
)
from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.errors import LLMStreamError
from llmstream.events import FinishReason
from llmstream.streams.model import Model
from llmstream.streams.observations import CallContent, Observation, cleaned, tell, wants_content
from llmstream.tools import Tool, ToolCallStatus

__all__ = ["ObserveRun", "RunWatch"]

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
