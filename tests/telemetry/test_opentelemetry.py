"""Spans and metrics of calls, in the words of the conventions for generative AI."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import llmstream as ls
from llmstream.errors import Unsupported
from llmstream.telemetry import OpenTelemetry
from llmstream.testing import Cut, Refuse, Script, Simulator, Turn

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed (extra: test)")

from opentelemetry import trace

CONTENT = "system_instructions", "input.messages", "output.messages"


def says(text: str) -> Simulator:
    return Simulator(Script((Turn(text=text),)))


def asked(simulator: Simulator) -> ls.Model:
    return ls.Model("anthropic:any", base_url=simulator.url, api_key="not-used")


async def test_call_is_a_span_without_content(backend: Any) -> None:
    """It has the token counts."""
    async with says("A secret answer") as simulator:
        model = asked(simulator)
        backend.instrument(model)
        message = await model.stream("A secret question").collect()
    assert message.text == "A secret answer"
    (span,) = backend.spans
    assert span.name == f"chat {model.name}"
    assert span.kind is trace.SpanKind.CLIENT
    assert span.status.status_code is trace.StatusCode.UNSET
    attributes = dict(span.attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == attributes["gen_ai.system"] == model.provider.name
    assert attributes["gen_ai.request.model"] == model.name
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["gen_ai.usage.output_tokens"] > 0
    assert attributes["gen_ai.response.time_to_first_chunk"] > 0
    assert "error.type" not in attributes
    assert "secret" not in span.to_json()


async def test_metrics_follow_the_conventions(backend: Any) -> None:
    async with says("Hello there, how are you?") as simulator:
        model = asked(simulator)
        backend.instrument(model)
        await model.stream("Hi").collect()
    points = backend.points()
    assert points["gen_ai.client.operation.duration"][0].count == 1
    assert points["gen_ai.client.operation.time_to_first_chunk"][0].count == 1
    kinds = {point.attributes["gen_ai.token.type"] for point in points["gen_ai.client.token.usage"]}
    assert kinds == {"input", "output"}
    gaps = points["llmstream.client.inter_token"]
    assert {point.attributes["llmstream.quantile"] for point in gaps} == {0.5, 0.99}
    assert points["llmstream.client.tokens_per_second"][0].sum > 0
    assert "llmstream.client.retries" not in points


async def test_failed_attempts_are_span_events(backend: Any) -> None:
    """The failure of the call is the status of the span."""
    async with Simulator(Script((Turn(fault=Refuse(status=503)),))) as simulator:
        model = asked(simulator)
        model.retry = ls.Retry(max_retries=1, max_wait_s=0.001)
        backend.instrument(model)
        with pytest.raises(ls.Overloaded):
            await model.stream("Hi").collect()
    (span,) = backend.spans
    assert span.status.status_code is trace.StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "overloaded"
    assert [(event.attributes or {})["llmstream.attempt"] for event in span.events] == [1, 2]
    points = backend.points()
    assert points["gen_ai.client.operation.duration"][0].attributes["error.type"] == "overloaded"
    assert points["llmstream.client.retries"][0].value == 1


async def test_broken_off_response_is_an_error(backend: Any) -> None:
    async with Simulator(Script((Turn(text="Hello there", fault=Cut(after_events=3)),))) as simulator:
        model = asked(simulator)
        backend.instrument(model)
        with pytest.raises(ls.LLMStreamError) as caught:
            await model.stream("Hi").collect()
    assert (backend.spans[0].attributes or {})["error.type"] == caught.value.code


async def test_spans_have_parent_are_never_current(backend: Any) -> None:
    tracer = backend.tracers.get_tracer("test")
    async with says("Hello") as simulator:
        model = asked(simulator)
        backend.instrument(model)
        with tracer.start_as_current_span("mine") as mine:
            async for _ in model.stream("Hi"):
                assert trace.get_current_span() is mine
    call, parent = backend.spans
    assert call.parent is not None
    assert call.parent.span_id == parent.context.span_id


async def test_stream_left_elsewhere_ends_its_span(backend: Any) -> None:
    """Another task leaves it."""
    async with says("Hello") as simulator:
        model = asked(simulator)
        observer = backend.instrument(model)
        stream = model.stream("Hi")
        while await stream.next():
            if isinstance(stream.current, ls.TextDelta):
                break
        await asyncio.create_task(stream.aclose())
    (span,) = backend.spans
    assert (span.attributes or {})["llmstream.left"] is True
    assert observer._calls._spans == {}


async def test_earlier_observer_is_still_called(backend: Any) -> None:
    told: list[ls.Observation] = []
    async with says("Hello") as simulator:
        model = asked(simulator)
        model.observe = told.append
        backend.instrument(model)
        await model.stream("Hi").collect()
    assert len(told) == 3
    assert len(backend.spans) == 1


def test_missing_extra_names_the_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(Unsupported, match=r"llmstream-sdk\[otel\]"):
        OpenTelemetry()


async def test_content_recorded_only_if_requested(backend: Any) -> None:
    told: list[Any] = []
    async with says("A secret answer") as simulator:
        model = asked(simulator)
        model.observe = told.append
        backend.instrument(model, content=True)
        await model.stream("A secret question", instructions="Be brief").collect()
    (span,) = backend.spans
    asked_for = {name: json.loads(span.attributes[f"gen_ai.{name}"]) for name in CONTENT}
    assert asked_for == {
        "system_instructions": [{"type": "text", "content": "Be brief"}],
        "input.messages": [{"role": "user", "parts": [{"type": "text", "content": "A secret question"}]}],
        "output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "A secret answer"}]}],
    }
    assert "secret" not in repr(told)  # another observer did not ask for it


async def test_call_may_have_its_own_observer() -> None:
    told: list[ls.Observation] = []
    async with says("Hello") as simulator:
        model = asked(simulator)
        await model.stream("Hi", observe=told.append).collect()
        await model.stream("Hi").collect()
    assert [type(observation) for observation in told] == [
        ls.AttemptStarted,
        ls.FirstContent,
        ls.CallFinished,
    ]
