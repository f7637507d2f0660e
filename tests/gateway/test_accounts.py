"""A gateway with a ledger: who may call, and a row for each call, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest
from gateway_parts import WIRES, gateway_before, model_at, request_of, serving

import llmstream as ls
from llmstream.events import Usage
from llmstream.exchange import HttpRequest
from llmstream.gateway import Gateway, Key, Limits, open_ledger
from llmstream.gateway.accounts import Row
from llmstream.testing import Cut, Pace, Refuse, Stall, Turn
from tests.redis_servers import RedisServer

USED = Usage(input_tokens=1000, output_tokens=100)


async def posted(url: str, http: HttpRequest) -> tuple[int, bytes]:
    headers = {"content-type": "application/json", **http.headers}
    async with (
        aiohttp.ClientSession() as session,
        session.request(http.method, url + http.url, data=http.body, headers=headers) as response,
    ):
        return response.status, await response.read()


async def settled(path: str | Path, count: int) -> list[Row]:
    """The rows of a log once none is open."""
    ledger = open_ledger(path)
    try:
        async with asyncio.timeout(30):
            while len(rows := ledger.rows()) < count or any(row.outcome == "open" for row in rows):
                await asyncio.sleep(0.01)
        return rows
    finally:
        ledger.close()


def new_key(path: str | Path, **fields: object) -> str:
    ledger = open_ledger(path)
    secret = ledger.add_key(Key(**{"name": "ada", **fields}))
    ledger.close()
    return secret


@pytest.mark.parametrize("lane", ["pass", "translate"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_complete_calls_cost_their_usage(store: str, lane: str, streamed: bool) -> None:
    path = store
    client = "anthropic" if lane == "pass" else "openai-chat"
    async with gateway_before("anthropic", [Turn(text="Hi", usage=USED)], keys=path) as (url, _):
        status, _ = await posted(url, request_of(client, streamed=streamed))
        assert status == 200
        (row,) = await settled(path, 1)
    assert (row.outcome, row.lane, row.streamed, row.estimated) == ("complete", lane, streamed, False)
    assert (row.input_tokens, row.output_tokens, row.cost_usd) == (1000, 100, pytest.approx(0.002))
    assert (row.model, row.wire, row.asked, row.route) == ("anthropic:sim", client, "sim", "*")
    assert row.first_s is not None
    assert row.duration_s >= row.first_s


@pytest.mark.parametrize("client", ["anthropic", "gemini"])
async def test_broken_calls_are_never_free(tmp_path: Path, client: str) -> None:
    path = tmp_path / "gateway.db"
    script = [Turn(text="word " * 40, fault=Cut(after_events=20))]
    async with gateway_before("anthropic", script, keys=path) as (url, _):
        with pytest.raises(ls.LLMStreamError):
            await model_at(url, client).ask("Hello")
        (row,) = await settled(path, 1)
    assert row.outcome == "cut"
    assert row.code in ("connection-lost", "incomplete-stream")
    assert row.input_tokens > 0
    assert row.output_tokens > 5
    assert row.cost_usd > 0


@pytest.mark.parametrize("client", ["anthropic", "ollama"])
async def test_left_calls_are_never_free(store: str, client: str) -> None:
    path = store
    script = [Turn(text="word " * 40, fault=Stall(after_events=20, stall_s=None))]
    async with gateway_before("anthropic", script, keys=path) as (url, simulator):
        async with model_at(url, client).stream("Hello") as stream:
            async for _ in stream.text_deltas():
                break
        async with asyncio.timeout(30):
            await simulator.requests[0].done.wait()
        (row,) = await settled(path, 1)
    assert simulator.requests[0].disconnected
    assert (row.outcome, row.estimated) == ("left", True)
    assert row.input_tokens > 0
    assert row.output_tokens > 0


async def test_refused_calls_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with gateway_before("gemini", [Turn(fault=Refuse(status=429))], keys=path) as (url, _):
        for client in ("gemini", "cohere"):
            with pytest.raises(ls.RateLimited):
                await model_at(url, client).ask("Hello")
        rows = await settled(path, 2)
    assert [(row.outcome, row.code, row.cost_usd, row.output_tokens) for row in rows] == [
        ("failed", "rate-limited", 0.0, 0)
    ] * 2


@pytest.mark.parametrize("client", WIRES)
async def test_keys_of_every_wire(store: str, client: str) -> None:
    """Each vendor's client sends its key in its own header; a wrong one is refused in its own form."""
    path = store
    secret = new_key(path, models=("sim",))
    async with gateway_before("mistral", keys=path) as (url, simulator):
        if client != "bedrock-converse":  # signs requests, or sends a token of its own environment
            assert (await model_at(url, client, api_key=secret).ask("Hello")).text
            with pytest.raises(ls.PermissionDenied, match="may not use"):
                await model_at(url, client, name="other", api_key=secret).ask("Hello")
        with pytest.raises((ls.AuthenticationError, ls.PermissionDenied), match="does not know this key"):
            await model_at(url, client, api_key="ls-wrong").ask("Hello")
        assert all(secret not in str(received.http.headers) for received in simulator.requests)


async def test_requests_without_a_key(store: str) -> None:
    path = store
    async with gateway_before("ollama", keys=path) as (url, simulator):
        assert (await posted(url, request_of("openai-chat")))[0] == 200
        secret = new_key(path)
        # From the first key on, without a restart.
        status, body = await posted(url, request_of("openai-chat"))
        assert (status, msgspec.json.decode(body)["error"]["code"]) == (401, "invalid_api_key")
        asked = request_of("gemini")
        with_key = msgspec.structs.replace(asked, url=f"{asked.url}&key={secret}")
        assert (await posted(url, with_key))[0] == 200
        assert len(simulator.requests) == 2


async def test_limits_answer_in_the_wires_form(store: str) -> None:
    path = store
    limits = Limits(requests_per_minute=1)
    async with gateway_before("ollama", keys=path, limits=limits) as (url, _):
        assert (await model_at(url, "anthropic").ask("Hello")).text
        for client in WIRES:
            with pytest.raises(ls.RateLimited, match="limited to 1 requests a minute") as caught:
                await model_at(url, client).ask("Hello")
            assert 0 < caught.value.retry_after_s <= 60


async def test_budgets_end_in_a_429(store: str) -> None:
    path = store
    secret = new_key(path, budget_usd=0.0025)
    script = [Turn(text="Hi", usage=USED)]
    async with gateway_before("anthropic", script, keys=path) as (url, _):
        model = model_at(url, "openai-chat", api_key=secret)
        assert (await model.ask("Hello", max_output_tokens=100)).text == "Hi"
        await settled(path, 1)
        with pytest.raises(ls.RateLimited, match=r"has 0\.0005 of its 0\.0025 USD left") as caught:
            await model.ask("Hello", max_output_tokens=100)
        assert caught.value.reason == "budget_exceeded"


async def test_gateways_share_one_budget(store: str) -> None:
    """Many calls at once over two gateways: what was let in fits into the budget."""
    secret = new_key(store, budget_usd=0.0055)
    script = [Turn(text="Hi", usage=Usage(20, 100))] * 20
    async with (
        gateway_before("anthropic", script, keys=store) as (one, _),
        gateway_before("anthropic", script, keys=store) as (other, _),
    ):
        asked = request_of("openai-chat")
        sent = msgspec.structs.replace(asked, headers={**asked.headers, "authorization": f"Bearer {secret}"})
        answers = await asyncio.gather(*(posted((one, other)[n % 2], sent) for n in range(20)))
        statuses = [status for status, _ in answers]
        let_in = statuses.count(200)
        assert let_in + statuses.count(429) == 20
        rows = await settled(store, let_in)
    assert let_in == 5
    assert sum(row.cost_usd for row in rows) == pytest.approx(0.0051)


async def test_calls_have_a_tag(store: str) -> None:
    """That of the key, else the client's; a tag's budget is for all that have it."""
    secret = new_key(store, tag="research")
    budgets = {"research": "0.0025usd/1h"}
    async with gateway_before("anthropic", [Turn(text="Hi", usage=USED)], keys=store, tags=budgets) as (
        url,
        simulator,
    ):
        asked = request_of("openai-chat")

        async def tagged(tag: str, key: str = secret) -> tuple[int, bytes]:
            headers = {**asked.headers, "authorization": f"Bearer {key}", "x-llmstream-tag": tag}
            return await posted(url, msgspec.structs.replace(asked, headers=headers))

        assert (await tagged("ignored"))[0] == 200
        (row,) = await settled(store, 1)
        assert (row.key, row.tag) == ("ada", "research")
        other = new_key(store, name="eve")
        status, body = await tagged("research", other)
        assert (status, b"The tag research has 0.0005 of its 0.0025 USD left" in body) == (429, True)
        assert (await tagged("else", other))[0] == 200
        assert (await tagged("no name", other))[0] == 400
        assert all("x-llmstream-tag" not in received.http.headers for received in simulator.requests)


async def test_stores_that_fail_admit_nobody(make_redis: Callable[..., RedisServer]) -> None:
    """A call that ends meanwhile is written once the store is back."""
    pytest.importorskip("redis")
    server = make_redis("--appendonly", "yes", "--appendfsync", "always")
    slow = Turn(text="one two three four", usage=USED, pace=Pace(tokens_per_s=10))
    async with gateway_before("anthropic", [slow, Turn(text="Hi")], keys=server.url) as (url, _):
        async with model_at(url, "anthropic").stream("Hello") as stream:
            async for _ in stream.text_deltas():
                if server.is_running:
                    server.kill()
            assert stream.text == "one two three four"
        status, body = await posted(url, request_of("openai-chat"))
        assert (status, b"cannot reach its store" in body, b"redis" in body) == (503, True, False)
        server.start()
        assert (await posted(url, request_of("openai-chat")))[0] == 200
        rows = await settled(server.url, 2)
    assert [(row.outcome, row.wire) for row in rows] == [
        ("complete", "openai-chat"),
        ("complete", "anthropic"),
    ]
    assert rows[1].input_tokens == 1000


async def test_probes_and_metrics(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    path = tmp_path / "gateway.db"
    async with gateway_before("anthropic", keys=path, metrics=True) as (url, _):
        assert (await posted(url, request_of("anthropic")))[0] == 200
        await settled(path, 1)
        for page in ("/healthz", "/readyz"):
            assert (await posted(url, HttpRequest(page, method="GET")))[0] == 200
        status, body = await posted(url, HttpRequest("/metrics", method="GET"))
        line = (
            b'llmstream_gateway_calls_total{code="",lane="pass",outcome="complete",provider="anthropic",'
            b'route="*",wire="anthropic"} 1.0'
        )
        assert (status, line in body) == (200, True)
        new_key(path)
        assert (await posted(url, HttpRequest("/metrics", method="GET")))[0] == 401


async def test_draining_gateways_refuse() -> None:
    gateway = Gateway({"*": "sim:demo"})
    async with serving(gateway) as url:
        gateway.draining = True
        assert (await posted(url, HttpRequest("/readyz", method="GET")))[0] == 503
        status, body = await posted(url, request_of("anthropic"))
        assert (status, b"shutting down" in body) == (503, True)
        assert (await posted(url, HttpRequest("/healthz", method="GET")))[0] == 200


async def test_pages_of_the_web_are_refused() -> None:
    async with serving(Gateway({"*": "sim:demo"})) as url:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            sent = request_of("anthropic")
            status, _ = await posted(url, msgspec.structs.replace(sent, headers={**sent.headers, **headers}))
            assert status == 403


def test_open_gateways_need_keys() -> None:
    with pytest.raises(ls.InvalidRequest, match="needs keys"):
        Gateway({"*": "sim:demo"}, allow_remote=True)
