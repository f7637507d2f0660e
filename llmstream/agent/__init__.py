"""A loop on top of the stream: ask, run the tools, ask again, until nothing is left to do.

Read `loop.py` for the loop, `asked_step.py` for a step of it, `calls.py` and `verdicts.py` for what
becomes of a call, and `suspension.py` for a run that waits.
"""

from llmstream.agent.agent import Agent
from llmstream.agent.hooks import Again, Approve, Deny, Hooks, Proceed, Rewrite, Skip, StepPlan, Stop
from llmstream.agent.journal import Journal
from llmstream.agent.nested import NestedEvent, nested_event
from llmstream.agent.observing import (
    AgentObservation,
    CallObserved,
    RunFinished,
    RunStarted,
    ToolContent,
    ToolFinished,
    ToolStarted,
)
from llmstream.agent.run import AgentRun
from llmstream.agent.state import RunState, Step
from llmstream.agent.stop import (
    cost_over,
    elapsed_over,
    no_progress,
    step_count,
    tokens_over,
    tool_called,
    tool_calls_over,
)
from llmstream.agent.suspension import Suspension
from llmstream.errors import RunSuspended
from llmstream.tools.approval import PendingCall

__all__ = [
    "Again",
    "Agent",
    "AgentObservation",
    "AgentRun",
    "Approve",
    "CallObserved",
    "Deny",
    "Hooks",
    "Journal",
    "NestedEvent",
    "PendingCall",
    "Proceed",
    "Rewrite",
    "RunFinished",
    "RunStarted",
    "RunState",
    "RunSuspended",
    "Skip",
    "Step",
    "StepPlan",
    "Stop",
    "Suspension",
    "ToolContent",
    "ToolFinished",
    "ToolStarted",
    "cost_over",
    "elapsed_over",
    "nested_event",
    "no_progress",
    "step_count",
    "tokens_over",
    "tool_called",
    "tool_calls_over",
]
