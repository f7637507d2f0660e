"""Input for an answer under way: one stream, in order, and a conversation that has it in its place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream import grammar
from llmstream.simulator import Call, Pace, Script, Simulator, Turn

from .socket_server import Sockets, added, created, delta, ended, message, said, send

KEY = "sk-secret-secret"
LONG = Turn(text="one two three four five six seven eight nine ten", pace=Pace(delta_s=0.02))


def model(address: str, **options: Any) -> ls.Model:
    options = {"api_key": KEY, "transport": "websocket", **options}
    return ls.Model("openai-responses:gpt-5", base_url=address + "/v1", **options)


async def steered(stream: ls.EventStream | ls.AgentRun, *words: str, after: int = 2) -> list[ls.Event]:
    """Reads a stream, and steers it once that many fragments have come."""
    events: list[ls.Event] = []
    async for event in stream:
        events.append(event)
        if sum(isinstance(each, ls.TextDelta) for each in events) == after and isinstance(
            event, ls.TextDelta
        ):
            for each in words:
                await stream.steer(each)
    assert grammar.check(events) == []
    return events


def accepted(number: str = "steer_1", of: str = "resp_1") -> dict[str, Any]:
    return {"type": "response.steer.accepted", "steer": {"id": number, "previous_response_id": of}}


def refused(code: str, number: str | None = None) -> dict[str, Any]:
    steer: dict[str, Any] = {"previous_response_id": "resp_1", "input": []}
    if number is not None:
        steer["id"] = number
    error = {"type": "invalid_request_error", "code": code, "message": f"Not taken: {code}."}
    return {"type": "response.steer.failed", "steer": steer, "error": error}


async def test_one_stream_goes_on_as_told() -> None:
    async with Simulator(Script((LONG, Turn(text="Deux mots.")))) as sim:
        stream = model(sim.url).stream("Count")
        events = await steered(stream, "Stop. In French.")
    assert stream.text.endswith("Deux mots.")
    assert stream.text.startswith("one two")
    assert "ten" not in stream.text
    kinds = [type(event) for event in events if not isinstance(event, ls.TextDelta)]
    text = [ls.ResponseMetadata, ls.TextStart, ls.TextEnd]
    assert kinds == [ls.StreamStart, *text, ls.Custom, *text, ls.Finish]
    assert stream.finish_reason == "stop"


async def test_conversation_has_it_in_its_place() -> None:
    async with Simulator(Script((LONG, Turn(text="Deux."), Turn(text="Trois.")))) as sim:
        asking = model(sim.url)
        stream = asking.stream("Count")
        await steered(stream, "In French.")
        more = [*stream.messages(), ls.Message.user("More")]
        await asking.stream(more).collect()
        over_http = model(sim.url, transport="http")
        await over_http.stream(more).collect()
        bodies = [received.http.json() for received in sim.requests if received.request]
        seen = [received.request.messages for received in sim.requests if received.request]
        last = [(each.role, each.text) for each in seen[-1]]
    assert bodies[1]["previous_response_id"] == "sim-1"  # what was steered is known there too
    assert len(bodies[1]["input"]) == 1
    assert len(seen[1]) == len(seen[2]) == 5
    assert last[2:] == [("user", "In French."), ("assistant", "Deux."), ("user", "More")]


async def test_usage_is_that_of_both(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if body["type"] == "response.create":
            await send(ws, *said("Hi")[:3])
        else:
            halted = ended("resp_1", message("Hi"), kind="incomplete", why="steered")
            await send(ws, accepted(), halted, *said("Salut", "resp_2", "msg_2"))

    stream = model(await serve(Sockets(answer))).stream("?")
    await steered(stream, "French", after=1)
    assert (stream.usage.input_tokens, stream.usage.output_tokens) == (6, 4)
    assert stream.text == "HiSalut"


async def test_names_that_come_twice_stay_apart(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if body["type"] == "response.create":
            await send(ws, *said("Hi")[:3])
        else:
            await send(ws, accepted(), ended(kind="incomplete", why="steered"), *said("Salut", "resp_2"))

    events = await steered(model(await serve(Sockets(answer))).stream("?"), "French", after=1)
    assert [event.id for event in events if isinstance(event, ls.TextStart)] == ["msg_1", "msg_1.2"]


async def test_two_inputs_take_effect_together() -> None:
    async with Simulator(Script((LONG, Turn(text="Bien.")))) as sim:
        stream = model(sim.url).stream("Count")
        events = await steered(stream, "In French.", "And short.")
    assert sum(isinstance(event, ls.Custom) for event in events) == 2
    assert stream.text.endswith("Bien.")


async def test_another_task_may_steer() -> None:
    async with Simulator(Script((LONG, Turn(text="Bien.")))) as sim:
        stream = model(sim.url).stream("Count")
        reading = asyncio.create_task(stream.collect())
        while "one" not in stream.text:
            await asyncio.sleep(0.01)
        await stream.steer("In French.")
        assert (await reading).text.endswith("Bien.")


async def test_early_end_starts_a_new_response(serve) -> None:
    """Input that was taken just before the end: the answer is complete, and another follows."""

    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        first = said("Hi")
        if body["type"] == "response.create":
            await send(ws, *first[:3])
        else:
            await send(ws, *first[3:], accepted(), *said("Salut", "resp_2", "msg_2"))

    stream = model(await serve(Sockets(answer))).stream("?")
    await steered(stream, "French", after=1)
    assert stream.text == "HiSalut"


@pytest.mark.parametrize("code", ["steering_not_supported", "invalid_input", "news_to_us"])
async def test_refused_input_changes_no_response(serve, code: str) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        first = said("Hi")
        await send(ws, *(first[:3] if body["type"] == "response.create" else [refused(code), *first[3:]]))

    stream = model(await serve(Sockets(answer))).stream("?")
    async for event in stream:
        if isinstance(event, ls.TextDelta):
            with pytest.raises(ls.BadRequest, match=f"Not taken: {code}") as caught:
                await stream.steer("French")
            assert caught.value.reason == code
    assert stream.text == "Hi"
    assert stream.finish_reason == "stop"


async def test_input_for_an_answer_that_is_over() -> None:
    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        stream = model(sim.url).stream("?")
        with pytest.raises(ls.InvalidRequest, match="no response is in progress"):
            await stream.steer("French")
        await stream.collect()
        with pytest.raises(ls.InvalidRequest, match="no response is in progress"):
            await stream.steer("French")


async def test_input_that_comes_too_late_is_told(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        first = said("Hi")
        if body["type"] == "response.create":
            await send(ws, *first[:3])
        else:
            await send(ws, *first[3:], refused("response_already_completed"))

    stream = model(await serve(Sockets(answer))).stream("?")
    async for event in stream:
        if isinstance(event, ls.TextDelta):
            with pytest.raises(ls.BadRequest, match="response_already_completed"):
                await stream.steer("French")
    assert stream.text == "Hi"


async def test_successor_that_cannot_begin_ends_it(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if body["type"] == "response.create":
            await send(ws, *said("Hi")[:3])
        else:
            halted = ended("resp_1", message("Hi"), kind="incomplete", why="steered")
            await send(ws, accepted(), halted, refused("successor_creation_failed", "steer_1"))

    stream = model(await serve(Sockets(answer))).stream("?")
    events = await steered(stream, "French", after=1)
    assert isinstance(events[-1], ls.Finish)
    assert events[-1].raw_finish_reason == "steered"
    assert stream.text == "Hi"


async def test_unconfirmed_input_hits_the_deadline(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if body["type"] == "response.create":
            await send(ws, created(), added(), delta("Hi"))

    stream = model(await serve(Sockets(answer))).stream("?", deadlines=ls.Deadlines(idle_s=0.05))
    async with stream:
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                with pytest.raises(ls.DeadlineExceeded, match="it is unknown whether it does"):
                    await stream.steer("French")
                break


async def test_closed_socket_is_reported(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if body["type"] == "response.create":
            await send(ws, created(), added(), delta("Hi"))
        else:
            await ws.close()

    stream = model(await serve(Sockets(answer))).stream("?", errors="events")
    async for event in stream:
        if isinstance(event, ls.TextDelta):
            with pytest.raises(ls.ConnectionLost, match="before it accepted"):
                await stream.steer("French")
    assert isinstance(stream.error, ls.IncompleteStream)


async def test_run_of_an_agent_is_steered_too() -> None:
    def clock(city: str) -> str:
        return "noon"

    calls = Turn(calls=(Call("clock", {"city": "Oslo"}),))
    async with Simulator(Script((calls, LONG, Turn(text="Midi.")))) as sim:
        run = ls.Agent(model(sim.url), tools=[clock]).stream("What time is it?")
        await steered(run, "In French.")
        handshakes = sum(received.http.method == "GET" for received in sim.requests)
    assert run.text.endswith("Midi.")
    assert handshakes == 1


async def test_input_waits_for_results_of_calls() -> None:
    """A step that ends in calls keeps the input for the next one, which says it once."""

    def clock(city: str) -> str:
        return "noon"

    calls = Turn(text="I look.", calls=(Call("clock", {"city": "Oslo"}),), pace=Pace(delta_s=0.02))
    async with Simulator(Script((calls, Turn(text="Midi.")))) as sim:
        run = ls.Agent(model(sim.url), tools=[clock]).stream("What time is it?")
        events = []
        async for event in run:
            events.append(event)
            if isinstance(event, ls.ToolInputStart):
                await run.steer("In French.")
        last = [received for received in sim.requests if received.request][-1]
        texts = [each.text for each in last.request.messages if each.role == "user"]
    assert grammar.check(events) == []
    assert run.text == "Midi."
    assert texts == ["What time is it?", "In French."]
    assert len(last.http.json()["input"]) == 1
    assert last.http.json()["previous_response_id"] == "sim-0"


async def test_http_says_what_to_do_instead() -> None:
    async with Simulator(Script((LONG,))) as sim:
        stream = model(sim.url, transport="http").stream("Count")
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                with pytest.raises(ls.Unsupported, match=r"over HTTP.*transport=\"websocket\""):
                    await stream.steer("French")
                break
        await stream.aclose()


async def test_vendors_without_steering_are_named() -> None:
    async with Simulator(Script((LONG,))) as sim:
        asking = ls.Model(
            "xai-responses:grok-4", base_url=sim.url + "/v1", api_key=KEY, transport="websocket"
        )
        async with asking.stream("Count") as stream:
            async for event in stream:
                if isinstance(event, ls.TextDelta):
                    with pytest.raises(
                        ls.Unsupported, match="xai-responses accepts no input while it responds"
                    ):
                        await stream.steer("French")
                    break


async def test_images_may_be_steered_in() -> None:
    async with Simulator(Script((LONG, Turn(text="A cat.")))) as sim:
        stream = model(sim.url).stream("Count")
        picture = ls.chats.Image(data=b"\x89PNG", media_type="image/png")
        async for event in stream:
            if isinstance(event, ls.TextDelta) and "one" in event.delta:
                await stream.steer(ls.Message.user("And this?", picture))
        steered_in = sim.requests[1].request.messages[-1]
    assert [type(part).__name__ for part in steered_in.parts] == ["Text", "Image"]


async def test_middleware_passes_input_on() -> None:
    async def shouting(request: ls.Request, ask: Any) -> Any:
        async for event in ask(request):
            yield event

    async with Simulator(Script((LONG, Turn(text="Bien.")))) as sim:
        stream = ls.middleware.wrap(model(sim.url), shouting).stream("Count")
        await steered(stream, "In French.")
    assert stream.text.endswith("Bien.")
