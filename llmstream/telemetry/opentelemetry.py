"""An observer of calls and runs that makes OpenTelemetry spans and metrics of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmstream.agent import (
    Agent,
    AgentObservation,
    CallObserved,
    RunFinished,
    RunStarted,
    ToolContent,
    ToolFinished,
    ToolStarted,
)
from llmstream.errors import Unsupported
from llmstream.streams import Model
from llmstream.streams.observations import CallFinished, Observation
from llmstream.streams.observers import CallContent, joined
from llmstream.telemetry.metrics import Metrics
from llmstream.telemetry.spans import CallSpans, RunSpans

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["OpenTelemetry", "instrument"]

_NAME = "llmstream"


class OpenTelemetry:
    """An observer for `Model(observe=...)` and `Agent(observe_run=...)`: spans, and metrics.

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


def instrument(
    target: Model | Agent,
    *,
    content: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> OpenTelemetry:
    """Makes spans and metrics of every call of a model, or of every run of an agent, from the next on.

    Of a run there is one span, and below it one for each call of whatever model and each tool that runs.
    A sub-agent that is instrumented as well has its run below the tool it is. An agent's model that is
    instrumented too is told twice. Observers that are there already go on being told.

    content: whether spans hold what was said; it may be private
    raises:  Unsupported where the extra `otel` is not installed
    """
    observer = OpenTelemetry(content=content, tracer_provider=tracer_provider, meter_provider=meter_provider)
    if isinstance(target, Agent):
        target.observe_run = joined(target.observe_run, observer)
    else:
        target.observe = joined(target.observe, observer)
    return observer
