"""Adding an observer to a model that may have one already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmstream.agent import Agent
from llmstream.streams import Model
from llmstream.streams.observations import Observation, Observe
from llmstream.telemetry.opentelemetry import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument"]


def instrument(
    target: Model | Agent,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> OpenTelemetry:
    """Makes spans and metrics of every call of a model, or of an agent's model, from its next call on.

    An observer that the model has already goes on being told. Of an agent's run each step is a span;
    a model that `prepare_step` brings in is instrumented by itself.

    raises: Unsupported where the extra `otel` is not installed
    """
    model = target.model if isinstance(target, Agent) else target
    observer = OpenTelemetry(tracer_provider=tracer_provider, meter_provider=meter_provider)
    model.observe = observer if model.observe is None else _both(model.observe, observer)
    return observer


def _both(first: Observe, second: Observe) -> Observe:
    def tell(observation: Observation) -> None:
        try:
            first(observation)
        finally:
            second(observation)

    return tell
