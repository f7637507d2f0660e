"""Answers over WebSockets: the same events, deadlines, errors and retries as over HTTP."""

from __future__ import annotations

import asyncio
import datetime
import gc
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import llmstream as ls
from llmstream import grammar
from llmstream.simulator import Break, Call, Cut, Pace, Refuse, Script, Simulator, Stall, Turn
from llmstream.streams.observations import AttemptFailed, AttemptStarted

from .socket_server import Sockets, added, created, delta, ended, failed, said, send

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
KEY = "sk-secret-secret"
AT_ONCE = ls.Retry(max_wait_s=0.0)
ONCE = ls.Retry(max_retries=0)


def model(address: str, **options: Any) -> ls.Model:
    options = {"api_key": KEY, "transport": "websocket", "retry": AT_ONCE, **options}
    return ls.Model("openai-responses:gpt-5", base_url=address + "/v1", **options)


async def read(stream: ls.EventStream) -> list[ls.Event]:
    events = [event async for event in stream]
    assert grammar.check(events) == []
    return events


def handshakes(simulator: Simulator) -> int:
    return sum(received.http.method == "GET" for received in simulator.requests)


def asked(simulator: Simulator) -> list[dict[str, Any]]:
    return [received.http.json() for received in simulator.requests if received.http.method == "WEBSOCKET"]


# What is read.


async def test_the_events_are_those_of_http() -> None:
    turn = Turn(reasoning="Hm hm.", text="Привет, мир", calls=(Call("clock", {"city": "Łódź"}),))
    read_by: dict[str, list[ls.Event]] = {}
    for transport in ("http", "websocket"):
        async with Simulator(Script((turn,)), now=lambda: NOON) as sim:
            read_by[transport] = await read(model(sim.url, transport=transport).stream("How warm is it?"))
    assert read_by["websocket"] == read_by["http"]
    assert len(read_by["http"]) > 10


async def test_raw_messages_are_shown() -> None:
    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        events = await read(model(sim.url).stream("?", include_raw=True))
    raw = [event.raw_value["type"] for event in events if isinstance(event, ls.Raw)]
    assert raw[0] == "response.created"
    assert raw[-1] == "response.completed"


async def test_message_is_sent_without_stream() -> None:
    async with Simulator(Script((Turn(text="Hi"),)), api_keys={KEY}) as sim:
        await model(sim.url).stream("?").collect()
        (body,) = asked(sim)
    assert body["type"] == "response.create"
    assert body["model"] == "gpt-5"
    assert body["store"] is False
    assert "stream" not in body
    assert "previous_response_id" not in body


async def test_text_over_several_lines_is_read(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        for each in said("one\r\ntwo\n\nthree"):
            await ws.send_str(json.dumps(each, indent=2).replace("\n", "\r\n"))

    assert (await model(await serve(Sockets(answer))).stream("?").collect()).text == ("one\r\ntwo\n\nthree")


async def test_binary_messages_are_read_as_json(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        for each in said("binary"):
            await ws.send_bytes(json.dumps(each).encode())

    assert (await model(await serve(Sockets(answer))).stream("?").collect()).text == "binary"


async def test_garbage_is_an_error_event(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        messages = said("Hi")
        await send(ws, *messages[:3])
        await ws.send_str("{no json")
        await send(ws, *messages[3:])

    stream = model(await serve(Sockets(answer))).stream("?", errors="events")
    events = await read(stream)
    assert [event.error.code for event in events if isinstance(event, ls.ErrorEvent)] == ["decode-error"]
    assert stream.text == "Hi"


async def test_message_that_is_too_long_ends_it(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        await send(ws, created(), added(), delta("Hi"), delta("x" * 5000))

    stream = model(await serve(Sockets(answer)), limits=ls.StreamLimits(max_event_bytes=2000)).stream("?")
    with pytest.raises(ls.LimitExceeded, match="max_event_bytes"):
        await read(stream)
    assert stream.text == "Hi"


# One socket, again and again.


async def test_steps_of_an_agent_share_a_socket() -> None:
    def clock(city: str) -> str:
        return f"noon in {city}"

    turns = (
        Turn(calls=(Call("clock", {"city": "Oslo"}),)),
        Turn(text="One more.", calls=(Call("clock", {"city": "Lima"}),)),
        Turn(text="Noon everywhere."),
    )
    async with Simulator(Script(turns)) as sim:
        run = ls.Agent(model(sim.url), tools=[clock]).stream("What time is it?")
        events = [event async for event in run]
        bodies = asked(sim)
        assert handshakes(sim) == 1
    assert grammar.check(events) == []
    assert run.text == "Noon everywhere."
    assert len(bodies) == 3
    assert [len(body["input"]) for body in bodies] == [1, 1, 1]  # only what is new
    assert [body.get("previous_response_id") for body in bodies] == [None, "sim-0", "sim-1"]
    assert [r.request.messages[-1].role for r in sim.requests[2:]] == ["tool", "tool"]
    assert len(sim.requests[3].request.messages) == 5  # the server has it all


async def test_openai_items_are_recognised(serve) -> None:
    """Reasoning that goes back encrypted, a phase, annotations and a call, as gpt-5 streams them."""
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [], "encrypted_content": "abc"}
    cited = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 2,
        "url": "https://a.example/",
        "title": "A",
    }
    part = {"type": "output_text", "text": "I look.", "annotations": [cited], "logprobs": []}
    words = {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "phase": "commentary",
        "content": [part],
    }
    call = {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "clock",
        "arguments": '{"city":"Oslo"}',
    }
    items = [thought, words, call]

    def clock(city: str) -> str:
        return "noon"

    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if len(sockets.received) > 1:
            await send(ws, *said("Noon.", "resp_2", "msg_2"))
            return
        await send(ws, created())
        for place, item in enumerate(items):
            begun = (
                {**item, "encrypted_content": "ab"} if item is thought else {**item, "status": "in_progress"}
            )
            await send(ws, {"type": "response.output_item.added", "output_index": place, "item": begun})
            await send(ws, {"type": "response.output_item.done", "output_index": place, "item": item})
        await send(ws, ended("resp_1", {**thought, "encrypted_content": "abd"}, words, call))

    sockets = Sockets(answer)
    run = ls.Agent(model(await serve(sockets)), tools=[clock]).stream("?")
    assert (await run.collect()).text == "Noon."
    body = sockets.received[1][1]
    assert body["previous_response_id"] == "resp_1"
    assert [item["type"] for item in body["input"]] == ["function_call_output"]


async def test_changed_history_goes_whole() -> None:
    async with Simulator(Script((Turn(text="Hello there"), Turn(text="Yes")))) as sim:
        asking = model(sim.url)
        stream = asking.stream("Hi")
        await stream.collect()
        first, _ = stream.messages()
        await asking.stream([first, ls.Message.assistant("Something else"), ls.Message.user("?")]).collect()
        bodies = asked(sim)
        assert handshakes(sim) == 1
    assert "previous_response_id" not in bodies[1]
    assert len(bodies[1]["input"]) == 3


async def test_conversations_find_their_sockets() -> None:
    async with Simulator() as sim, asyncio.TaskGroup() as group:
        asking, chats = model(sim.url), [ls.Chat(), ls.Chat()]

        async def turn(chat: ls.Chat, words: str) -> None:
            chat.append(ls.Message.user(words))
            chat.append(await asking.stream(chat).collect())

        for words in ("one", "two", "three"):
            tasks = [group.create_task(turn(chat, f"{words} {place}")) for place, chat in enumerate(chats)]
            await asyncio.wait(tasks)
        assert handshakes(sim) == 2
        assert [len(body["input"]) for body in asked(sim)] == [1] * 6


async def test_forgotten_response_resent_in_full(serve) -> None:
    """It is sent once."""

    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if "previous_response_id" in body:
            await send(ws, failed(400, "previous_response_not_found"))
        else:
            await send(ws, *said(f"{len(body['input'])} items"))

    sockets = Sockets(answer)
    asking = model(await serve(sockets))
    stream = asking.stream("Hi")
    await stream.collect()
    again = asking.stream([*stream.messages(), ls.Message.user("more")])
    assert (await again.collect()).text == "3 items"
    assert ["previous_response_id" in body for _, body in sockets.received] == [False, True, False]


async def test_socket_past_its_time_is_replaced(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        first = number == 0 and len(sockets.received) > 1
        limit = failed(400, "websocket_connection_limit_reached")
        await send(ws, *([limit] if first else said(f"socket {number}")))

    sockets = Sockets(answer)
    asking = model(await serve(sockets))
    assert (await asking.stream("Hi").collect()).text == "socket 0"
    assert (await asking.stream("Hi").collect()).text == "socket 1"
    assert sockets.opened == 2


async def test_socket_closed_while_idle_is_replaced(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        await send(ws, *said(f"socket {number}"))
        await ws.close()

    sockets = Sockets(answer)
    attempts: list[ls.Observation] = []
    asking = model(await serve(sockets), observe=attempts.append)
    for number in range(3):
        assert (await asking.stream("Hi").collect()).text == f"socket {number}"
        sockets.closed.clear()
    assert sum(isinstance(seen, AttemptStarted) for seen in attempts) == 3


async def test_socket_cut_on_reuse_is_replaced(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if number == 0 and len(sockets.received) == 2:
            ws._req.transport.abort()  # what a load balancer does to a connection that it forgot
        else:
            await send(ws, *said(f"socket {number}"))

    sockets = Sockets(answer)
    asking = model(await serve(sockets))
    assert (await asking.stream("Hi").collect()).text == "socket 0"
    assert (await asking.stream("Hi").collect()).text == "socket 1"


async def test_twenty_at_once_open_twenty() -> None:
    async with Simulator(Script((Turn(text="one two", pace=Pace(delta_s=0.01)),))) as sim:
        asking = model(sim.url)
        for _ in range(2):
            messages = await asyncio.gather(*(asking.stream("?").collect() for _ in range(20)))
            assert {message.text for message in messages} == {"one two"}
        assert handshakes(sim) == 20


async def test_other_keys_take_other_sockets() -> None:
    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        for key in ("sk-secret-one", "sk-secret-two", "sk-secret-one"):
            await model(sim.url, api_key=key).stream("?").collect()
        assert handshakes(sim) == 2


async def test_connect_owns_its_sockets(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        await send(ws, *said("Hi"))

    sockets = Sockets(answer)
    over_http = model(await serve(sockets), transport="http")
    async with over_http.connect() as connected:
        await connected.stream("?").collect()
        await connected.stream("?").collect()
        assert not sockets.closed.is_set()
    await sockets.closed.wait()
    assert sockets.opened == 1
    assert over_http.transport == "http"


async def test_wrapped_models_connect_too() -> None:
    async def plain(request: ls.Request, ask: Any) -> Any:
        async for event in ask(request):
            yield event

    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        wrapped = ls.middleware.wrap(model(sim.url, transport="http"), plain)
        async with wrapped.connect() as connected:
            for _ in range(2):
                assert (await connected.stream("?").collect()).text == "Hi"
        assert handshakes(sim) == 1
        await wrapped.stream("?").collect()
        assert sim.requests[-1].http.method == "POST"


async def test_pings_are_answered_while_idle(serve) -> None:
    ponged = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(autoping=False)
        await ws.prepare(request)
        await ws.receive()
        await send(ws, *said("Hi"))
        await ws.ping(b"there?")
        while (message := await ws.receive()).type is not aiohttp.WSMsgType.CLOSED:
            if message.type is aiohttp.WSMsgType.PONG:
                ponged.set()
                break
        return ws

    await model(await serve(handler)).stream("?").collect()
    await asyncio.wait_for(ponged.wait(), 5)


# What goes wrong.


async def test_cut_keeps_what_came() -> None:
    async with Simulator(Script((Turn(text="one two three", fault=Cut(after_events=4)),))) as sim:
        stream = model(sim.url).stream("?")
        with pytest.raises(ls.ConnectionLost):
            await read(stream)
    assert stream.text == "one two"


async def test_early_close_frame_is_incomplete() -> None:
    async with Simulator(Script((Turn(text="one two", fault=Cut(after_events=3, clean=True)),))) as sim:
        stream = model(sim.url).stream("?")
        with pytest.raises(ls.IncompleteStream):
            await read(stream)
    assert stream.text == "one"


async def test_close_codes_are_told(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        await send(ws, created(), added(), delta("Hi"))
        await ws.close(code=1011, message=b"out of order " + KEY.encode())

    with pytest.raises(ls.ConnectionLost, match="code 1011, 'out of order ") as caught:
        await read(model(await serve(Sockets(answer))).stream("?"))
    assert KEY not in str(caught.value)


async def test_cut_before_content_is_tried_again(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if number == 0:
            await send(ws, created())
            ws._req.transport.abort()
        else:
            await send(ws, *said("second"))

    stream = model(await serve(Sockets(answer))).stream("?")
    assert (await stream.collect()).text == "second"


async def test_stall_passes_the_idle_deadline() -> None:
    deadlines = ls.Deadlines(idle_s=0.05)
    async with Simulator(Script((Turn(text="one two", fault=Stall(after_events=3)),))) as sim:
        stream = model(sim.url, deadlines=deadlines).stream("?")
        with pytest.raises(ls.DeadlineExceeded) as caught:
            await read(stream)
        await sim.requests[-1].done.wait()
    assert caught.value.reason == "idle"
    assert stream.text == "one"
    assert sim.requests[-1].disconnected


@pytest.mark.parametrize("begun", [False, True])
async def test_silence_passes_the_first_deadline(serve, begun: bool) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        if begun:
            await send(ws, created())

    stream = model(await serve(Sockets(answer)), retry=ONCE).stream(
        "?", deadlines=ls.Deadlines(first_event_s=0.05)
    )
    with pytest.raises(ls.DeadlineExceeded) as caught:
        await read(stream)
    assert caught.value.reason == "first-event"


async def test_pings_are_no_progress(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        await send(ws, created(), added(), delta("Hi"))
        while not ws.closed:
            await ws.ping()
            await asyncio.sleep(0.01)

    stream = model(await serve(Sockets(answer))).stream("?", deadlines=ls.Deadlines(idle_s=0.1))
    with pytest.raises(ls.DeadlineExceeded):
        await read(stream)


async def test_step_deadline_holds_over_sockets() -> None:
    turn = Turn(text="one " * 1000, pace=Pace(delta_s=0.01))
    async with Simulator(Script((turn,))) as sim:
        with pytest.raises(ls.DeadlineExceeded) as caught:
            await read(model(sim.url, deadlines=ls.Deadlines(step_s=0.1)).stream("?"))
    assert caught.value.reason == "step"


async def test_wrong_key_refused_at_handshake() -> None:
    async with Simulator(api_keys={"another"}) as sim:
        with pytest.raises(ls.AuthenticationError, match=r"key is not valid.*OPENAI_API_KEY") as caught:
            await model(sim.url).stream("?").collect()
    assert caught.value.status == 401
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("status", [404, 429, 503])
async def test_refused_handshake_has_http_error(serve, status: int) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        error = {"error": {"message": f"not now, {KEY}", "code": "why"}}
        return web.json_response(error, status=status, headers={"retry-after": "7", "x-request-id": "r1"})

    found: dict[str, ls.LLMStreamError] = {}
    address = await serve(handler)
    for transport in ("http", "websocket"):
        asking = model(address, transport=transport, retry=ONCE)
        with pytest.raises(ls.ProviderError) as caught:
            await asking.stream("?").collect()
        found[transport] = caught.value
    assert found["websocket"].info == found["http"].info
    assert type(found["websocket"]) is type(found["http"])


async def test_error_message_is_tried_again(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        limit = failed(429, "rate_limit_exceeded", "slow down", **{"Retry-After": "0"})
        await send(ws, *([limit] if number == 0 else said("second")))

    seen: list[ls.Observation] = []
    stream = model(await serve(Sockets(answer)), observe=seen.append).stream("?")
    assert (await stream.collect()).text == "second"
    (failure,) = [each for each in seen if isinstance(each, AttemptFailed)]
    assert (failure.error_code, failure.status, failure.wait_s) == ("rate-limited", 429, 0)


async def test_script_refusal_has_its_status() -> None:
    async with Simulator(Script((Turn(fault=Refuse(status=400, message="no such tool")),))) as sim:
        with pytest.raises(ls.BadRequest, match="no such tool") as caught:
            await model(sim.url).stream("?").collect()
    assert caught.value.status == 400


async def test_failure_inside_an_answer_is_told() -> None:
    async with Simulator(Script((Turn(text="one two", fault=Break(after_events=3)),))) as sim:
        stream = model(sim.url).stream("?")
        with pytest.raises(ls.ServerError):
            await read(stream)
    assert stream.text == "one"


async def test_socket_is_not_reused_after_error(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        bad = [failed(400, "bad"), {"type": "response.failed", "response": {}}]
        await send(ws, *(bad if number == 0 else said("Hi")))

    asking = model(await serve(Sockets(answer)))
    with pytest.raises(ls.BadRequest):
        await asking.stream("?").collect()
    assert (await asking.stream("?").collect()).text == "Hi"


# Leaving.


async def test_leaving_closes_the_socket() -> None:
    turn = Turn(text="one " * 1000, pace=Pace(delta_s=0.01))
    async with Simulator(Script((turn,))) as sim:
        async with model(sim.url).stream("?") as stream:
            async for event in stream:
                if isinstance(event, ls.TextDelta):
                    break
        await sim.requests[-1].done.wait()
        assert sim.requests[-1].disconnected
        await sim.requests[0].done.wait()


async def test_cancelled_reader_closes_the_socket() -> None:
    async with Simulator(Script((Turn(text="one", fault=Stall(after_events=3)),))) as sim:
        task = asyncio.create_task(model(sim.url).stream("?").collect())
        while not (len(sim.requests) == 2 and sim.requests[1].request):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sim.requests[-1].done.wait()
        assert sim.requests[-1].disconnected


async def test_leaving_after_finish_keeps_socket() -> None:
    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        asking = model(sim.url)
        for _ in range(2):
            async with asking.stream("?") as stream:
                async for event in stream:
                    if isinstance(event, ls.Finish):
                        break
        assert handshakes(sim) == 1


def test_loop_closes_its_sockets(recwarn) -> None:
    async def main() -> None:
        async with Simulator(Script((Turn(text="Hi"),))) as sim:
            await model(sim.url).stream("?").collect()

    for _ in range(2):
        asyncio.run(main())
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


async def test_session_of_the_callers_carries_it() -> None:
    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        async with aiohttp.ClientSession(headers={"x-team": "blue"}) as session:
            asking = model(sim.url, session=session)
            assert (await asking.stream("?").collect()).text == "Hi"
            assert sim.requests[0].http.headers["x-team"] == "blue"
        with pytest.raises(ls.TransportError, match="closed"):
            await asking.stream("?").collect()


# What cannot be.


def test_other_providers_are_told_at_once() -> None:
    with pytest.raises(ls.Unsupported, match=r"anthropic does not support WebSockets.*openai-responses"):
        ls.Model("anthropic:claude-sonnet-4-5", transport="websocket")
    with pytest.raises(ls.Unsupported, match="openrouter-responses"):
        ls.Model("openrouter-responses:x", transport="websocket")
    with pytest.raises(ls.InvalidRequest, match='"http" or "websocket"'):
        ls.Model("openai-responses:x", transport="carrier-pigeon")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["openai-responses", "azure-responses", "xai-responses"])
def test_socket_vendors_accept_the_option(name: str) -> None:
    assert ls.Model(f"{name}:x", transport="websocket").transport == "websocket"


async def test_background_response_goes_by_http() -> None:
    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        stream = model(sim.url).stream("?", background=True)
        events = await read(stream)
        assert handshakes(sim) == 0
    assert isinstance(events[0], ls.StreamStart)
    assert "background" in str(events[0].warnings)


async def test_redirects_are_not_followed(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://elsewhere.example/v1/responses")

    with pytest.raises(ls.RedirectRefused, match=r"elsewhere\.example"):
        await model(await serve(handler)).stream("?").collect()


async def test_server_without_sockets_is_named(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>hello</html>", content_type="text/html")

    with pytest.raises(ls.ProtocolError, match=r'HTTP 200 where a WebSocket was requested.*transport="web'):
        await model(await serve(handler), retry=ONCE).stream("?").collect()


async def test_limiter_paces_sockets_too() -> None:
    limiter = ls.RateLimiter(max_concurrent=2)
    async with Simulator(Script((Turn(text="Hi"),))) as sim:
        asking = model(sim.url, limiter=limiter)
        await asyncio.gather(*(asking.stream("?").collect() for _ in range(6)))
        assert handshakes(sim) <= 2


async def test_warning_of_steps_is_kept(serve) -> None:
    async def answer(ws: web.WebSocketResponse, body: dict[str, Any], number: int) -> None:
        await send(ws, *said("Hi")[:-1], ended(kind="incomplete", why="max_output_tokens"))

    stream = model(await serve(Sockets(answer))).stream("?", seed=1)
    events = await read(stream)
    assert isinstance(events[0], ls.StreamStart)
    assert events[0].warnings
    assert stream.finish_reason == "length"
