"""An observer of calls and runs that makes OpenTelemetry spans and metrics of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmstream.agent import (
    AgentObservation,
    CallObserved,
    RunFinished,
    RunStarted,
    ToolContent,
    ToolFinished,
    ToolStarted,
)
from llmstream.errors import Unsupported
from llmstream.streams.observations import CallFinished, Observation
from llmstream.streams.observers import CallContent
from llmstream.telemetry.call_spans import CallSpans
from llmstream.telemetry.metrics import Metrics
from llmstream.telemetry.run_spans import RunSpans

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["OpenTelemetry"]

_NAME = "llmstream"


class OpenTelemetry:
    """An observer for `Model(observe=...)` and `Agent(observe=...)`: spans, and metrics.

    One serves any number of models and agents. A span begins below its run's, or else below the one that
    is current, and ends with what it stands for. The spans of calls and runs are never made current, so
    nothing of them is left behind in a task that is cancelled or a generator that is dropped.

    content: whether spans hold what was said: instructions, messages, arguments and results of tools.
             They may be private
    tracer_provider, meter_provider: by default OpenTelemetry's global ones
    raises: Unsupported where the extra `otel` is not installed
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
                "OpenTelemetry is not installed; it comes with: pip install 'llmstream-sdk[otel]'"
            ) from None
        self.wants_content = content
        tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._calls = CallSpans(tracer)
        self._runs = RunSpans(tracer)
        self._metrics = Metrics(metrics.get_meter(_NAME, meter_provider=meter_provider))

    def __call__(self, observation: Observation | CallContent | AgentObservation) -> None:
        """Takes one observation; `Model` and `Agent` do this."""
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
