"""A turn becomes a sentence with a moment for each event; a response without a stream has the same faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import msgspec
import pytest

from llmstream import grammar
from llmstream.chats.message import Message
from llmstream.dialects.anthropic import Anthropic
from llmstream.errors import BadRequest
from llmstream.events import (
    ErrorEvent,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    StreamStart,
    TextDelta,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    Usage,
)
from llmstream.request import ProviderTool, Request, ToolSpec
from llmstream.server_side.wires import server_side
from llmstream.simulator import Break, Call, Cut, Pace, Script, Simulator, Stall, Turn
from llmstream.simulator.timeline import complete_body, estimated_tokens, timeline_of

ASKED = Request(model="m", messages=(Message.user("12345678"),))
FULL = Turn(reasoning="so so", text="one two\nthree ", calls=(Call("f", {"a": "x" * 20}), Call("g")))


def test_a_turn_is_a_sentence_in_words() -> None:
    events = [beat.event for beat in timeline_of(FULL, ASKED, number=3)]
    assert not grammar.check([StreamStart(), *events])
    assert [e.delta for e in events if isinstance(e, ReasoningDelta)] == ["so", " so"]
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["one", " two", "\nthree", " "]
    assert len([e for e in events if isinstance(e, ToolInputDelta)]) == 4
    calls = [e for e in events if isinstance(e, ToolCall)]
    assert [(c.tool_name, c.input, c.tool_call_id) for c in calls] == [
        ("f", '{"a":"' + "x" * 20 + '"}', "call_3_0"),
        ("g", "{}", "call_3_1"),
    ]
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "tool-calls"


def test_thoughts_are_signed_or_encrypted() -> None:
    (end,) = [b.event for b in timeline_of(FULL, ASKED, number=3) if isinstance(b.event, ReasoningEnd)]
    signature = end.provider_metadata["anthropic"]["signature"]
    assert signature
    assert end.provider_metadata["bedrock"]["signature"] == signature
    assert end.provider_metadata["openai"]["encrypted_content"]


def test_first_call_is_signed_like_gemini() -> None:
    calls = [b.event for b in timeline_of(FULL, ASKED, number=3) if isinstance(b.event, ToolCall)]
    assert calls[0].provider_metadata["google"]["thought_signature"]
    assert calls[1].provider_metadata is None


@pytest.mark.parametrize(
    "tool",
    [ProviderTool("custom", "f"), ProviderTool("custom", options={"custom": {"name": "f"}})],
)
def test_custom_tool_calls_are_plain_text(tool: ProviderTool) -> None:
    turn = Turn(calls=(Call("g"), Call("f", "ls -la"), Call("f", "")))
    events = [b.event for b in timeline_of(turn, Request(model="m", tools=(tool,)))]
    told = {"openai": {"type": "custom_tool_call"}}
    assert [(e.input, e.provider_metadata) for e in events if isinstance(e, ToolCall)][1:] == [
        ("ls -la", told),
        ("", told),
    ]
    assert [e.provider_metadata for e in events if isinstance(e, ToolInputStart)] == [None, told, told]


def test_usage_is_counted_from_the_words() -> None:
    finish = timeline_of(Turn(reasoning="12345", text="1234"), ASKED)[-1].event
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(2, 3, 5, reasoning_tokens=2)
    with_tool = Request(model="m", tools=(ToolSpec("abcd", "efgh"),))
    finish = timeline_of(Turn(text=""), with_tool)[-1].event
    assert isinstance(finish, Finish)
    assert finish.usage.input_tokens == estimated_tokens("abcdefgh{}")
    finish = timeline_of(Turn(usage=Usage(1, 2)), ASKED)[-1].event
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(1, 2)


def test_string_arguments_are_sent_as_is() -> None:
    events = [b.event for b in timeline_of(Turn(calls=(Call("f", '{"a": '), Call("g", ""))), ASKED)]
    assert [e.input for e in events if isinstance(e, ToolCall)] == ['{"a": ', "{}"]


def test_pace_sets_the_moments() -> None:
    beats = timeline_of(Turn(text="a b c"), ASKED, pace=Pace(first_s=1.0, delta_s=0.25))
    assert [b.due_s for b in beats if isinstance(b.event, TextDelta)] == [1.0, 1.25, 1.5]
    assert beats[0].due_s == 1.0
    assert beats[-1].due_s == 1.5
    beats = timeline_of(Turn(text="a 1234567", pace=Pace(tokens_per_s=4)), ASKED, pace=Pace(first_s=9))
    assert [b.due_s for b in beats if isinstance(b.event, TextDelta)] == [0.0, 0.5]


@pytest.mark.parametrize("fault", [Cut(after_events=3), Stall(after_events=3)])
def test_a_fault_ends_the_events(fault: Cut | Stall) -> None:
    beats = timeline_of(Turn(text="a b c", fault=fault), ASKED)
    assert [type(b.event).__name__ for b in beats] == ["ResponseMetadata", "TextStart", "TextDelta"]


def test_an_error_inside_closes_what_is_open() -> None:
    beats = timeline_of(Turn(text="a b c", fault=Break(after_events=3, status=529, message="busy")), ASKED)
    events = [StreamStart(), *[b.event for b in beats]]
    assert not grammar.check(events)
    error = events[-2]
    assert isinstance(error, ErrorEvent)
    assert (error.error.code, error.error.message) == ("overloaded", "busy")


def test_exact_events_are_said_as_they_are() -> None:
    events = (StreamStart(), TextStart("7"), TextDelta("x", "7"))
    assert [b.event for b in timeline_of(Turn(events=events), ASKED)] == list(events[1:])


MESSAGES = [{"role": "user", "content": "Hi"}]
CLAUDE = {"max_tokens": 9, "messages": MESSAGES}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
CHAT = {"model": "m", "messages": MESSAGES}
WITHOUT_STREAM: Mapping[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": "m", "input": "Hi"},
    "/v1/messages": {"model": "m", **CLAUDE},
    "/v1beta/models/m:generateContent": CONTENTS,
    "/v1beta/models/m%3AgenerateContent": CONTENTS,
    "/v1/projects/p/locations/global/publishers/google/models/m:generateContent": CONTENTS,
    "/v1/projects/p/locations/global/publishers/anthropic/models/m:rawPredict": CLAUDE,
    "/v1beta/interactions": {"model": "m", "input": "Hi"},
    "/model/m/converse": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
    "/model/m/invoke": CLAUDE,
    "/v2/chat": CHAT,
    "/mistral/v1/chat/completions": CHAT,
    "/api/chat": {**CHAT, "stream": False},
}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.mark.parametrize("path", WITHOUT_STREAM)
async def test_each_dialect_responds_unary(session: aiohttp.ClientSession, path: str) -> None:
    async with (
        Simulator(Script((Turn(text="One moment."),))) as simulator,
        session.post(simulator.url + path, json=WITHOUT_STREAM[path]) as response,
    ):
        body = await response.read()
        assert (response.status, response.content_type) == (200, "application/json")
        assert response.headers["x-request-id"] == "req_sim_0"
    assert b'"One moment."' in body
    assert simulator.requests[0].request is not None


async def test_an_error_in_a_stream_is_a_status(session: aiohttp.ClientSession) -> None:
    fault = Break(after_events=3, status=529, message="it is busy")
    async with (
        Simulator(Script((Turn(text="Hi", fault=fault),))) as simulator,
        session.post(simulator.url + "/v1/messages", json={"model": "m", **CLAUDE}) as response,
    ):
        told = await response.json()
    assert response.status == 529
    assert (told["type"], told["error"]["message"]) == ("error", "it is busy")


async def test_a_cut_ends_in_the_middle(session: aiohttp.ClientSession) -> None:
    script = Script((Turn(text="Hi", fault=Cut(after_events=3)),))
    async with (
        Simulator(script) as simulator,
        session.post(simulator.url + "/v1/chat/completions", json=CHAT) as response,
    ):
        with pytest.raises(aiohttp.ClientError):
            await response.read()


async def test_a_clean_cut_is_half_a_body(session: aiohttp.ClientSession) -> None:
    script = Script((Turn(text="Hi", fault=Cut(after_events=3, clean=True)),))
    async with (
        Simulator(script) as simulator,
        session.post(simulator.url + "/v1/chat/completions", json=CHAT) as response,
    ):
        body = await response.read()
    assert body.startswith(b'{"id":"sim-0"')
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(body)


@pytest.mark.llm_virtual_clock
async def test_it_comes_when_its_stream_would_end(
    session: aiohttp.ClientSession, llm_virtual_clock: Any
) -> None:
    script = Script((Turn(text="one two three", pace=Pace(delta_s=60.0)),))
    async with (
        Simulator(script) as simulator,
        session.post(simulator.url + "/v1/chat/completions", json=CHAT) as response,
    ):
        assert (await response.json())["choices"][0]["message"]["content"] == "one two three"
    assert llm_virtual_clock.elapsed_s == pytest.approx(120, abs=1)


@pytest.mark.llm_virtual_clock
async def test_a_stall_holds_it_up(session: aiohttp.ClientSession, llm_virtual_clock: Any) -> None:
    script = Script((Turn(text="Hi", fault=Stall(after_events=2, stall_s=90.0)),))
    async with (
        Simulator(script) as simulator,
        session.post(simulator.url + "/v1/chat/completions", json=CHAT) as response,
    ):
        assert len(await response.read()) > 0
    assert llm_virtual_clock.elapsed_s == pytest.approx(90, abs=1)


@pytest.mark.llm_virtual_clock
async def test_a_background_response_is_polled(session: aiohttp.ClientSession) -> None:
    """Begun without a stream, looked up until it is made."""
    script = Script((Turn(text="one two", pace=Pace(first_s=5.0, delta_s=20.0)),))
    asked = {"model": "gpt-5", "input": "Hi", "background": True}
    async with Simulator(script) as simulator:
        url = simulator.url + "/v1/responses"
        async with session.post(url, json=asked) as response:
            begun = await response.json()
        assert (begun["status"], begun["output"]) == ("queued", [])
        async with session.get(f"{url}/{begun['id']}") as response:
            assert (await response.json())["status"] == "queued"
        await simulator._player.sleep(30)
        async with session.get(f"{url}/{begun['id']}") as response:
            made = await response.json()
    assert (made["status"], made["output"][0]["content"][0]["text"]) == ("completed", "one two")


def test_input_that_is_no_object_is_wrapped() -> None:
    """Vendors whose calls hold objects cannot say `[1`."""
    request = Request(model="m")
    turn = Turn(calls=(Call("f", "[1"),))
    body = msgspec.json.decode(complete_body(server_side(Anthropic()), request, timeline_of(turn, request)))
    assert body["content"][0]["input"] == {"INVALID_JSON": "[1"}


def test_a_dialect_that_only_streams_says_so() -> None:
    side = msgspec.structs.replace(server_side(Anthropic()), complete_response=None)
    with pytest.raises(BadRequest, match="only streams anthropic"):
        complete_body(side, Request(model="m"), [])
