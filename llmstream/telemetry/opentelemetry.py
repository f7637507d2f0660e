"""An observer of calls that makes OpenTelemetry spans and metrics of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmstream.errors import Unsupported
from llmstream.streams.observations import (
    AttemptFailed,
    AttemptStarted,
    CallFinished,
    FirstContent,
    Observation,
)
from llmstream.telemetry.names import DURATION_BOUNDS_S, TOKEN_BOUNDS, provider_name

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["OpenTelemetry"]

_NAME = "llmstream"


class OpenTelemetry:
    """An observer for `Model(observe=...)`: one span for each call, and metrics.

    One serves any number of models. A span begins at the first attempt, as a child of the span that is
    current there, and ends with the call; it is never made current itself, so nothing of it is left behind
    in a task that is cancelled or a generator that is dropped. Failed attempts are events of the span.
    Text, reasoning, tool calls and the prompt are not recorded.

    tracer_provider, meter_provider: by default OpenTelemetry's global ones
    raises: Unsupported where the extra `otel` is not installed
    source: gen_ai.* of the semantic conventions of OpenTelemetry
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            raise Unsupported(
                "OpenTelemetry is not installed; it comes with: pip install 'llmstream[otel]'"
            ) from None
        self._trace = trace
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Seconds that a call took, failed attempts included.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        )
        self._first = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            unit="s",
            description="Seconds from the beginning of a call to its first content.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of a call's input and output.",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )
        self._spans: dict[str, Span] = {}

    def __call__(self, observation: Observation) -> None:
        """Takes one observation; `Model` does this."""
        if isinstance(observation, AttemptStarted):
            if observation.call_id not in self._spans:
                self._spans[observation.call_id] = self._begun(observation)
        elif isinstance(observation, CallFinished):
            span = self._spans.pop(observation.call_id, None)
            if span is not None:
                self._end(span, observation)
            self._measure(observation)
        elif (span := self._spans.get(observation.call_id)) is not None:
            if isinstance(observation, FirstContent):
                span.set_attribute("gen_ai.response.time_to_first_chunk", observation.after_s)
            else:
                span.add_event("llmstream.attempt_failed", _known(_failure(observation)))

    def _begun(self, observation: AttemptStarted) -> Span:
        attributes = {**_whom(observation), "gen_ai.request.stream": True}
        name = f"chat {observation.model}"
        return self._tracer.start_span(name, kind=self._trace.SpanKind.CLIENT, attributes=attributes)

    def _end(self, span: Span, call: CallFinished) -> None:
        usage, reason = call.usage, call.finish_reason
        span.set_attributes(
            _known(
                {
                    "gen_ai.response.id": call.response_id,
                    "gen_ai.response.model": call.response_model,
                    "gen_ai.response.finish_reasons": None if reason is None else [reason],
                    "gen_ai.usage.input_tokens": usage.input_tokens,
                    "gen_ai.usage.output_tokens": usage.output_tokens,
                    "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
                    "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
                    "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
                    "error.type": call.error_code,
                    "llmstream.request_id": call.request_id,
                    "llmstream.retries": call.retries,
                    "llmstream.left": call.left,
                    "llmstream.paced_s": call.paced_s or None,
                    "llmstream.inter_token_p50_s": call.inter_p50_s,
                    "llmstream.inter_token_p99_s": call.inter_p99_s,
                    "llmstream.tokens_per_s": call.tokens_per_s,
                }
            )
        )
        if call.error_code is not None:
            span.set_status(self._trace.StatusCode.ERROR, call.error_code)
        span.end()

    def _measure(self, call: CallFinished) -> None:
        whom = _whom(call)
        if call.response_model is not None:
            whom["gen_ai.response.model"] = call.response_model
        for kind, tokens in (("input", call.usage.input_tokens), ("output", call.usage.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**whom, "gen_ai.token.type": kind})
        if call.time_to_first_s is not None:
            self._first.record(call.time_to_first_s, whom)
        if call.error_code is not None:
            whom["error.type"] = call.error_code
        self._duration.record(call.duration_s, whom)


def _whom(observation: AttemptStarted | CallFinished) -> dict[str, Any]:
    """What spans and metrics have in common. `gen_ai.system` is what older backends look for."""
    name = provider_name(observation.provider)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": name,
        "gen_ai.system": name,
        "gen_ai.request.model": observation.model,
    }


def _failure(attempt: AttemptFailed) -> dict[str, Any]:
    return {
        "error.type": attempt.error_code,
        "http.response.status_code": attempt.status,
        "llmstream.attempt": attempt.attempt,
        "llmstream.request_id": attempt.request_id,
        "llmstream.wait_s": attempt.wait_s,
    }


def _known(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
