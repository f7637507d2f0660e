"""Tools: functions that the model may call, and the running of its calls.

Read `function.py` for `@tool`, `tool.py` for what a Tool does with a call, `running.py` for
how a call runs, and `call_tasks.py` for several of them.
"""

from llmstream.tools.approval import Approve, Approver, Deny, PendingCall
from llmstream.tools.call_tasks import CallTasks
from llmstream.tools.context import ToolContext
from llmstream.tools.function import AnyTool, as_tools, tool, tool_from_function, tool_specs, wrapped
from llmstream.tools.live import LiveTools
from llmstream.tools.outcome import ToolOutcome, ToolOutput
from llmstream.tools.running import cancelled_results, run_call
from llmstream.tools.side_by_side import run_calls
from llmstream.tools.status import ToolCallStatus, render_statuses
from llmstream.tools.tool import Tool

__all__ = [
    "AnyTool",
    "Approve",
    "Approver",
    "CallTasks",
    "Deny",
    "LiveTools",
    "PendingCall",
    "Tool",
    "ToolCallStatus",
    "ToolContext",
    "ToolOutcome",
    "ToolOutput",
    "as_tools",
    "cancelled_results",
    "render_statuses",
    "run_call",
    "run_calls",
    "tool",
    "tool_from_function",
    "tool_specs",
    "wrapped",
]
