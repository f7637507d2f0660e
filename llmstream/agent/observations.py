"""What an observer of an agent's runs is told: small values, without content unless it wants that."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from llmstream.events import FinishReason, Usage
from llmstream.streams.observations import CallContent, Observation

__all__ = [
    "AgentObservation",
    "CallObserved",
    "RunFinished",
    "RunStarted",
    "ToolContent",
    "ToolFinished",
    "ToolStarted",
]


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
