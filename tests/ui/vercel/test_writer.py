"""Events as the chunks of a UI message stream: their order, and only fields that every release accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.errors import ErrorInfo
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from llmstream.ui import vercel

SAFE = Path(__file__).resolve().parents[4] / "shared/serving/ui-chunks.safe.json"


def chunks_of(data: bytes) -> list[dict[str, Any]]:
    frames = data.decode().split("\n\n")
    assert frames.pop() == ""
    return [json.loads(frame.removeprefix("data: ")) for frame in frames if frame != "data: [DONE]"]


def written(events: list[Event], **options: Any) -> list[dict[str, Any]]:
    writer = vercel.Writer(**options)
    return chunks_of(b"".join([writer.feed(event) for event in events]) + writer.close())


def kinds(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


async def events_of_a_run() -> list[Event]:
    def weather(city: str) -> str:
        """Tell the weather of a city."""
        return "snow"

    run = ls.Agent("sim:demo", tools=[weather]).stream("How is the weather in Oslo?")
    return [event async for event in run]


async def test_run_has_steps_around_its_results() -> None:
    chunks = written(await events_of_a_run())
    names = kinds(chunks)
    assert names[0] == "start"
    assert names[-2:] == ["message-metadata", "finish"]
    assert names.count("start-step") == names.count("finish-step") == 2
    assert names.index("tool-output-available") < names.index("finish-step")
    assert next(chunk for chunk in chunks if chunk["type"] == "tool-input-available")["input"]


@pytest.mark.parametrize("version", [5, 6, 7])
async def test_fields_are_those_of_every_release(version: int) -> None:
    if not SAFE.exists():
        pytest.skip("../shared is absent")
    safe = json.loads(SAFE.read_text())[str(version)]
    failed = [
        *(await events_of_a_run())[:-1],
        ErrorEvent(ErrorInfo("rate-limited", "busy", retryable=True)),
        Finish("error"),
    ]
    chunks = written(await events_of_a_run(), version=version) + written(failed, version=version)
    for chunk in chunks:
        known = safe["chunks"]["data-" if chunk["type"].startswith("data-") else chunk["type"]]
        fields = chunk.keys() - {"type"}
        assert set(known["required"]) <= fields <= {*known["required"], *known["allowed"]}
        assert None not in chunk.values()


def test_error_follows_usage_and_hides_hosts() -> None:
    info = ErrorInfo("connection-lost", "cannot read from 10.0.0.7", retryable=True)
    events = [StreamStart(), TextStart("0"), TextDelta("Hi", "0"), TextEnd("0", incomplete=True)]
    chunks = written([*events, ErrorEvent(info), Finish("error")])
    assert kinds(chunks)[-4:] == ["finish-step", "message-metadata", "error", "finish"]
    assert "10.0.0.7" not in str(chunks)


def test_call_that_broke_off_does_not_hang() -> None:
    events = [
        StreamStart(),
        ToolInputStart("f", "1"),
        ToolInputDelta('{"a', "1"),
        ToolInputEnd("1", incomplete=True),
    ]
    chunks = written([*events, Finish("length")])
    assert chunks[-4]["type"] == "tool-input-error"
    assert chunks[-4]["input"] == '{"a'
