"""WebSockets through the gateway: OpenAI's own client and ours, at the simulator's Responses API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway_parts import PRICE, SERVERS, model_at, on_server, script_of, target_at

import llmstream as ls
from llmstream.events import Usage
from llmstream.gateway import Gateway, Key, Limits, Route, Routes, Target, open_ledger
from llmstream.gateway.accounts import Row
from llmstream.testing import Cut, Pace, Simulator, Stall, Turn

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
SLOW = Turn(text="one two three four five six", usage=Usage(1000, 100), pace=Pace(delta_s=0.05))
SLOWER = Turn(text="one two three four five six", usage=Usage(1000, 100), pace=Pace(delta_s=0.2))
SILENT = Turn(text="one two three four", fault=Stall(after_events=6, stall_s=None))


@asynccontextmanager
async def gateway_at(
    turns: list[Turn], path: Path, *, server: str = "aiohttp", drain: bool = False, **options: Any
) -> AsyncIterator[tuple[str, Simulator, Gateway]]:
    """A gateway with a model of the Responses API under another name, and one that needs a translation."""
    async with Simulator(script_of(turns)) as simulator:
        routes = Routes(
            [
                Route(
                    "fast",
                    (Target("openai-responses:sim", **target_at(simulator.url, "openai-responses")),),
                    drain=drain,
                ),
                Route("claude", (Target("anthropic:sim", **target_at(simulator.url, "anthropic")),)),
            ]
        )
        gateway = Gateway(routes, keys=path / "gateway.db", **options)
        async with on_server(server, gateway) as url:
            yield url, simulator, gateway


@asynccontextmanager
async def connected(url: str, key: str = "any") -> AsyncIterator[Any]:
    """OpenAI's own client, which takes a second to load: tests with it are slow."""
    openai = pytest.importorskip("openai", reason="OpenAI's own client is not installed")
    pytest.importorskip("websockets", reason="the client's WebSockets are not installed")
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
        client.responses.connect() as connection,
    ):
        yield connection


async def answer(connection: Any) -> list[Any]:
    """The events of one response."""
    events = [await connection.recv()]
    while events[-1].type not in ENDS:
        events.append(await connection.recv())
    return events


def text(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def rows_of(path: Path) -> list[Row]:
    ledger = open_ledger(path / "gateway.db")
    rows = ledger.rows()
    ledger.close()
    return rows[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
async def test_openai_sockets_pass(tmp_path: Path, server: str) -> None:
    """Two responses over one socket, the second by the id of the first: both are calls in the log."""
    turns = [Turn(text="One.", usage=Usage(1000, 100)), Turn(text="Two.", usage=Usage(2000, 200))]
    async with (
        gateway_at(turns, tmp_path, server=server) as (url, simulator, _),
        connected(url) as connection,
    ):
        await connection.response.create(model="fast", input="Hello")
        first = await answer(connection)
        previous = first[-1].response.id
        await connection.response.create(model="fast", input="And?", previous_response_id=previous)
        second = await answer(connection)
        models = [one.request.model for one in simulator.requests if one.request is not None]
    assert (text(first), text(second), models) == ("One.", "Two.", ["sim", "sim"])
    rows = rows_of(tmp_path)
    assert [(row.outcome, row.lane, row.asked, row.estimated) for row in rows] == [
        ("complete", "pass", "fast", False)
    ] * 2
    assert [(row.input_tokens, row.output_tokens) for row in rows] == [(1000, 100), (2000, 200)]
    assert rows[0].cost_usd == PRICE.cost(Usage(1000, 100))
    assert rows[0].first_s is not None


async def test_our_sockets_pass(tmp_path: Path) -> None:
    turns = [Turn(text="One."), Turn(text="Two.")]
    async with gateway_at(turns, tmp_path) as (url, _, _), aiohttp.ClientSession() as session:
        model = model_at(url, "openai-responses", "fast", transport="websocket", session=session)
        assert (await model.ask("Hello")).text == "One."
        assert (await model.ask("Hello")).text == "Two."
    assert [row.outcome for row in rows_of(tmp_path)] == ["complete"] * 2


@pytest.mark.parametrize("server", SERVERS)
async def test_translation_needs_http(tmp_path: Path, server: str) -> None:
    """A socket whose model needs a translation is told so; the client's next handshake gets a 426."""
    headers = {"user-agent": "codex"}
    async with (
        gateway_at([SLOW], tmp_path, server=server) as (url, _, _),
        aiohttp.ClientSession() as session,
    ):
        async with session.ws_connect(f"{url}/v1/responses", headers=headers) as socket:
            await socket.send_json({"type": "response.create", "model": "claude", "input": "Hi"})
            error = await socket.receive_json()
            assert (error["type"], error["status"]) == ("error", 426)
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(f"{url}/v1/responses", headers=headers)
        assert caught.value.status == 426
        async with session.ws_connect(f"{url}/v1/responses") as another:
            assert not another.closed


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
async def test_handshakes_without_a_model(path: str) -> None:
    gateway = Gateway({"*": ls.Model("anthropic:any", api_key="k")})
    async with on_server("aiohttp", gateway) as url, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(url + path)
    assert caught.value.status == 426


@pytest.mark.slow
async def test_keys_and_limits_hold(tmp_path: Path) -> None:
    """A key is needed at the handshake and at each response; a limit is an error of the socket's own form."""
    ledger = open_ledger(tmp_path / "gateway.db")
    secret = ledger.add_key(Key(name="ada", models=("fast",)))
    ledger.close()
    turns = [Turn(text="One.")]
    limits = Limits(requests_per_minute=1)
    async with gateway_at(turns, tmp_path, limits=limits) as (url, _, gateway):
        with pytest.raises(Exception, match="401"):
            async with connected(url):
                pass
        async with connected(url, secret) as connection:
            await connection.response.create(model="claude", input="Hello")
            assert (await connection.recv()).status == 403
            await connection.response.create(model="fast", input="Hello")
            assert text(await answer(connection)) == "One."
            await connection.response.create(model="fast", input="Hello")
            refused = await connection.recv()
            assert (refused.type, refused.status, refused.error.code) == ("error", 429, "rate_limit_exceeded")
            assert gateway.admission.ledger is not None
            gateway.admission.ledger.revoke("ada")
            await connection.response.create(model="fast", input="Hello")
            assert (await connection.recv()).status == 401
    assert [row.outcome for row in rows_of(tmp_path)] == ["complete"]


@pytest.mark.slow
@pytest.mark.parametrize("drain", [False, True], ids=["left", "drained"])
@pytest.mark.parametrize("server", SERVERS)
async def test_left_sockets_leave_the_vendor(tmp_path: Path, server: str, drain: bool) -> None:
    turn = SLOWER if drain else SILENT
    async with gateway_at([turn], tmp_path, server=server, drain=drain) as (url, simulator, _):
        async with connected(url) as connection:
            await connection.response.create(model="fast", input="Hello")
            while (await connection.recv()).type != "response.output_text.delta":
                pass
        async with asyncio.timeout(30):
            await simulator.requests[-1].done.wait()
        assert simulator.requests[-1].disconnected is not drain
    (row,) = rows_of(tmp_path)
    assert (row.outcome, row.estimated) == ("left", not drain)
    assert (row.output_tokens == 100) is drain


@pytest.mark.slow
@pytest.mark.parametrize("clean", [False, True], ids=["reset", "closed"])
async def test_broken_vendors_break_the_socket(tmp_path: Path, clean: bool) -> None:
    """A response that broke off never looks complete: the socket closes with 1011."""
    broken = Turn(text="one two three four", fault=Cut(after_events=6, clean=clean))
    async with (
        gateway_at([broken], tmp_path) as (url, _, _),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/v1/responses") as socket,
    ):
        await socket.send_json({"type": "response.create", "model": "fast", "input": "Hi"})
        seen = [message.json()["type"] async for message in socket]
        assert socket.close_code == 1011
    assert "response.completed" not in seen
    (row,) = rows_of(tmp_path)
    assert (row.outcome, row.estimated) == ("cut", True)


@pytest.mark.slow
async def test_silent_vendors_time_out(tmp_path: Path) -> None:
    """A vendor that falls silent in a response ends at the model's deadline, with an error."""
    async with Simulator(script_of([SILENT])) as simulator:
        model = model_at(simulator.url, "openai-responses", deadlines=ls.Deadlines(idle_s=0.3))
        gateway = Gateway({"sim": model}, keys=tmp_path / "gateway.db")
        async with on_server("aiohttp", gateway) as url, connected(url) as connection:
            await connection.response.create(model="sim", input="Hello")
            assert (await answer(connection))[-1].type == "error"
    (row,) = rows_of(tmp_path)
    assert (row.outcome, row.code) == ("cut", "deadline-exceeded")


@pytest.mark.slow
async def test_steering_passes(tmp_path: Path) -> None:
    """A steered response and its successor are one call, with the usage of both."""
    turns = [SLOWER, Turn(text="Deux.", usage=Usage(10, 1))]
    async with gateway_at(turns, tmp_path) as (url, _, _), connected(url) as connection:
        await connection.response.create(model="fast", input="Count")
        created = await connection.recv()
        await connection.response.steer(input="In French", previous_response_id=created.response.id)
        first, second = await answer(connection), await answer(connection)
    assert first[-1].response.incomplete_details.reason == "steered"
    assert text(second) == "Deux."
    (row,) = rows_of(tmp_path)
    assert row.outcome == "complete"
    assert row.output_tokens >= 1


async def test_draining_closes_sockets(tmp_path: Path) -> None:
    """An idle socket at once, with 1001; one with a response in progress after it."""
    async with Simulator(script_of([SLOW])) as simulator, aiohttp.ClientSession() as session:
        gateway = Gateway({"sim": model_at(simulator.url, "openai-responses")}, keys=tmp_path / "gateway.db")
        async with on_server("aiohttp", gateway) as url:
            idle = await session.ws_connect(f"{url}/v1/responses")
            busy = await session.ws_connect(f"{url}/v1/responses")
            await busy.send_json({"type": "response.create", "model": "sim", "input": "Hi"})
            await busy.receive()
            gateway.stop_sockets()
            assert (await idle.receive()).data == 1001
            types = [message.json()["type"] async for message in busy]
        assert (types[-1], busy.close_code) == ("response.completed", 1001)
    assert [row.outcome for row in rows_of(tmp_path)] == ["complete"]


async def test_strange_messages_are_refused(tmp_path: Path) -> None:
    async with (
        gateway_at([Turn(text="One.")], tmp_path) as (url, _, _),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/v1/responses") as socket,
    ):
        for message in ("no JSON", '{"type":"response.steer"}', '{"type":"response.create"}'):
            await socket.send_str(message)
            assert (await socket.receive_json())["status"] == 400
        await socket.send_json({"type": "response.create", "model": "none", "input": "Hi"})
        assert (await socket.receive_json())["status"] == 404
        await socket.send_json({"type": "response.create", "model": "fast", "input": "Hi"})
        assert (await socket.receive_json())["type"] == "response.created"


@pytest.mark.slow
async def test_one_vendor_at_a_time(tmp_path: Path) -> None:
    """Another vendor is asked once the first one has answered; while it answers, that is refused and free."""
    turns = [Turn(text="One."), SILENT]
    async with Simulator(script_of(turns)) as one, Simulator(script_of([Turn(text="Two.")])) as two:
        models = {
            name: model_at(simulator.url, "openai-responses", name)
            for name, simulator in {"a": one, "b": two}.items()
        }
        gateway = Gateway(models, keys=tmp_path / "gateway.db")
        async with on_server("aiohttp", gateway) as url, connected(url) as connection:
            await connection.response.create(model="a", input="Hello")
            assert text(await answer(connection)) == "One."
            await connection.response.create(model="b", input="Hello")
            assert text(await answer(connection)) == "Two."
            await connection.response.create(model="a", input="Hello", stream_id="1")
            await connection.recv()
            await connection.response.create(model="b", input="Hello", stream_id="2")
            refused = (await answer(connection))[-1]
            assert (refused.type, refused.status, refused.stream_id) == ("error", 400, "2")
    rows = rows_of(tmp_path)
    assert [(row.asked, row.outcome) for row in rows] == [
        ("a", "complete"),
        ("b", "complete"),
        ("a", "left"),
        ("b", "failed"),
    ]
    assert (rows[3].input_tokens, rows[3].output_tokens) == (0, 0)
