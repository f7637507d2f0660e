"""A span for each run of an agent, and for each tool that runs in it."""

from __future__ import annotations

from contextvars import Token
from typing import TYPE_CHECKING, Any

from llmstream.agent import RunFinished, RunStarted, ToolContent, ToolFinished, ToolStarted
from llmstream.telemetry.content import cut
from llmstream.telemetry.names import bounded, known, tool_name, whom

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

__all__ = ["RunSpans"]


class RunSpans:
    """Keeps the spans of runs by their ids, so that what happens in a run finds its parent.

    The span of a run is never current. That of a tool is, in the task of its call and until it is over:
    so what a tool does itself, a sub-agent's run included, is below it.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._runs: dict[str, Span] = {}
        self._tools: dict[tuple[str, str], tuple[Span, Token[Context]]] = {}

    def of(self, run_id: str) -> Span | None:
        """The span of a run that is under way."""
        return self._runs.get(run_id)

    def run_started(self, run: RunStarted) -> None:
        """A run begins, below the span that is current."""
        attributes = whom("invoke_agent", run) | known({"gen_ai.agent.name": run.agent or None})
        self._runs[run.run_id] = self._tracer.start_span(
            f"invoke_agent {run.agent}".rstrip(), attributes=attributes
        )

    def run_finished(self, run: RunFinished) -> None:
        """It is over."""
        from opentelemetry.trace import StatusCode

        span = self._runs.pop(run.run_id, None)
        if span is None:
            return
        attributes = {
            "gen_ai.response.finish_reasons": None if run.finish_reason is None else [run.finish_reason],
            "gen_ai.usage.input_tokens": run.usage.input_tokens,
            "gen_ai.usage.output_tokens": run.usage.output_tokens,
            "error.type": run.error_code,
            "llmstream.steps": run.steps,
            "llmstream.left": run.left,
            "llmstream.suspended": run.suspended,
        }
        span.set_attributes(known(attributes))
        if run.error_code is not None:
            span.set_status(StatusCode.ERROR, run.error_code)
        span.end()

    def tool_started(self, tool: ToolStarted) -> None:
        """A tool begins to run, in this task."""
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": bounded(tool.name),
            "gen_ai.tool.call.id": bounded(tool.tool_call_id),
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": tool.description or None,
            "llmstream.step": tool.step,
        }
        run = self._runs.get(tool.run_id)
        span = self._tracer.start_span(
            f"execute_tool {tool_name(tool)}",
            context=None if run is None else set_span_in_context(run),
            attributes=known(attributes),
        )
        # The task is the call's own and awaits, without a yield, until `tool_finished`.
        self._tools[tool.run_id, tool.tool_call_id] = span, attach(set_span_in_context(span))

    def tool_content(self, tool: ToolContent) -> None:
        """What went in and came out."""
        found = self._tools.get((tool.run_id, tool.tool_call_id))
        if found is not None:
            result = None if tool.result is None else cut(tool.result)
            content = {"gen_ai.tool.call.arguments": cut(tool.arguments), "gen_ai.tool.call.result": result}
            found[0].set_attributes(known(content))

    def tool_finished(self, tool: ToolFinished) -> None:
        """It is over, in the same task."""
        from opentelemetry.context import detach
        from opentelemetry.trace import StatusCode

        span, token = self._tools.pop((tool.run_id, tool.tool_call_id), (None, None))
        if span is None or token is None:
            return
        detach(token)
        span.set_attributes(known({"error.type": tool.error_type}))
        if tool.error_type is not None:
            span.set_status(StatusCode.ERROR, tool.error_type)
        span.end()
