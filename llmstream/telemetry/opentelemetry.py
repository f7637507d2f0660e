"""An observer that turns calls and runs into OpenTelemetry spans and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmstream.agent.observing import (
    CallObserved,
    RunFinished,
    RunStarted,
    ToolContent,
    ToolFinished,
    ToolStarted,
)
from llmstream.errors import Unsupported
from llmstream.streams.observations import CallContent, CallFinished, Observation, joined
from llmstream.telemetry.metrics import Metrics
from llmstream.telemetry.spans import CallSpans, RunSpans

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from llmstream.agent import Agent, AgentObservation
    from llmstream.streams import Model

__all__ = ["OpenTelemetry", "instrument"]

_NAME = "llmstream"


class OpenTelemetry:
    """An observer for `Model(observe=...)` and `Agent(observe=...)` that creates spans and metrics.

    One observer serves any number of models and agents. The parent of a span is that of its run, or else
    the current span. Spans of calls and runs are never made current, so a cancelled task or a dropped
    generator leaves none behind.

    content: whether spans hold instructions, messages, tool arguments and tool results, which may be
             private
    tracer_provider, meter_provider: by default OpenTelemetry's global ones
    raises: Unsupported if the extra `otel` is not installed
    source: gen_ai.* of the semantic conventions of OpenTelemetry
    """

    def __init__(
        self,
        *,
        content: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            raise Unsupported(
                "OpenTelemetry is not installed. Install it: pip install 'llmstream-sdk[otel]'"
            ) from None
        self.wants_content = content
        tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._calls = CallSpans(tracer)
        self._runs = RunSpans(tracer)
        self._metrics = Metrics(metrics.get_meter(_NAME, meter_provider=meter_provider))

    def __call__(self, observation: Observation | CallContent | AgentObservation) -> None:
        """Processes one observation; called by `Model` and `Agent`."""
        match observation:
            case CallObserved():
                self._call(observation.observation, self._runs.of(observation.run_id))
            case RunStarted():
                self._runs.run_started(observation)
            case ToolStarted():
                self._runs.tool_started(observation)
            case ToolContent():
                self._runs.tool_content(observation)
            case ToolFinished():
                self._runs.tool_finished(observation)
                self._metrics.tool(observation)
            case RunFinished():
                self._runs.run_finished(observation)
                self._metrics.run(observation)
            case _:
                self._call(observation, None)

    def _call(self, observation: Observation | CallContent, parent: Span | None) -> None:
        self._calls.take(observation, parent)
        if isinstance(observation, CallFinished):
            self._metrics.call(observation)


def instrument(
    target: Model | Agent,
    *,
    content: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> OpenTelemetry:
    """Adds spans and metrics to all further calls of a model, or runs of an agent.

    A run has one span, with a child for each model call and each tool call. The run of an instrumented
    sub-agent is a child of its tool call. Instrument either an agent or its model: with both, its calls
    are recorded twice. Observers set before continue to work.

    content: whether spans hold prompts and answers, which may be private
    raises:  Unsupported if the extra `otel` is not installed
    """
    observer = OpenTelemetry(content=content, tracer_provider=tracer_provider, meter_provider=meter_provider)
    target.observe = joined(target.observe, observer)
    return observer
