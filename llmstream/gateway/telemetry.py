"""The gateway's own telemetry, by OpenTelemetry (extra `otel`) and for Prometheus (extra `gateway`).

OpenTelemetry has a span for each call, and below it one for each model tried. The spans of models, and the
metrics, are those of `llmstream.telemetry`, on both lanes. No span has prompts or answers. The parent of a
call is the client's own span, if it sent one (`traceparent`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from llmstream.errors import ErrorInfo, Unsupported
from llmstream.gateway.accounts import Row
from llmstream.streams.observations import AttemptFailed, AttemptStarted, CallFinished, FirstContent
from llmstream.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["CallTrace", "Metrics", "Telemetry", "TelemetrySettings", "telemetry_of"]

_NAME: Final = "llmstream.gateway"


class TelemetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[telemetry]` in a gateway's file.

    endpoint: of an OpenTelemetry collector, by OTLP over HTTP, such as "http://localhost:4318"; by default
              the process's own providers, such as those of `opentelemetry-instrument`
    service:  `service.name` of what is sent to the endpoint
    """

    endpoint: str | None = None
    service: str = "llmstream-gateway"


class _Provider(Protocol):
    """One of OpenTelemetry's SDK."""

    def shutdown(self) -> None:
        """Sends the remaining data."""


class Telemetry:
    """Spans and metrics of one gateway.

    tracer_provider, meter_provider: by default OpenTelemetry's global ones
    raises: Unsupported if the extra `otel` is not installed
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        from llmstream.telemetry import OpenTelemetry

        self.models = OpenTelemetry(tracer_provider=tracer_provider, meter_provider=meter_provider)
        from opentelemetry import trace

        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._own: tuple[_Provider, ...] = ()

    def began(self, row: Row, headers: Mapping[str, str]) -> CallTrace:
        """Starts the span of a call.

        headers: of the client's request, in lower case
        """
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        span = self._tracer.start_span(
            f"gateway {row.asked}", context=extract(headers), kind=SpanKind.SERVER, attributes=_asked(row)
        )
        return CallTrace(self, span, row)

    @classmethod
    def exporting(cls, endpoint: str, service: str) -> Telemetry:
        """Sends spans and metrics to a collector, from threads of the SDK, until `close`.

        raises: Unsupported that names the packages
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # type: ignore[import-not-found, unused-ignore]  # optional
                OTLPMetricExporter,
            )
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # type: ignore[import-not-found, unused-ignore]  # optional
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise Unsupported(
                "telemetry.endpoint needs OpenTelemetry's SDK and its exporter: "
                "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
            ) from None
        resource = Resource.create({"service.name": service})
        tracers = TracerProvider(resource=resource)
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{endpoint}/v1/metrics"))
        meters = MeterProvider(resource=resource, metric_readers=[reader])
        telemetry = cls(tracer_provider=tracers, meter_provider=meters)
        telemetry._own = tracers, meters
        return telemetry

    def close(self) -> None:
        """Sends the data not yet sent to a collector."""
        for provider in self._own:
            provider.shutdown()


class CallTrace:
    """The spans of one call; see `accounts.Trace`."""

    def __init__(self, telemetry: Telemetry, span: Span, row: Row) -> None:
        self._models, self._span, self._row = telemetry.models, span, row
        self._call: dict[str, Any] | None = None  # attributes of all observations of the model's call

    def asked(self, model: str) -> None:
        """Starts the span of a model."""
        from opentelemetry.trace import use_span

        provider, _, name = model.partition(":")
        self._call = {"call_id": secrets.token_hex(8), "provider": provider, "model": name}
        with use_span(self._span):
            self._models(AttemptStarted(**self._call, attempt=1))

    def first(self, after_s: float) -> None:
        """Records the first content."""
        if self._call is not None:
            self._models(FirstContent(**self._call, after_s=after_s))

    def failed_over(self, error: ErrorInfo, duration_s: float) -> None:
        """Ends the span of a model that failed before its first content."""
        if self._call is not None:
            self._models(
                AttemptFailed(**self._call, attempt=1, error_code=error.code, status=error.status or None)
            )
            self._finish(duration_s, Usage(), error.code)

    def ended(self, usage: Usage) -> None:
        """Ends the call, once its row is complete."""
        from opentelemetry.trace import StatusCode

        row = self._row
        self._finish(row.duration_s or 0.0, usage, row.code or None, row.first_s)
        self._span.set_attributes(_used(row))
        if row.code:
            self._span.set_status(StatusCode.ERROR, row.code)
        self._span.end()

    def _finish(
        self, duration_s: float, usage: Usage, error_code: str | None, first_s: float | None = None
    ) -> None:
        call, self._call = self._call, None
        if call is not None:
            self._models(
                CallFinished(
                    **call,
                    attempts=1,
                    duration_s=duration_s,
                    usage=usage,
                    error_code=error_code,
                    left=self._row.outcome == "left",
                    time_to_first_s=first_s,
                )
            )


def _asked(row: Row) -> dict[str, str | bool]:
    found = {
        "llmstream.gateway.key": row.key,
        "llmstream.gateway.tag": row.tag,
        "llmstream.gateway.route": row.route,
        "llmstream.gateway.wire": row.wire,
        "gen_ai.request.model": row.asked,
    }
    return {**{name: value for name, value in found.items() if value}, "gen_ai.request.stream": row.streamed}


def _used(row: Row) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool] = {
        "llmstream.gateway.lane": row.lane,
        "llmstream.gateway.outcome": row.outcome,
        "llmstream.gateway.model": row.model,
        "llmstream.gateway.estimated": row.estimated,
        "gen_ai.usage.input_tokens": row.input_tokens,
        "gen_ai.usage.output_tokens": row.output_tokens,
    }
    if row.cost_usd is not None:
        found["llmstream.gateway.cost_usd"] = row.cost_usd
    if row.tried:
        found["llmstream.gateway.tried"] = row.tried
    if row.code:
        found["error.type"] = row.code
    return found


def telemetry_of(settings: TelemetrySettings | None) -> Telemetry | None:
    """Returns the telemetry of a gateway's file.

    raises: Unsupported that names what is not installed
    """
    if settings is None:
        return None
    if settings.endpoint is None:
        return Telemetry()
    return Telemetry.exporting(settings.endpoint.rstrip("/"), settings.service)


# Metrics for Prometheus (extra `gateway`).


# From the first token of a small model (50 ms) to the long answers of reasoning models (10 min).
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Metrics:
    """Counts the calls of one process; with several workers, each has its own.

    Labels are the routes' patterns and the vendors' names, of which there are few. Names of models come from
    clients, and would be unbounded.

    raises: Unsupported where prometheus-client is not installed
    """

    def __init__(self) -> None:
        try:
            from prometheus_client import (  # type: ignore[import-not-found, unused-ignore]  # optional
                CollectorRegistry,
                Counter,
                Gauge,
                Histogram,
            )
        except ImportError:
            raise Unsupported(
                "metrics need prometheus-client: pip install 'llmstream-sdk[gateway]'"
            ) from None
        # Not the global registry, which has the metrics of an application that embeds the gateway.
        self._registry = CollectorRegistry()
        labels = ["route", "provider", "wire", "lane"]

        def counter(name: str, text: str, further: list[str]) -> Counter:
            return Counter(f"llmstream_gateway_{name}", text, labels + further, registry=self._registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(
                f"llmstream_gateway_{name}", text, labels, registry=self._registry, buckets=_SECONDS
            )

        self._calls = counter("calls", "Calls by their end.", ["outcome", "code"])
        self._tokens = counter("tokens", "Tokens of calls.", ["kind"])
        self._cost = counter("cost_usd", "Cost of calls in US dollars, where a price is known.", [])
        self._first = histogram("first_content_seconds", "Seconds from the request to the first content.")
        self._duration = histogram("duration_seconds", "Seconds from the request to the end of the call.")
        self._open = Gauge("llmstream_gateway_open_calls", "Calls in progress.", registry=self._registry)

    def began(self) -> None:
        """Counts a call in progress."""
        self._open.inc()

    def ended(self, row: Row) -> None:
        """Counts a finished call."""
        self._open.dec()
        # The provider's name alone: see the labels above.
        known = (row.route, row.model.partition(":")[0], row.wire, row.lane)
        self._calls.labels(*known, row.outcome, row.code).inc()
        self._tokens.labels(*known, "input").inc(row.input_tokens)
        self._tokens.labels(*known, "output").inc(row.output_tokens)
        self._tokens.labels(*known, "cached").inc(row.cached_tokens)
        if row.cost_usd is not None:
            self._cost.labels(*known).inc(row.cost_usd)
        if row.first_s is not None:
            self._first.labels(*known).observe(row.first_s)
        if row.duration_s is not None:
            self._duration.labels(*known).observe(row.duration_s)

    def page(self) -> tuple[str, bytes]:
        """Content type and body of /metrics."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return CONTENT_TYPE_LATEST, generate_latest(self._registry)
