"""What the other side may put into spans and metrics: no keys, no series without end, no megabytes."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import TextDelta, TextStart, Usage
from llmstream.streams.observations import CallFinished, Watch
from llmstream.testing import Call, Script, Simulator, Turn
from llmstream.transport.sessions import close_session
from tests.streams.sse_server import answer, chunk

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed (extra: test)")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from llmstream.telemetry import instrument

KEY = "sk-SECRETsecretSECRET1234"


def named(field: str, value: str) -> bytes:
    """A chunk with another id or model."""
    return b"data: " + json.dumps({**json.loads(chunk("Hi")[6:]), field: value}).encode() + b"\n\n"


async def collected(
    backend: Any, *pieces: bytes, asked: int = 1, headers: dict[str, str] | None = None
) -> None:
    """Asks a server that gives these pieces."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **(headers or {})})
        await response.prepare(request)
        for piece in [*pieces, chunk(reason="stop"), b"data: [DONE]\n\n"]:
            await response.write(piece.replace(b"NUMBER", str(len(backend.spans)).encode()))
        await response.write_eof()
        return response

    async with serving(handle) as url:
        model = ls.Model("openai:m", api_key=KEY, base_url=url)
        backend.instrument(model, content=False)
        for _ in range(asked):
            await model.stream("Hi").collect()


class serving:
    def __init__(self, handle: Any) -> None:
        self.app = web.Application()
        self.app.router.add_route("*", "/{tail:.*}", handle)

    async def __aenter__(self) -> str:
        self.runner = web.AppRunner(self.app, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def __aexit__(self, *_: object) -> None:
        await close_session()
        await self.runner.cleanup()


@pytest.mark.parametrize("field", ["id", "model", "header"])
async def test_echoed_key_is_in_no_span_or_metric(backend: Any, field: str) -> None:
    echo = chunk("Hi") if field == "header" else named(field, f"m-{KEY}")
    await collected(backend, echo, headers={"x-request-id": KEY} if field == "header" else None)
    (span,) = backend.spans
    assert KEY not in span.to_json()
    assert KEY not in str(backend.reader.get_metrics_data())
    assert "***" in span.to_json()


async def test_a_log_line_has_no_echoed_key(backend: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "llmstream")
    await collected(backend, chunk("Hi"), headers={"x-request-id": KEY})
    assert "(request ***)" in caplog.text
    assert KEY not in caplog.text


async def test_ids_and_models_of_megabytes_are_cut(backend: Any) -> None:
    await collected(backend, named("id", "i" * 1_000_000), named("model", "m" * 1_000_000))
    (span,) = backend.spans
    assert len(span.to_json()) < 5_000


async def test_invented_models_make_few_series(backend: Any) -> None:
    await collected(backend, named("model", "mNUMBER"), asked=30)
    points = backend.points()["gen_ai.client.operation.duration"]
    assert len(points) <= 9
    assert sum(point.count for point in points) == 30


async def test_other_models_name_is_no_attribute(backend: Any) -> None:
    await collected(backend, named("model", "otherNUMBER"), asked=3)
    (point,) = backend.points()["gen_ai.client.operation.duration"]
    assert "gen_ai.response.model" not in point.attributes


async def test_invented_tools_make_one_series(backend: Any) -> None:
    calls = tuple(Call(f"invented{number}", {}) for number in range(20))
    async with Simulator(Script((Turn(calls=calls), Turn(text="Done.")))) as simulator:
        agent = ls.Agent(ls.Model("openai:any", base_url=f"{simulator.url}/v1", api_key="not-used"))
        backend.instrument(agent)
        await agent.run("Hi")
    tools = [
        p for p in backend.points()["gen_ai.client.operation.duration"] if "gen_ai.tool.name" in p.attributes
    ]
    assert {point.attributes["gen_ai.tool.name"] for point in tools} <= {"_OTHER"}
    assert {span.name for span in backend.spans if "tool" in span.name} <= {"execute_tool _OTHER"}


async def test_content_of_megabytes_is_cut(backend: Any) -> None:
    async with Simulator(Script((Turn(text="Hi"),))) as simulator:
        model = ls.Model("openai:any", base_url=f"{simulator.url}/v1", api_key="not-used")
        backend.instrument(model, content=True)
        await model.stream("long " * 500_000).collect()
    (span,) = backend.spans
    content = span.attributes["gen_ai.input.messages"]
    assert len(content) < 600_000
    assert "more characters" in json.loads(content)[0]["parts"][0]["content"]


async def test_dropped_streams_end_their_spans(backend: Any) -> None:
    """Also where the collector frees the content's buffers first."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await answer(request, [chunk("Hi"), 0.5])

    async with serving(handle) as url:
        model = ls.Model("openai:m", api_key=KEY, base_url=url)
        observer = backend.instrument(model, content=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for _ in range(10):
                stream = model.stream("Hi")
                iterator = aiter(stream)
                await anext(iterator)
                stream.model_holder = [stream]  # type: ignore[attr-defined]  # a cycle, for the collector
                del stream, iterator
            for _ in range(5):
                gc.collect()
                await asyncio.sleep(0)
        assert len(backend.spans) == 10
        assert observer._calls._spans == {}


async def test_unreadable_content_keeps_the_end() -> None:
    class Observer(list[Any]):
        wants_content = True
        __call__ = list.append

    found = Observer()
    watch = Watch(found, call_id="1", provider="p", model="m", request=ls.Request(model="m", messages=[]))
    watch.batch([TextStart("0"), TextDelta("Hi", "0")])
    for part in watch._contents._answer._blocks.values():  # type: ignore[union-attr]
        part._buffer.close()
    watch.finished(1, Usage(), None, left=True)
    assert [type(observation) for observation in found][-1] is CallFinished


async def test_exporter_cancellation_ends_no_call() -> None:
    class Cancelling(SpanExporter):
        def export(self, spans: Any) -> Any:
            raise asyncio.CancelledError

        def shutdown(self) -> None:
            pass

    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(Cancelling()))
    async with Simulator(Script((Turn(text="Hi"),))) as simulator:
        model = ls.Model("openai:any", base_url=f"{simulator.url}/v1", api_key="not-used")
        instrument(model, tracer_provider=tracers)
        assert (await model.stream("Hi").collect()).text == "Hi"


async def test_keys_removed_from_recorded_content(backend: Any) -> None:
    """A prompt that was pasted, an answer cut inside the key, and what a tool found in its environment."""

    @ls.tool
    async def environment(x: str) -> str:
        """Lists it."""
        return f"OPENAI_API_KEY={KEY}"

    arguments = {"index": 0, "id": "c", "function": {"name": "environment", "arguments": f'{{"x":"{KEY}"}}'}}
    calls = [
        json.dumps({"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": [arguments]}}]}),
        json.dumps({"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]
    texts = [chunk(f"it is {KEY[:9]}"), chunk(KEY[9:]), chunk(reason="stop")]
    asked = []

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        asked.append(request)
        first = [f"data: {data}\n\n".encode() for data in calls]
        for piece in [*(first if len(asked) == 1 else texts), b"data: [DONE]\n\n"]:
            await response.write(piece)
        await response.write_eof()
        return response

    async with serving(handle) as url:
        agent = ls.Agent(ls.Model("openai:m", api_key=lambda: KEY, base_url=url), tools=[environment])
        backend.instrument(agent, content=True)
        message = await agent.run(f"My key is {KEY}.")
    assert message.text == f"it is {KEY}"
    told = "".join(span.to_json() for span in backend.spans)
    assert KEY not in told
    for text in ("My key is ***.", "it is ***", "OPENAI_API_KEY=***"):
        assert text in told
