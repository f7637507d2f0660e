"""The translate lane: every client's wire on every vendor's wire."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import pytest
from gateway_parts import WIRES, gateway_before, model_at, request_of, script_of, serving

import llmstream as ls
from llmstream.events import Usage
from llmstream.exchange import HttpRequest
from llmstream.gateway import Gateway
from llmstream.testing import Call, Cut, Refuse, Simulator, Stall, Turn

ANSWERS = {
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini-interactions",
    "cohere",
    "mistral",
    "ollama",
}


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: sunny"


@pytest.mark.slow
@pytest.mark.parametrize("client", WIRES)
async def test_tool_loop_over_all_vendors(client: str) -> None:
    """A client of one wire calls a tool and gets an answer, whoever the vendor is."""
    for vendor in WIRES:
        async with gateway_before(vendor) as (url, simulator):
            agent = ls.Agent(model_at(url, client), tools=[weather])
            run = await agent.run("How is the weather in Oslo?")
            assert "sunny" in run.text, vendor
            assert {received.dialect for received in simulator.requests} == {vendor}


def whole(wire: str) -> HttpRequest:
    return request_of(wire, streamed=False)


async def post(url: str, http: HttpRequest) -> tuple[int, dict[str, str], bytes]:
    async with aiohttp.ClientSession() as session:
        headers = {"content-type": "application/json", **http.headers}
        async with session.post(url + http.url, data=http.body, headers=headers) as response:
            return response.status, dict(response.headers), await response.read()


@pytest.mark.parametrize("client", WIRES)
async def test_answers_in_one_piece(client: str) -> None:
    for vendor in ("anthropic", "gemini", "openai-chat"):
        async with gateway_before(vendor) as (url, _):
            status, headers, body = await post(url, whole(client))
            assert (status, headers["Content-Type"]) == (200, "application/json"), body
            assert isinstance(msgspec.json.decode(body), dict)
            assert b"You said: Hello" in body


@pytest.mark.parametrize("client", WIRES)
@pytest.mark.parametrize("clean", [True, False])
async def test_cut_is_never_a_success(client: str, clean: bool) -> None:
    """The vendor's stream breaks off after some content: streaming and whole, the client sees a failure."""
    script = [Turn(text="one two three four five six seven", fault=Cut(after_events=4, clean=clean))]
    async with gateway_before("openai-chat", script) as (url, _):
        with pytest.raises(ls.LLMStreamError) as caught:
            await model_at(url, client).ask("Hello")
        assert caught.value.partial is not None
        try:
            status, _, body = await post(url, whole(client))
        except aiohttp.ClientPayloadError:
            assert client == "openai-chat"  # on the pass lane, the vendor's half is cut too
        else:
            assert status >= 500, body


@pytest.mark.parametrize("client", WIRES)
async def test_refusals_keep_status_and_form(client: str) -> None:
    script = [Turn(fault=Refuse(status=429, message="slow down", retry_after_s=7.0))]
    async with gateway_before("gemini", script) as (url, _):
        with pytest.raises(ls.RateLimited) as caught:
            await model_at(url, client).ask("Hello")
        assert caught.value.retry_after_s == 7
        assert "slow down" in caught.value.message
        status, headers, _ = await post(url, whole(client))
        assert (status, headers["x-llmstream-error"]) == (429, "rate-limited")


async def test_usage_is_of_the_clients_wire() -> None:
    """Anthropic's has the names of the Responses API, but no total: Codex fails without one."""
    async with gateway_before("anthropic", [Turn(text="Hi", usage=Usage(9, 2))]) as (url, _):
        _, _, body = await post(url, whole("openai-responses"))
        usage = msgspec.json.decode(body)["usage"]
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (9, 2, 11)
        assert "cache_read_input_tokens" not in usage


@pytest.mark.parametrize(
    ("client", "reasons"),
    [
        ("openai-chat", [b'"finish_reason":"length"', b'"finish_reason":"tool_calls"']),
        ("openai-responses", [b'"reason":"max_output_tokens"', b'"status":"completed"']),
        ("anthropic", [b'"stop_reason":"max_tokens"', b'"stop_reason":"tool_use"']),
        ("gemini", [b'"finishReason":"MAX_TOKENS"', b'"finishReason":"STOP"']),
        ("mistral", [b'"finish_reason":"length"', b'"finish_reason":"tool_calls"']),
        ("cohere", [b'"finish_reason":"MAX_TOKENS"', b'"finish_reason":"TOOL_CALL"']),
        ("ollama", [b'"done_reason":"length"', b'"done_reason":"stop"']),
        ("bedrock-converse", [b'"stopReason":"max_tokens"', b'"stopReason":"tool_use"']),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_reasons_are_of_the_clients_wire(client: str, reasons: list[bytes], streamed: bool) -> None:
    """Clients run tools, and see that a limit cut the answer, by the words of their own API."""
    turns = [Turn(text="Half", finish_reason="length"), Turn(calls=(Call("weather", {"city": "Oslo"}),))]
    for vendor in ("anthropic", "gemini"):
        if vendor == client:
            continue
        async with gateway_before(vendor, turns) as (url, _):
            for reason in reasons:
                _, _, body = await post(url, request_of(client, streamed=streamed))
                assert reason in body.replace(b": ", b":"), (vendor, body)


async def test_names_what_has_no_place() -> None:
    """What only the client's vendor knows is left out, and named in a header: no refusal, no silence."""
    asked = msgspec.json.decode(whole("anthropic").body)
    asked["context_management"] = {"edits": []}
    asked["service_tier"] = "auto"
    sent = HttpRequest("/v1/messages", msgspec.json.encode(asked), {"anthropic-beta": "unknown-2030"})
    async with gateway_before("openai-responses") as (url, simulator):
        status, headers, body = await post(url, sent)
        assert status == 200, body
        assert "context_management" in headers["x-llmstream-warnings"]
        assert "betas" in headers["x-llmstream-warnings"]
        assert headers["x-llmstream-model"] == "openai-responses:sim"
        assert b"context_management" not in simulator.requests[0].http.body


@pytest.mark.parametrize("vendor", ["openai-chat", "gemini"])
async def test_headers_that_are_sent_on(vendor: str) -> None:
    """Neither where a request came from, nor what is of the client's vendor alone; on both lanes."""
    asked = whole("openai-chat")
    headers = {
        **asked.headers,
        "openai-beta": "x=v1",
        "x-custom": "kept",
        "x-forwarded-for": "10.0.0.1",
        "x-llmstream-tag": "research",
        "x-stainless-lang": "python",
        "openai-organization": "theirs",
        "origin": "http://localhost",
    }
    async with gateway_before(vendor) as (url, simulator):
        status, _, _ = await post(url, msgspec.structs.replace(asked, headers=headers))
        assert status == 200
        found = simulator.requests[0].http.headers
    assert found["x-custom"] == "kept"
    assert not {"x-forwarded-for", "x-llmstream-tag", "openai-organization", "origin"} & set(found)
    assert ("x-stainless-lang" in found, "openai-beta" in found) == (vendor == "openai-chat",) * 2


async def test_falls_back_before_content() -> None:
    refusing = [Turn(fault=Refuse(status=503, message="down"))]
    async with Simulator(script_of(refusing)) as first, Simulator(script_of([Turn(text="second")])) as second:
        gateway = Gateway({"sim": [model_at(first.url, "anthropic"), model_at(second.url, "gemini")]})
        async with serving(gateway) as url:
            assert (await model_at(url, "openai-chat").ask("Hello")).text == "second"
            assert len(first.requests) == len(second.requests) == 1


async def test_left_client_closes_the_vendor() -> None:
    script = [Turn(text="one two three four", fault=Stall(after_events=3, stall_s=None))]
    async with gateway_before("anthropic", script) as (url, simulator):
        async with model_at(url, "openai-chat").stream("Hello") as stream:
            async for _ in stream.text_deltas():
                break
        async with asyncio.timeout(30):
            await simulator.requests[0].done.wait()
        assert simulator.requests[0].disconnected


async def test_unknown_names_and_paths() -> None:
    async with Simulator() as simulator, serving(Gateway({"a": model_at(simulator.url, "ollama")})) as url:
        with pytest.raises(ls.NotFound, match=r"no model 'sim'\. It has: a"):
            await model_at(url, "anthropic").ask("Hello")
        status, _, body = await post(url, HttpRequest("/nothing", b"{}"))
        assert status == 404
        assert b"no path POST /nothing" in body
        assert simulator.requests == []


async def test_keys_of_vendors_stay_inside() -> None:
    """A refused key is the operator's affair: the client learns neither the key nor that its own is wrong."""
    async with Simulator(api_keys=["right"]) as simulator:
        gateway = Gateway({"*": model_at(simulator.url, "openai-chat", api_key="wrong-key-of-ours")})
        async with serving(gateway) as url:
            status, _, body = await post(url, whole("anthropic"))
            assert status == 502
            assert b"wrong-key" not in body
            assert b"could not sign in" in body


@pytest.mark.parametrize("client", WIRES)
async def test_a_vendors_404_names_no_address(client: str) -> None:
    """Its message reaches the client; where the vendor is does not."""
    refusing = [Turn(fault=Refuse(status=404, message="model gone"))]
    for vendor in ("openai-chat", "anthropic"):
        async with gateway_before(vendor, refusing) as (url, simulator):
            for http in (whole(client), request_of(client)):
                status, headers, body = await post(url, http)
                assert (status, headers["x-llmstream-error"]) == (404, "not-found")
                assert b"model gone" in body
                assert simulator.url.removeprefix("http://").encode() not in body
                assert b"The request was" not in body


async def test_bodies_have_a_limit() -> None:
    async with gateway_before("ollama", max_body_bytes=1000) as (url, simulator):
        status, _, body = await post(
            url, HttpRequest("/v1/messages", b"x" * 2000, {"anthropic-version": "1"})
        )
        assert (status, msgspec.json.decode(body)["type"]) == (413, "error")
        assert simulator.requests == []


@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        (
            "/v1/messages/count_tokens",
            {"model": "sim", "messages": [{"role": "user", "content": "Hi"}]},
            "input_tokens",
        ),
        (
            "/v1beta/models/sim:countTokens",
            {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
            "totalTokens",
        ),
        ("/v1/responses/input_tokens", {"model": "sim", "input": "Hi"}, "input_tokens"),
    ],
)
async def test_counts_tokens_on_any_vendor(path: str, body: dict[str, object], found: str) -> None:
    for vendor in ("anthropic", "openai-chat", "ollama"):
        async with gateway_before(vendor) as (url, _):
            status, _, page = await post(url, HttpRequest(path, msgspec.json.encode(body)))
            assert status == 200, page
            assert msgspec.json.decode(page)[found] > 0


async def test_lists_its_names() -> None:
    gateway = Gateway({"fast": "sim:demo", "gpt-*": "openai:*"})
    body = await gateway.answer(HttpRequest("/v1/models", method="GET"))
    page = msgspec.json.decode(b"".join([chunk async for chunk in body]))
    assert [model["id"] for model in page["data"]] == ["fast"]


async def test_answers_without_a_server() -> None:
    gateway = Gateway({"sim": "sim:demo"})
    body = await gateway.answer(whole("anthropic"))
    assert body.status == 200
    page = msgspec.json.decode(b"".join([chunk async for chunk in body]))
    assert page["content"][0]["text"].startswith("You said: Hello")
