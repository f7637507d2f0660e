"""Metrics of model calls, agent runs and tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llmstream.agent.observing import RunFinished, ToolFinished
from llmstream.streams.observations import CallFinished
from llmstream.telemetry.names import (
    DURATION_BOUNDS_S,
    GAP_BOUNDS_S,
    RATE_BOUNDS,
    TOKEN_BOUNDS,
    model_attributes,
    tool_name,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

__all__ = ["Metrics"]

# Response models recorded per requested model: the same name, and dated ones.
_NAMES_PER_MODEL: Final = 8


class Metrics:
    """The instruments of the conventions, and three of llmstream."""

    def __init__(self, meter: Meter) -> None:
        self._answering: dict[str, set[str]] = {}
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of a call, run or tool in seconds, including failed attempts.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        )
        self._first = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            unit="s",
            description="Seconds from the start of a call to its first content.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Input and output tokens of a call.",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )
        self._gaps = meter.create_histogram(
            "llmstream.client.inter_token",
            unit="s",
            description="Seconds between two fragments: the quantiles 0.5 and 0.99 of each call.",
            explicit_bucket_boundaries_advisory=GAP_BOUNDS_S,
        )
        self._rate = meter.create_histogram(
            "llmstream.client.tokens_per_second",
            unit="{token}/s",
            description="Output tokens of a call per second since its first content.",
            explicit_bucket_boundaries_advisory=RATE_BOUNDS,
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
        names = self._answering.setdefault(requested, set())
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
