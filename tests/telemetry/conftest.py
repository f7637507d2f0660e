"""Where spans and metrics end up in tests."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import llmstream as ls
from llmstream.telemetry import OpenTelemetry, instrument

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed (extra: test)")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Backend(NamedTuple):
    """Where spans and metrics end up."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracers: TracerProvider
    meters: MeterProvider

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: list(metric.data.data_points) for metric in metrics}

    def instrument(self, target: ls.Model | ls.Agent, *, content: bool = False) -> OpenTelemetry:
        return instrument(target, content=content, tracer_provider=self.tracers, meter_provider=self.meters)


@pytest.fixture
def backend() -> Backend:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider(metric_readers=[reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    return Backend(exporter, reader, tracers, meters)
