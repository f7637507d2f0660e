"""Over real sockets, each dialect says what the script says, and every fault is a fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest

from llmstream import errors, grammar
from llmstream.chats.content import ToolCall as CallPart
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.base import Dialect
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import ErrorEvent, Event, Finish, ReasoningDelta, ResponseMetadata, TextDelta, ToolCall
from llmstream.exchange import HttpRequest
from llmstream.request import Request, Settings, ToolSpec
from llmstream.server_side.routing import default_dialects
from llmstream.simulator import Break, Call, Cut, Pace, Refuse, Script, Simulator, Stall, Turn

DIALECTS = ["openai-chat", "anthropic", "ollama"]
WEATHER = ToolSpec(
    "weather", "Weather of a city", {"type": "object", "properties": {"city": {"type": "string"}}}
)
ASKED = Request(
    model="sim", messages=(Message.user("How warm is it?"),), settings=Settings(max_output_tokens=512)
)
FULL = Turn(
    reasoning="Two cities, I think.",
    text="Looking — 🌍 где?",
    calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
)


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return next(d for d in default_dialects() if d.name == request.param)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


def encoded(dialect: Dialect, request: Request = ASKED) -> HttpRequest:
    http = dialect.encode(request, provider="sim").http
    begins = {"openai-chat": "/v1", "gemini": "/v1beta", "gemini-interactions": "/v1beta"}
    return msgspec.structs.replace(http, url=begins.get(dialect.name, "") + http.url)


async def ask(
    session: aiohttp.ClientSession, url: str, dialect: Dialect, request: Request = ASKED
) -> tuple[list[Event], errors.LLMStreamError | None]:
    """The events of one answer, as a client of ours would see them."""
    http = encoded(dialect, request)
    sentence = GuardedDecoder(dialect.decoder(provider="sim"), provider="sim")
    events = sentence.start()
    async with session.post(url + http.url, data=http.body, headers=http.headers) as answer:
        if answer.status >= 400:
            headers = {k.lower(): v for k, v in answer.headers.items()}
            error = dialect.decode_error(answer.status, headers, await answer.read(), provider="sim")
            return events, error
        assert answer.content_type == dialect.content_type
        try:
            async for chunk in answer.content.iter_any():
                events += sentence.feed(chunk)
            events += sentence.close()
        except aiohttp.ClientError:
            events += sentence.close(errors.ConnectionLost("the connection broke", provider="sim"))
    assert not grammar.check(events)
    return events, sentence.error


def joined(events: list[Event], kind: type[TextDelta] | type[ReasoningDelta]) -> str:
    return "".join(e.delta for e in events if isinstance(e, kind))


@pytest.mark.parametrize("block_bytes", [0, 64, 100_000])
async def test_the_script_arrives(dialect: Dialect, session: aiohttp.ClientSession, block_bytes: int) -> None:
    async with Simulator(Script((FULL,)), block_bytes=block_bytes) as simulator:
        events, error = await ask(session, simulator.url, dialect)
    assert error is None
    assert joined(events, TextDelta) == FULL.text
    assert joined(events, ReasoningDelta) == FULL.reasoning
    calls = [e for e in events if isinstance(e, ToolCall)]
    assert [(c.tool_name, json.loads(c.input)) for c in calls] == [
        ("weather", {"city": "Łódź"}),
        ("clock", {}),
    ]
    assert len({c.tool_call_id for c in calls}) == 2
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "tool-calls"
    assert finish.usage.output_tokens
    metadata = next(e for e in events if isinstance(e, ResponseMetadata))
    assert metadata.model_id == "sim"
    received = simulator.requests[0]
    assert (received.dialect, received.disconnected) == (dialect.name, False)
    assert received.request is not None
    assert received.request.messages == ASKED.messages


async def test_demo_uses_a_tool_and_quotes_result(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    request = Request(model="sim", messages=ASKED.messages, tools=(WEATHER,), settings=ASKED.settings)
    async with Simulator() as simulator:
        first, _ = await ask(session, simulator.url, dialect, request)
        call = next(e for e in first if isinstance(e, ToolCall))
        assert (call.tool_name, json.loads(call.input)) == ("weather", {"city": "Paris"})
        history = (
            *request.messages,
            Message.assistant(
                joined(first, TextDelta), CallPart(call.tool_call_id, call.tool_name, call.input)
            ),
            Message.tool([ToolResult(call.tool_call_id, "7 degrees", name=call.tool_name)]),
        )
        second, _ = await ask(
            session,
            simulator.url,
            dialect,
            Request(model="sim", messages=history, tools=(WEATHER,), settings=ASKED.settings),
        )
    assert "7 degrees" in joined(second, TextDelta)
    finish = second[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "stop"


async def test_a_refusal_has_status_kind_and_wait(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    kinds: dict[int, type[errors.LLMStreamError]] = {
        400: errors.BadRequest,
        401: errors.AuthenticationError,
        404: errors.NotFound,
        429: errors.RateLimited,
        500: errors.ServerError,
        503: errors.Overloaded,
    }
    turns = tuple(Turn(fault=Refuse(status=s, message=f"no {s}", retry_after_s=2.0)) for s in kinds)
    async with Simulator(Script(turns)) as simulator:
        for status, kind in kinds.items():
            _, error = await ask(session, simulator.url, dialect)
            assert type(error) is kind
            assert error is not None
            assert (error.status, error.retry_after_s) == (status, 2.0)
            assert f"no {status}" in error.message


async def test_after_a_refusal_the_next_turn_comes(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    async with Simulator(Script((Turn(fault=Refuse(status=429)), Turn(text="now")))) as simulator:
        _, error = await ask(session, simulator.url, dialect)
        assert isinstance(error, errors.RateLimited)
        events, error = await ask(session, simulator.url, dialect)
    assert error is None
    assert joined(events, TextDelta) == "now"


async def test_in_stream_error_is_the_vendors(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    turn = Turn(text="one two three", fault=Break(after_events=4, message="it broke"))
    async with Simulator(Script((turn,))) as simulator:
        events, error = await ask(session, simulator.url, dialect)
    assert joined(events, TextDelta) == "one two"
    assert isinstance(error, errors.ProviderError)
    assert "it broke" in error.message
    assert isinstance(events[-2], ErrorEvent)


@pytest.mark.parametrize("clean", [True, False])
async def test_a_cut_is_no_quiet_finish(
    dialect: Dialect, session: aiohttp.ClientSession, clean: bool
) -> None:
    turn = Turn(text="one two three", fault=Cut(after_events=4, clean=clean))
    async with Simulator(Script((turn,))) as simulator:
        events, error = await ask(session, simulator.url, dialect)
    assert joined(events, TextDelta) == "one two"
    assert isinstance(error, errors.IncompleteStream if clean else errors.ConnectionLost)


@pytest.mark.parametrize(
    "turn", [Turn(text="a b c", fault=Stall(after_events=3)), Turn(text="a b c", pace=Pace(delta_s=3600))]
)
async def test_the_server_sees_a_client_leave(
    dialect: Dialect, session: aiohttp.ClientSession, turn: Turn
) -> None:
    http = encoded(dialect)
    async with Simulator(Script((turn,))) as simulator:
        async with session.post(simulator.url + http.url, data=http.body, headers=http.headers) as answer:
            await answer.content.readany()
            assert not simulator.requests[0].done.is_set()
        await asyncio.wait_for(simulator.requests[0].done.wait(), 5)
        assert simulator.requests[0].disconnected


async def test_stall_of_seconds_has_no_final_event(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    turn = Turn(text="a b", fault=Stall(after_events=3, stall_s=30.0))
    async with Simulator(Script((turn,)), sleep=sleep) as simulator:
        _, error = await ask(session, simulator.url, dialect)
    assert slept == [30.0]
    assert isinstance(error, errors.IncompleteStream)


async def test_path_prefix_selects_the_dialect(
    session: aiohttp.ClientSession,
) -> None:
    mistral = next(d for d in default_dialects() if d.name == "mistral")
    async with Simulator(Script((Turn(text="Bonjour."),))) as simulator:
        for prefix, answering in {"": "openai-chat", "/mistral": "mistral"}.items():
            await ask(session, simulator.url + prefix, mistral)
            assert simulator.requests[-1].dialect == answering


async def test_pace_waits_between_words(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    now, slept = 0.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(round(seconds, 6))
        now += seconds

    turn = Turn(text="a b c")
    pace = Pace(first_s=1.0, delta_s=0.5)
    async with Simulator(Script((turn,)), pace=pace, sleep=sleep, clock=lambda: now) as simulator:
        events, _ = await ask(session, simulator.url, dialect)
    assert joined(events, TextDelta) == "a b c"
    assert slept == [1.0, 0.5, 0.5]


async def test_closing_cuts_running_responses(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    simulator = Simulator(Script((Turn(text="a b", fault=Stall(after_events=3)),)))
    http = encoded(dialect)
    async with simulator:
        answer = await session.post(simulator.url + http.url, data=http.body, headers=http.headers)
        await answer.content.readany()
    with pytest.raises(aiohttp.ClientError):
        await answer.read()
    assert simulator.requests[0].done.is_set()
    assert not simulator.requests[0].disconnected
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.get(simulator.url)


async def test_wrong_key_refused_right_not_stored(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    async with Simulator(api_keys={"sim-key"}) as simulator:
        _, error = await ask(session, simulator.url, dialect)
        assert isinstance(error, errors.AuthenticationError)
        with_key = Request(
            model="sim",
            messages=ASKED.messages,
            settings=ASKED.settings,
            headers={"authorization": "Bearer sim-key"},
        )
        _, error = await ask(session, simulator.url, dialect, with_key)
        assert error is None
        assert "sim-key" not in repr(simulator.requests[1].http.headers)
        assert simulator.requests[1].http.headers["authorization"] == "***"


async def test_requests_without_sense_are_refused(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    http = encoded(dialect)
    no_model = {**json.loads(http.body), "model": ""}
    async with Simulator(max_body_bytes=10_000) as simulator:
        for body, status in (
            (b"{", 400),
            (b"[]", 400),
            (json.dumps(no_model).encode(), 400),
            (b" " * 20_000, 413),
        ):
            async with session.post(simulator.url + http.url, data=body) as answer:
                assert answer.status == status, body[:80]
                error = dialect.decode_error(status, {}, await answer.read(), provider="sim")
                assert isinstance(error, errors.BadRequest)


async def test_bad_paths_and_hosts_are_rejected(session: aiohttp.ClientSession) -> None:
    async with Simulator() as simulator:
        async with session.post(simulator.url + "/v1/nothing", json={}) as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["message"]
        async with session.post(simulator.url + "/v1/nothing", headers={"anthropic-version": "1"}) as answer:
            assert (await answer.json())["type"] == "error"
        async with session.post(simulator.url + "/api/nothing") as answer:
            assert isinstance((await answer.json())["error"], str)
        async with session.get(simulator.url + "/v1/models", headers={"host": "evil.example"}) as answer:
            assert answer.status == 403


async def test_lists_of_models_for_real_clients(session: aiohttp.ClientSession) -> None:
    async with Simulator(models=("a", "b")) as simulator:
        async with session.get(simulator.url + "/v1/models") as answer:
            page = await answer.json()
            assert [m["id"] for m in page["data"]] == ["a", "b"]
            assert [m["name"] for m in page["models"]] == ["a", "b"]  # where Cohere's clients look
        async with session.get(simulator.url + "/api/tags") as answer:
            assert [m["name"] for m in (await answer.json())["models"]] == ["a", "b"]
        async with session.get(simulator.url + "/mistral/v1/models") as answer:
            assert [m["type"] for m in (await answer.json())["data"]] == ["base", "base"]
        async with session.get(simulator.url + "/v1/models/b") as answer:
            assert (await answer.json())["id"] == "b"
        async with session.post(simulator.url + "/api/show", json={"model": "a"}) as answer:
            assert "tools" in (await answer.json())["capabilities"]
        async with session.get(simulator.url + "/api/version") as answer:
            assert (await answer.json())["version"]
        async with session.get(simulator.url) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/v1beta/models", {}), ("/v1/models?key=k", {}), ("/v1/models", {"x-goog-api-key": "k"})],
)
async def test_model_list_in_googles_format(
    session: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    async with Simulator(models=("a", "b")) as simulator:
        async with session.get(simulator.url + path, headers=headers) as answer:
            assert [m["name"] for m in (await answer.json())["models"]] == ["models/a", "models/b"]
        one = path.replace("/models", "/models/a")
        async with session.get(simulator.url + one, headers=headers) as answer:
            assert (await answer.json())["name"] == "models/a"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/model/m/invoke-with-response-stream", "application/vnd.amazon.eventstream"),
        (
            "/v1/projects/p/locations/global/publishers/anthropic/models/m:streamRawPredict",
            "text/event-stream",
        ),
    ],
)
async def test_claudes_of_the_clouds_are_served(session: aiohttp.ClientSession, path: str, kind: str) -> None:
    asked = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    async with Simulator() as simulator, session.post(simulator.url + path, json=asked) as answer:
        body = await answer.read()
        assert (answer.status, answer.content_type) == (200, kind)
        assert b"You" in body or kind != "text/event-stream"


async def test_http_1_0_client_reads_to_the_end() -> None:
    """As nginx does in front of a server, unless it is told better."""
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
    head = b"POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with Simulator() as simulator:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(simulator.url.rpartition(":")[2]))
        writer.write(head + body)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert b" 200 " in answer.partition(b"\r\n")[0]
    assert b"chunked" not in answer.partition(b"\r\n\r\n")[0].lower()
    assert answer.endswith(b"data: [DONE]\n\n")


async def test_refusals_repeat_request_id_in_body(session: aiohttp.ClientSession) -> None:
    async with Simulator() as simulator, session.post(simulator.url + "/v1/messages", json={}) as answer:
        assert (await answer.json())["request_id"] == answer.headers["request-id"] == "req_sim_0"


async def test_failing_script_is_a_server_error(dialect: Dialect, session: aiohttp.ClientSession) -> None:
    class Broken:
        def turn(self, request: Request, number: int) -> Turn:
            raise RuntimeError("no idea")

    async with Simulator(Broken()) as simulator:
        _, error = await ask(session, simulator.url, dialect)
    assert isinstance(error, errors.ServerError)
    assert "no idea" in error.message


async def test_serve_forever_says_where_it_is() -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(Simulator().serve_forever(ready.set_result))
    assert (await ready).startswith("http://127.0.0.1:")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_taken_port_is_error_without_leaks() -> None:
    async with Simulator() as simulator:
        port = int(simulator.url.rpartition(":")[2])
        with pytest.raises(OSError, match="address"):
            await Simulator(port=port).start()
    async with Simulator(port=port):
        pass


def test_other_hosts_rejected_by_default() -> None:
    with pytest.raises(errors.InvalidRequest, match="allow_remote"):
        Simulator(host="0.0.0.0")


async def test_no_task_outlives_the_simulator(session: aiohttp.ClientSession) -> None:
    before = asyncio.all_tasks()
    http = encoded(default_dialects()[0])
    async with Simulator(Script((Turn(text="a b", fault=Stall(after_events=3)),))) as simulator:
        answers = await asyncio.gather(
            *(session.post(simulator.url + http.url, data=http.body, headers=http.headers) for _ in range(20))
        )
        assert len(simulator.requests) == 20
    assert asyncio.all_tasks() == before
    for answer in answers:
        answer.close()


async def test_address_before_the_start_is_refused() -> None:
    """Port 0 is that of no server; a port of its own is known at once."""
    with pytest.raises(errors.InvalidRequest, match="the simulator is not running"):
        _ = Simulator().url
    assert Simulator(port=8123).url == "http://127.0.0.1:8123"
