"""Adding an observer to a model or an agent that may have one already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmstream.agent import Agent
from llmstream.streams import Model
from llmstream.streams.observers import joined
from llmstream.telemetry.opentelemetry import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument"]


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
    target.observe = joined(target.observe, observer)
    return observer
