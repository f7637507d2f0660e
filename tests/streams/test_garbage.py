"""A response leaves no cycles: its decoder and its request are freed with the stream."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Iterator

import pytest

import llmstream as ls
from llmstream.testing import Script, Simulator, Turn

ADDRESSES = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "google": "/v1beta",
    "google-interactions": "/v1beta",
    "bedrock": "",
    "cohere": "",
    "mistral": "/mistral",
    "ollama": "",
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Answers each request in text."""
    async with Simulator(Script((Turn(text="Hello there."),))) as running:
        yield running


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def begun(model: ls.Model) -> list[weakref.ref[object]]:
    """Reads one response; references to the objects of the call."""
    found: list[weakref.ref[object]] = []
    async with model.stream("Hi") as stream:
        async for _ in stream:
            call = stream._call
            if not found and call._guarded is not None:
                found = [weakref.ref(each) for each in (call, call._guarded.decoder, call._answer)]
        assert stream.text == "Hello there."
    return found


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(("provider", "path"), ADDRESSES.items())
async def test_objects_go_with_the_stream(provider: str, path: str, simulator: Simulator):
    found = await begun(ls.Model(f"{provider}:any", base_url=simulator.url + path, api_key="key"))
    assert len(found) == 3
    assert [each() for each in found] == [None, None, None]


async def test_usage_stays_after_the_end(simulator: Simulator):
    model = ls.Model("openai:any", base_url=simulator.url + "/v1", api_key="key")
    async with model.stream("Hi") as stream:
        await stream.collect()
        assert stream._call.usage == stream.usage
        assert stream.usage.output_tokens
