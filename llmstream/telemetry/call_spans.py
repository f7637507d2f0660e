"""One span for each call of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmstream.streams.observations import (
    AttemptFailed,
    AttemptStarted,
    CallFinished,
    FirstContent,
    Observation,
)
from llmstream.streams.observers import CallContent
from llmstream.telemetry.content import content_attributes
from llmstream.telemetry.names import known, whom

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["CallSpans"]


class CallSpans:
    """Begins a span at a call's first attempt and ends it with the call; failed attempts are its events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._spans: dict[str, Span] = {}

    def take(self, observation: Observation | CallContent, parent: Span | None = None) -> None:
        """Takes one observation. Without a parent, a new span's is the one that is current."""
        call_id = observation.call_id
        if isinstance(observation, AttemptStarted):
            if call_id not in self._spans:
                self._spans[call_id] = self._begun(observation, parent)
            return
        span = self._spans.get(call_id)
        if span is None:
            return
        match observation:
            case FirstContent():
                span.set_attribute("gen_ai.response.time_to_first_chunk", observation.after_s)
            case AttemptFailed():
                span.add_event("llmstream.attempt_failed", known(_failure(observation)))
            case CallContent():
                span.set_attributes(content_attributes(observation))
            case CallFinished():
                del self._spans[call_id]
                _end(span, observation)

    def _begun(self, observation: AttemptStarted, parent: Span | None) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        return self._tracer.start_span(
            f"chat {observation.model}",
            context=None if parent is None else set_span_in_context(parent),
            kind=SpanKind.CLIENT,
            attributes={**whom("chat", observation), "gen_ai.request.stream": True},
        )


def _end(span: Span, call: CallFinished) -> None:
    from opentelemetry.trace import StatusCode

    usage, reason = call.usage, call.finish_reason
    attributes = {
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
        "llmstream.continuations": call.continuations or None,
        "llmstream.left": call.left,
        "llmstream.paced_s": call.paced_s or None,
        "llmstream.inter_token_p50_s": call.inter_p50_s,
        "llmstream.inter_token_p99_s": call.inter_p99_s,
        "llmstream.tokens_per_s": call.tokens_per_s,
    }
    span.set_attributes(known(attributes))
    if call.error_code is not None:
        span.set_status(StatusCode.ERROR, call.error_code)
    span.end()


def _failure(attempt: AttemptFailed) -> dict[str, Any]:
    return {
        "error.type": attempt.error_code,
        "http.response.status_code": attempt.status,
        "llmstream.attempt": attempt.attempt,
        "llmstream.request_id": attempt.request_id,
        "llmstream.wait_s": attempt.wait_s,
    }
