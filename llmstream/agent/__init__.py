"""The agent: sends requests and runs tools in a loop until the model has finished.

Start with `loop.py` for the loop and `steps.py` for its steps. `calls.py` runs the calls of a step,
`CallGate` in `hooks.py` decides whether a call runs, and `suspension.py` is a run that waits for a decision.
"""

from llmstream.agent.agent import Agent
from llmstream.agent.hooks import Again, Hooks, Proceed, Rewrite, Skip, StepPlan, Stop
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
from llmstream.agent.state import (
    RunState,
    Step,
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
from llmstream.tools.approval import Approve, Deny, PendingCall

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
