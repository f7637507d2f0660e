"""Whether a model is there, what it can do, and how many tokens a prompt has: what the vendor tells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import unquote

import msgspec
import pytest
from aiohttp import web

import llmstream as ls
from llmstream.chats import Image, ToolCall, ToolResult
from llmstream.dialects.model_facts import ListedModel
from llmstream.providers.base import Provider
from llmstream.providers.registry import find_provider
from llmstream.providers.sim import SimProvider
from llmstream.simulator import Simulator
from llmstream.streams.lookups import list_models

LISTED = ["sim", "sim-cohere", "sim-gemini", "sim-gemini-interactions", "sim-mistral", "sim-ollama"]
LISTED += ["sim-anthropic", "sim-openai-responses"]
COUNTED = ["sim-anthropic", "sim-gemini", "sim-openai-responses"]
ESTIMATED = ["sim", "sim-bedrock", "sim-cohere", "sim-gemini-interactions", "sim-mistral", "sim-ollama"]


@pytest.fixture
async def server() -> AsyncIterator[Simulator]:
    async with Simulator(models=("small-1", "large-1"), api_keys=["right"]) as simulator:
        yield simulator


def at(server: Simulator, name: str, model: str = "small-1", key: str = "right") -> ls.Model:
    sim = find_provider(name)
    assert isinstance(sim, SimProvider)
    path = "/mistral" if name == "sim-mistral" else sim.path
    provider = Provider(name=name, dialect=sim.dialect, base_url=server.url + path)
    return ls.Model(f"{name}:{model}", provider=provider, api_key=key)


@pytest.mark.parametrize("name", LISTED)
async def test_model_the_vendor_has_is_known(server, name) -> None:
    found = await at(server, name).check()
    assert found == ls.ModelCheck(provider=name, model="small-1", reachable=True, known=True)


@pytest.mark.parametrize("name", ["sim", "sim-mistral", "sim-ollama", "sim-openai-responses"])
async def test_unknown_model_lists_similar_ones(server, name) -> None:
    found = await at(server, name, "smal-1").check()
    assert found.known is False
    assert found.similar[0] == "small-1"


async def test_model_without_page_is_found_on_list(serve) -> None:
    async def vendor(request: web.Request) -> web.Response:
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "claude-opus-5-5"}]})
        return web.json_response({"type": "error", "error": {"type": "not_found_error"}}, status=404)

    found = await ls.Model("anthropic:claude-opus-55", base_url=await serve(vendor), api_key="k").check()
    assert (found.known, found.similar) == (False, ("claude-opus-5-5",))


@pytest.mark.parametrize("name", LISTED)
async def test_refused_key_or_no_server_is_error(server, name, unused_tcp_port) -> None:
    with pytest.raises(ls.AuthenticationError) as refused:
        await at(server, name, key="wrong-secret").check()
    assert "wrong-secret" not in str(refused.value)
    gone = at(server, name)
    gone.base_url = f"http://127.0.0.1:{unused_tcp_port}"
    with pytest.raises(ls.ConnectionFailed):
        await gone.check()


async def test_echoed_key_is_masked_everywhere(serve) -> None:
    """In the vendor's details, code and parameter too, as in the errors of a stream."""
    error = {"message": "No sk-secret-1", "code": "sk-secret-1", "param": "sk-secret-1", "type": "invalid"}

    async def vendor(request: web.Request) -> web.Response:
        return web.json_response({"error": error}, status=401, headers={"x-request-id": "sk-secret-1"})

    with pytest.raises(ls.errors.AuthenticationError) as caught:
        await list_models(ls.Model("openai:x", base_url=await serve(vendor), api_key="sk-secret-1"))
    assert "sk-secret-1" not in f"{caught.value!r} {caught.value.info!r}"
    assert caught.value.info.details is not None


async def test_vendor_without_list_is_unknown(server, serve) -> None:
    assert (await at(server, "sim-bedrock").check()).reachable is None

    async def nothing(request: web.Request) -> web.Response:
        return web.Response(status=404)

    for name in ("openai-chat", "anthropic"):
        found = await ls.Model(f"{name}:x", base_url=await serve(nothing), api_key="k").check()
        assert (found.reachable, found.known) == (True, None)


async def test_without_a_key_nothing_is_asked(monkeypatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(ls.MissingKey):
        await ls.Model("groq:x").check()


@pytest.mark.parametrize("name", LISTED)
async def test_models_of_a_vendor_are_listed(server, name) -> None:
    found = await list_models(at(server, name))
    assert [model.name for model in found or ()] == ["small-1", "large-1"]


@pytest.mark.parametrize(
    ("pages", "query"),
    [
        (({"data": [{"id": "a"}], "has_more": True, "last_id": "a"}, {"data": [{"id": "b"}]}), "after_id=a"),
        (
            ({"models": [{"name": "models/a"}], "nextPageToken": "t/1"}, {"models": [{"name": "b"}]}),
            "pageToken=t/1",
        ),
    ],
)
async def test_all_pages_of_a_list_are_read(serve, pages, query) -> None:
    asked = []

    async def vendor(request: web.Request) -> web.Response:
        asked.append(request.query_string)
        return web.json_response(pages[len(asked) - 1])

    found = await list_models(ls.Model("anthropic:x", base_url=await serve(vendor), api_key="k"))
    assert [model.name for model in found or ()] == ["a", "b"]
    assert [unquote(one) for one in asked] == ["", query]


async def test_listed_facts_are_read(serve) -> None:
    """Sizes and prices, from an object or an array, whatever the rest of an entry is."""
    prices = {"prompt": "0.0000025", "completion": "0.00001"}
    entries = [
        {"id": "a", "context_length": 128_000, "pricing": prices, "top": None},
        {"id": "b", "context_window": "many", "pricing": {"prompt": "-1"}},
        {"nothing": 1},
        "text",
    ]

    async def vendor(request: web.Request) -> web.Response:
        return web.json_response(entries)

    found = await list_models(ls.Model("openai:x", base_url=await serve(vendor), api_key="k"))
    assert found == [
        ListedModel(name="a", context_tokens=128_000, input_usd=2.5, output_usd=10.0),
        ListedModel(name="b"),
    ]


async def test_vendor_without_list_lists_nothing(server) -> None:
    assert await list_models(at(server, "sim-bedrock")) is None


@pytest.mark.parametrize("name", COUNTED)
async def test_vendor_counts_what_it_would_charge(server, name) -> None:
    def look(city: str) -> str:
        """Look at a city."""
        return city

    options = {"instructions": "Be brief.", "tools": [look], "temperature": 1, "max_output_tokens": 50}
    count = await at(server, name).count_tokens("How warm is it in Oslo?", **options)
    stream = at(server, name).stream("How warm is it in Oslo?", **options)
    await stream.collect()
    assert count == ls.TokenCount(stream.usage.input_tokens, estimated=False)
    asked = server.requests[0]
    assert "count" in asked.http.url.lower() or "input_tokens" in asked.http.url
    body = asked.http.json()
    assert not {"stream", "max_tokens", "max_output_tokens", "temperature", "store"} & body.keys()
    assert at(server, name).capabilities.counts_tokens


@pytest.mark.parametrize("name", ESTIMATED)
async def test_other_counts_are_marked_estimates(server, name) -> None:
    calls = ls.Message.assistant(ToolCall("c1", "look", '{"at":1}'))
    results = ls.Message.tool([ToolResult("c1", "x" * 400, name="look")])
    prompt = [ls.Message.user("y" * 40, Image(url="https://example.org/a.png")), calls, results]
    count = await at(server, name).count_tokens(prompt)
    assert count == ls.TokenCount(10 + 3 + 100 + 1_000, estimated=True)
    assert server.requests == []
    assert not at(server, name).capabilities.counts_tokens


async def test_openai_counts_or_is_estimated(server, serve) -> None:
    """The Responses API counts; a server without it is estimated."""
    count = await ls.Model("openai:m", base_url=f"{server.url}/v1", api_key="right").count_tokens("Hello")
    assert (count.estimated, server.requests[0].http.url) == (False, "/v1/responses/input_tokens")

    async def nothing(request: web.Request) -> web.Response:
        return web.Response(status=404)

    count = await ls.Model("openai:m", base_url=await serve(nothing), api_key="k").count_tokens("Hello")
    assert count == ls.TokenCount(2, estimated=True)


async def test_google_counts_the_actual_request(server) -> None:
    await at(server, "sim-gemini").count_tokens("Hello", instructions="Be brief.")
    body = server.requests[0].http.json()
    assert set(body) == {"generateContentRequest"}
    assert body["generateContentRequest"]["model"] == "models/small-1"
    assert "systemInstruction" in body["generateContentRequest"]


async def test_wrong_prompt_refused_before_count(server) -> None:
    with pytest.raises(ls.InvalidRequest):
        await at(server, "sim").count_tokens("Hi", temprature=1)


def test_capabilities_from_tables_and_wire() -> None:
    gpt = ls.Model("openai-responses:gpt-5-mini").capabilities
    assert (gpt.reasoning, gpt.efforts) == (True, ("minimal", "low", "medium", "high"))
    assert (gpt.context_tokens, gpt.max_output_tokens) == (272_000, 128_000)
    assert gpt.schemas
    assert gpt.forced_tools
    assert gpt.stored_answers
    claude = ls.Model("anthropic:claude-opus-5-5").capabilities
    assert claude.efforts == ("low", "medium", "high", "xhigh", "max")
    assert not claude.forced_tools
    assert claude.context_tokens == 1_000_000
    assert not ls.Model("vertex-anthropic:claude-opus-5-5").capabilities.counts_tokens
    assert ls.Model("anthropic:claude-sonnet-4-5").capabilities.prefix
    assert ls.Model("google:gemini-3-pro").capabilities.efforts == ("low", "high")
    assert ls.Model("mistral:mistral-large-4-0").capabilities.context_tokens == 1_048_576
    assert not ls.Model("ollama:llama3.2").capabilities.forced_tools
    assert ls.Model("openai-chat:gpt-4.1").capabilities.efforts == ()
    unknown = ls.Model("openai-chat:house-model").capabilities
    assert (unknown.reasoning, unknown.efforts, unknown.context_tokens) == (None, None, None)
    assert msgspec.json.encode(unknown)  # plain data
