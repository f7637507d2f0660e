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
    RetryNotice,
    StepStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import vercel
from llmstream.ui.vercel.sub_agents import SubAgentMessage

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


async def test_finish_of_early_releases() -> None:
    """Releases up to 5.0.90 refuse a finish with a reason."""
    *_, shown, finish = written(await events_of_a_run(), version=5)
    assert finish == {"type": "finish"}
    assert shown["messageMetadata"]["finishReason"] == "stop"


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


# Sub-agents, stopped runs and metadata.


def run_with_sub_agent(text: str) -> ls.AgentRun[Any]:
    def look(place: str) -> str:
        """Look."""
        return f"{place}: fog"

    turn = Turn(reasoning="Hm.", calls=(Call("look", {"place": "north"}),))
    inner = ls.Agent(ScriptedModel(turn, text), name="scout", tools=[look])
    outer = ScriptedModel(Turn(calls=(Call("scout", {"prompt": "Look."}),)), "Fog, then.")
    return ls.Agent(outer, tools=[inner.as_tool()]).stream("What is there?")


async def test_sub_agent_is_a_message_of_its_own() -> None:
    chunks = written([event async for event in run_with_sub_agent("There is fog.")])
    outputs = [chunk for chunk in chunks if chunk["type"] == "tool-output-available"]
    *earlier, final = outputs
    assert final["output"] == "There is fog."
    assert "preliminary" not in final
    assert all(chunk["preliminary"] for chunk in earlier)
    message = earlier[-1]["output"]
    assert (message["role"], message["metadata"]) == ("assistant", {"agent": "scout"})
    assert [part["type"] for part in message["parts"]] == [
        "step-start",
        "reasoning",
        "tool-look",
        "step-start",
        "text",
    ]
    call, text = message["parts"][2], message["parts"][4]
    assert (call["state"], call["output"]) == ("output-available", "north: fog")
    assert text == {"type": "text", "text": "There is fog.", "state": "done"}


def test_retried_step_of_a_sub_agent_is_gone() -> None:
    message = SubAgentMessage("c1", "scout")
    step = [StepStart(0), TextStart("0"), TextDelta("void", "0"), TextEnd("0", incomplete=True)]
    for event in [*step, RetryNotice("broke", 0, 1, 0.0), TextStart("1"), TextDelta("kept", "1")]:
        message.feed(event)
    assert message.value()["parts"] == [
        {"type": "step-start"},
        {"type": "text", "text": "kept", "state": "streaming"},
    ]


async def test_agents_below_agents_are_within() -> None:
    inner = ls.Agent(ScriptedModel("Deep fog."), name="deep").as_tool()
    turn = Turn(calls=(Call("deep", {"prompt": "Look."}),))
    middle = ls.Agent(ScriptedModel(turn, "Fog."), name="scout", tools=[inner]).as_tool()
    outer = ScriptedModel(Turn(calls=(Call("scout", {"prompt": "Look."}),)), "Fog, then.")
    chunks = written([event async for event in ls.Agent(outer, tools=[middle]).stream("Go.")])
    outputs = [chunk["output"] for chunk in chunks if chunk["type"] == "tool-output-available"]
    deep = [part for output in outputs[:-1] for part in output["parts"] if part.get("preliminary")]
    assert deep[-1]["output"]["metadata"] == {"agent": "deep"}
    assert "Deep fog." in str(deep[-1]["output"]["parts"])
    assert outputs[-1] == "Fog."


async def test_sub_agents_reasoning_is_left_out() -> None:
    chunks = written([event async for event in run_with_sub_agent("Fog.")], reasoning=False)
    assert "Hm." not in str(chunks)


async def test_long_sub_agents_stay_linear() -> None:
    """Twice the text is twice the bytes, though each chunk has the whole message so far."""
    sizes = []
    for count in (500, 1000):
        events = [event async for event in run_with_sub_agent("word " * count)]
        sizes.append(len(str(written(events))))
    assert sizes[1] < 2.5 * sizes[0]


def test_stopped_run_is_an_abort() -> None:
    """After its usage; an error would be shown to the person who stopped it."""
    stopped = ErrorEvent(ErrorInfo("stopped", "The run was stopped.", retryable=False))
    events = [StreamStart(), TextStart("0"), TextDelta("Hi", "0"), TextEnd("0", incomplete=True), stopped]
    chunks = written([*events, Finish("error")])
    assert kinds(chunks)[-3:] == ["finish-step", "message-metadata", "abort"]


def test_data_parts_are_the_applications() -> None:
    writer = vercel.Writer()
    data = writer.data("weather", {"city": "Oslo"}, id="w1") + writer.data("note", None, transient=True)
    assert chunks_of(data) == [
        {"type": "data-weather", "data": {"city": "Oslo"}, "id": "w1"},
        {"type": "data-note", "data": None, "transient": True},
    ]


async def test_cost_is_in_the_metadata() -> None:
    agent = ls.Agent(ScriptedModel("Hi."), price=lambda model, usage: 0.25)
    events = [event async for event in vercel.PageRun(agent.stream("Hello"))]
    (metadata,) = [chunk for chunk in written(events) if chunk["type"] == "message-metadata"]
    assert metadata["messageMetadata"]["cost"] == 0.25
    assert metadata["messageMetadata"]["usage"]["outputTokens"] > 0


def test_changed_call_is_shown_first() -> None:
    """A hook or a repair changed it, which the event says in its metadata."""
    changed = {"llmstream": {"tool_name": "delete", "input": '{"path":"/safe/a"}'}}
    events = [
        StreamStart(),
        ToolCall("delete", '{"path":"a"}', "1"),
        ToolApprovalRequest("1", "ap1", changed),
    ]
    chunks = written([*events, Finish("tool-calls")])
    assert [chunk.get("input") for chunk in chunks[2:4]] == [{"path": "a"}, {"path": "/safe/a"}]
    assert chunks[4] == {"type": "tool-approval-request", "approvalId": "ap1", "toolCallId": "1"}


@pytest.mark.parametrize("text", ['{"a":"\\ud800"}', "[" * 200_000 + "]" * 200_000, '{"a":NaN}'])
def test_input_that_is_no_json_is_text(text: str) -> None:
    """Half of a surrogate pair, nesting past the stack: what a model writes does not end the response."""
    chunks = written([StreamStart(), ToolCall("look", text, "1"), Finish("tool-calls")])
    assert [chunk["input"] for chunk in chunks if chunk["type"] == "tool-input-available"] == [text]
    message = SubAgentMessage("c1", "research")
    assert message.feed(ToolCall("look", text, "1"))
    assert message.value()["parts"][-1]["input"] == text
