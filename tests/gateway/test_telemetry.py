"""Spans and metrics of a gateway's calls, with OpenTelemetry's SDK in memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from gateway_parts import model_at, script_of, serving

import llmstream as ls
from llmstream.events import Usage
from llmstream.gateway import Gateway, Telemetry, load_settings
from llmstream.gateway.telemetry import telemetry_of
from llmstream.testing import Refuse, Simulator, Turn

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed (extra: test)")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Recorded:
    """Telemetry whose spans and metrics stay in memory."""

    def __init__(self) -> None:
        self.spans, self.metrics = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.telemetry = Telemetry(
            tracer_provider=tracers, meter_provider=MeterProvider(metric_readers=[self.metrics])
        )

    def named(self, prefix: str) -> list[Any]:
        return [span for span in self.spans.get_finished_spans() if span.name.startswith(prefix)]

    def metric(self, name: str) -> list[Any]:
        data = self.metrics.get_metrics_data()
        found = [
            one
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == name
        ]
        return list(found[0].data.data_points)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.mark.parametrize("client", ["anthropic", "openai-chat"])
async def test_calls_and_models_have_spans(recorded: Recorded, client: str) -> None:
    """On both lanes: the call below the client's own span, and below it the model."""
    script = script_of([Turn(text="Hello", usage=Usage(1000, 100))])
    async with Simulator(script) as simulator:
        gateway = Gateway({"sim": model_at(simulator.url, "anthropic")}, telemetry=recorded.telemetry)
        async with serving(gateway) as url:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-llmstream-tag": "research"}
            assert (await model_at(url, client, headers=headers).ask("Hi")).text == "Hello"
        (call,), (model,) = recorded.named("gateway sim"), recorded.named("chat sim")
    assert (call.kind, f"{call.context.trace_id:x}", f"{call.parent.span_id:x}") == (
        SpanKind.SERVER,
        TRACE.lstrip("0"),
        PARENT,
    )
    assert model.parent.span_id == call.context.span_id
    attributes = dict(call.attributes)
    assert attributes["llmstream.gateway.lane"] == ("pass" if client == "anthropic" else "translate")
    assert attributes["llmstream.gateway.outcome"] == "complete"
    assert attributes["llmstream.gateway.tag"] == "research"
    assert attributes["gen_ai.usage.output_tokens"] == model.attributes["gen_ai.usage.output_tokens"] == 100
    assert model.attributes["gen_ai.provider.name"] == "anthropic"
    assert model.attributes["gen_ai.response.time_to_first_chunk"] > 0


async def test_failed_models_have_spans(recorded: Recorded) -> None:
    """One that another answered for, with its error; the call itself has none."""
    script = script_of([Turn(fault=Refuse(status=500)), Turn(text="Hello")])
    async with Simulator(script) as simulator:
        models = [
            model_at(simulator.url, "anthropic", "first"),
            model_at(simulator.url, "anthropic", "second"),
        ]
        gateway = Gateway({"sim": models}, telemetry=recorded.telemetry)
        async with serving(gateway) as url:
            assert (await model_at(url, "anthropic").ask("Hi")).text == "Hello"
        (call,) = recorded.named("gateway")
        first, second = recorded.named("chat first")[0], recorded.named("chat second")[0]
    assert call.status.status_code is StatusCode.UNSET
    assert "first" in call.attributes["llmstream.gateway.tried"]
    assert (first.status.status_code, first.attributes["error.type"]) == (StatusCode.ERROR, "server-error")
    assert second.status.status_code is StatusCode.UNSET


async def test_refused_calls_are_errors(recorded: Recorded) -> None:
    async with Simulator(script_of([Turn(fault=Refuse(status=429))])) as simulator:
        gateway = Gateway({"sim": model_at(simulator.url, "anthropic")}, telemetry=recorded.telemetry)
        async with serving(gateway) as url:
            with pytest.raises(ls.RateLimited):
                await model_at(url, "gemini").ask("Hi")
        (call,) = recorded.named("gateway")
        points = recorded.metric("gen_ai.client.operation.duration")
    assert (call.status.status_code, call.attributes["error.type"]) == (StatusCode.ERROR, "rate-limited")
    assert [point.attributes["error.type"] for point in points] == ["rate-limited"]


def test_telemetry_is_set_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text('[models.fast]\nuse = "sim:demo"')
    assert telemetry_of(load_settings(path).telemetry) is None
    path.write_text('[models.fast]\nuse = "sim:demo"\n[telemetry]')
    assert telemetry_of(load_settings(path).telemetry) is not None
    path.write_text('[models.fast]\nuse = "sim:demo"\n[telemetry]\nendpoint = "http://localhost:4318"')
    settings = load_settings(path).telemetry
    assert settings is not None
    assert settings.service == "llmstream-gateway"
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ls.Unsupported, match="opentelemetry-exporter-otlp-proto-http"):
        telemetry_of(settings)
    path.write_text('[models.fast]\nuse = "sim:demo"\n[telemetry]\nsampling = 1')
    with pytest.raises(ls.InvalidRequest, match="sampling"):
        load_settings(path)
