"""The steps of a run as an HTML table for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmstream.display.table import CallCell, TableRow, html_table

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun
    from llmstream.agent.state import Step

__all__ = ["run_table"]


def run_table(run: AgentRun[Any]) -> str:
    """The completed steps of a run: model, calls, tokens, cost and times of each, and their sums.

    The sum of the tokens includes sub-agents. The times are those of the responses, without tools.
    """
    times = [step.timings.total_s for step in run.steps if step.timings.total_s is not None]
    total = TableRow(
        "Total", usage=run.total_usage, cost=run.cost_estimate, total_s=sum(times) if times else None
    )
    rows = [_row(step) for step in run.steps]
    if run.suspended is not None:
        calls = [CallCell(call.name, pending=True) for call in run.suspended.pending]
        rows.append(TableRow(str(run.step), finish="suspended", calls=calls, usage=run.usage))
    return html_table(repr(run).strip("<>"), rows, total, error=run.error)


def _row(step: Step) -> TableRow:
    ran = {status.tool_call_id for status in step.statuses}
    calls = [CallCell(status.name, status.error) for status in step.statuses]
    # Calls that the vendor ran have their results in the message; others wait for a decision.
    done = ran | {result.tool_call_id for result in step.message.tool_results}
    calls += [
        CallCell(call.name, pending=call.id not in done)
        for call in step.message.tool_calls
        if call.id not in ran
    ]
    return TableRow(
        str(step.number),
        step.model,
        step.finish_reason,
        calls,
        step.usage,
        step.cost_estimate,
        step.timings.first_content_s,
        step.timings.total_s,
    )
