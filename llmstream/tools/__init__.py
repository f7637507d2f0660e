"""Tools: functions that the model may call, and the execution of its calls.

Read `tool.py` for `@tool` and the execution of one call, `toolset.py` for the tools of a conversation, and
`runner.py` for the concurrent calls of a response and their cancellation.
"""

from llmstream.tools.approval import Approve, Approver, Deny, PendingCall, Run, Settled, Verdict, Wait
from llmstream.tools.outcome import (
    ToolCallStatus,
    ToolOutcome,
    ToolOutput,
    cancelled_results,
    render_statuses,
)
from llmstream.tools.runner import ApprovalGate, CallEvent, CallRunner, Ended, Progress, run_call, run_calls
from llmstream.tools.signature import ToolContext
from llmstream.tools.tool import AnyTool, ContextOf, LiveTools, Tool, tool, tool_from_function
from llmstream.tools.toolset import ToolSet

__all__ = [
    "AnyTool",
    "ApprovalGate",
    "Approve",
    "Approver",
    "CallEvent",
    "CallRunner",
    "ContextOf",
    "Deny",
    "Ended",
    "LiveTools",
    "PendingCall",
    "Progress",
    "Run",
    "Settled",
    "Tool",
    "ToolCallStatus",
    "ToolContext",
    "ToolOutcome",
    "ToolOutput",
    "ToolSet",
    "Verdict",
    "Wait",
    "cancelled_results",
    "render_statuses",
    "run_call",
    "run_calls",
    "tool",
    "tool_from_function",
]
