"""`repr` of a stream: its model and state, without content."""

from __future__ import annotations

import pytest

import llmstream as ls


def weather(city: str) -> str:
    """Tell the weather."""
    return "-2 °C"


async def test_a_stream_shows_its_progress() -> None:
    async with ls.stream("sim:demo", "Hello") as stream:
        assert repr(stream) == "<EventStream of sim:demo: not read yet>"
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                break
        assert repr(stream) == "<EventStream of sim:demo: in progress, 3 characters>"
    assert repr(stream) == "<EventStream of sim:demo: left, 3 characters>"


async def test_a_stream_shows_calls_and_tokens() -> None:
    async with ls.stream("sim:demo", "How is Oslo?", tools=[weather]) as stream:
        await stream.collect()
        usage = stream.usage
        assert repr(stream) == (
            f"<EventStream of sim:demo: tool-calls, {len(stream.text)} characters, 1 tool call, "
            f"{usage.input_tokens} tokens in, {usage.output_tokens} tokens out>"
        )


async def test_a_failed_stream_shows_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    stream = ls.stream("openai:any", "Hello", errors="events")
    await stream.collect()
    assert repr(stream) == "<EventStream of openai:any: failed (missing-key)>"
