"""Responses without a stream: what is in it, and what the faults of a script make of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import msgspec
import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.errors import BadRequest
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.simulator import Break, Call, Cut, Pace, Script, Simulator, Stall, Turn
from llmstream.simulator.bodies import complete_body
from llmstream.simulator.timeline import timeline_of

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
