"""OpenTelemetry spans and metrics by the semantic conventions for generative AI (extra `otel`).

    from llmstream.telemetry import instrument

    instrument(model)  # or an agent

Prompts and answers are recorded only with `content=True`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
from llmstream.telemetry.spans import (
    CallSpans,
    RunSpans,
    model_attributes,
    tool_name,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
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


# Metrics of model calls, agent runs and tool calls.


# The conventions advise these bounds of durations and tokens.
_DURATION_BOUNDS_S: Final = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
_TOKEN_BOUNDS: Final = tuple(4**power for power in range(14))
# Ours: fast models send a token in a few milliseconds, slow ones in a second.
_GAP_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5)
_RATE_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)

# Response models recorded per requested model: the same name, and dated ones.
_NAMES_PER_MODEL: Final = 8


class Metrics:
    """The instruments of the conventions, and three of llmstream."""

    def __init__(self, meter: Meter) -> None:
        self._response_models: dict[str, set[str]] = {}
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of a call, run or tool in seconds, including failed attempts.",
            explicit_bucket_boundaries_advisory=_DURATION_BOUNDS_S,
        )
        self._first = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            unit="s",
            description="Seconds from the start of a call to its first content.",
            explicit_bucket_boundaries_advisory=_DURATION_BOUNDS_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Input and output tokens of a call.",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        self._gaps = meter.create_histogram(
            "llmstream.client.inter_token",
            unit="s",
            description="Seconds between two fragments: the quantiles 0.5 and 0.99 of each call.",
            explicit_bucket_boundaries_advisory=_GAP_BOUNDS_S,
        )
        self._rate = meter.create_histogram(
            "llmstream.client.tokens_per_second",
            unit="{token}/s",
            description="Output tokens of a call per second since its first content.",
            explicit_bucket_boundaries_advisory=_RATE_BOUNDS,
        )
        self._retries = meter.create_counter(
            "llmstream.client.retries", unit="{retry}", description="Number of retried requests."
        )

    def call(self, call: CallFinished) -> None:
        """Records a finished call."""
        about = model_attributes("chat", call)
        if self._is_recorded(call.model, call.response_model):
            about["gen_ai.response.model"] = call.response_model
        for kind, tokens in (("input", call.usage.input_tokens), ("output", call.usage.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**about, "gen_ai.token.type": kind})
        if call.time_to_first_s is not None:
            self._first.record(call.time_to_first_s, about)
        for quantile, gap_s in ((0.5, call.inter_p50_s), (0.99, call.inter_p99_s)):
            if gap_s is not None:
                self._gaps.record(gap_s, {**about, "llmstream.quantile": quantile})
        if call.tokens_per_s is not None:
            self._rate.record(call.tokens_per_s, about)
        if call.retries:
            self._retries.add(call.retries, about)
        # The conventions have error.type on the duration only.
        if call.error_code is not None:
            about["error.type"] = call.error_code
        self._duration.record(call.duration_s, about)

    def _is_recorded(self, requested: str, responded: str | None) -> bool:
        """Whether the response model may be an attribute; each new value creates time series.

        It must begin with the requested name, as dated names do, and be one of the first few.
        """
        if responded is None or not responded.startswith(requested):
            return False
        names = self._response_models.setdefault(requested, set())
        if len(names) < _NAMES_PER_MODEL:
            names.add(responded)
        return responded in names

    def run(self, run: RunFinished) -> None:
        """Records a finished run."""
        about = {"gen_ai.operation.name": "invoke_agent"}
        if run.agent:
            about["gen_ai.agent.name"] = run.agent
        if run.error_code is not None:
            about["error.type"] = run.error_code
        self._duration.record(run.duration_s, about)

    def tool(self, tool: ToolFinished) -> None:
        """Records a finished tool call."""
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool_name(tool)}
        if tool.error_type is not None:
            about["error.type"] = tool.error_type
        self._duration.record(tool.duration_s, about)
