"""Who is let in, and what is kept of what they bring."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

import llmstream as ls
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.errors import AuthenticationError, InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.registry import all_providers
from llmstream.simulator import Simulator
from llmstream.simulator.admission import check_bind, check_key, is_known_path, masked


def test_only_loopback_is_bound_unless_told() -> None:
    check_bind("::1", allow_remote=False)
    check_bind("0.0.0.0", allow_remote=True)
    for host in ("0.0.0.0", "192.168.0.2", "example.org"):
        with pytest.raises(InvalidRequest, match="allow_remote"):
            check_bind(host, allow_remote=False)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer k"},
        {"authorization": "AWS4-HMAC-SHA256 Credential=k/20260131/eu-north-1/bedrock/aws4_request, Sig=s"},
        {"x-api-key": "k"},
        {"api-key": "k"},
        {"x-goog-api-key": "k"},
    ],
)
def test_key_is_read_from_any_vendor_header(headers: dict[str, str]) -> None:
    check_key(headers, {"k", "l"})
    with pytest.raises(AuthenticationError, match="not valid"):
        check_key(headers, {"other"})


def test_missing_key_fails_unless_optional() -> None:
    check_key({}, None)
    with pytest.raises(AuthenticationError, match="no API key"):
        check_key({"authorization": "Basic k"}, {"k"})


def test_a_key_of_any_bytes_is_no_key() -> None:
    with pytest.raises(AuthenticationError, match="not valid"):
        check_key({"x-api-key": "\udcff"}, {"k"})


def test_secrets_are_masked() -> None:
    http = masked(
        HttpRequest("/x?a=1&key=secret", b"", {"authorization": "Bearer secret", "x-api-key": "secret"})
    )
    assert "secret" not in http.url + str(http.headers)
    assert "a=1" in http.url


WITHOUT_VERSION = {"copilot", "copilot-responses", "deepseek", "deepseek-responses", "litellm"}
"""Their paths are what is wrong at OpenAI; at the simulator their address ends in `/v1` too."""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/some/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/messages/v1/messages", "/v1/messages"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/responses", "/v1/responses"),
        ("/models/m:streamGenerateContent", "/v1beta/models/MODEL:streamGenerateContent"),
        ("/v1beta/v1beta/models/m:generateContent", "/v1beta/models/MODEL:streamGenerateContent"),
        ("/v2/v2/chat", "/v2/chat"),
        ("/api/api/chat", "/api/chat"),
        ("/interactions", "/v1beta/interactions"),
        ("/v1/model/m/converse", "/model/MODEL/converse-stream"),
        ("/v1/completions", "Invalid URL"),
        ("/v1/embeddings", "Invalid URL"),
    ],
)
async def test_wrong_paths_are_not_found(session: aiohttp.ClientSession, path: str, message: str) -> None:
    async with (
        Simulator(strict_paths=True) as simulator,
        session.post(simulator.url + path, json={}) as response,
    ):
        body = await response.text()
        assert (response.status, message in body, f"Invalid URL (POST {path})" in body) == (404, True, True)
    assert simulator.requests[0].dialect == ""


@pytest.mark.parametrize(
    "path", ["/models", "/v1/v1/models", "/messages/count_tokens", "/responses/input_tokens"]
)
async def test_wrong_lookup_paths_are_not_found(session: aiohttp.ClientSession, path: str) -> None:
    method = "GET" if path.endswith("models") else "POST"
    async with (
        Simulator(strict_paths=True) as simulator,
        session.request(method, simulator.url + path, json={}) as response,
    ):
        assert response.status == 404


async def test_the_error_is_the_vendors_own(session: aiohttp.ClientSession) -> None:
    async with Simulator(strict_paths=True) as simulator:
        async with session.post(simulator.url + "/v1/v1/messages", json={}) as response:
            told = await response.json()
            assert (told["type"], told["error"]["type"]) == ("error", "not_found_error")
        async with session.post(simulator.url + "/chat/completions", json={}) as response:
            assert (await response.json())["error"]["message"].startswith("Invalid URL (POST /chat")


OPENAI_TELLS = {"type": "invalid_request_error", "param": None, "code": None}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/foo", lambda body: {k: v for k, v in body["error"].items() if k != "message"} == OPENAI_TELLS),
        ("/responses", lambda body: {**OPENAI_TELLS, "message": body["error"]["message"]} == body["error"]),
        ("/v1/v1/messages", lambda body: body["error"].keys() == {"type", "message"}),
        ("/models/m:generateContent", lambda body: body["error"].keys() == {"code", "message", "status"}),
        ("/mistral/v1/v1/chat/completions", lambda body: body.keys() == {"message", "request_id"}),
        ("/v2/v2/chat", lambda body: body.keys() == {"message", "id"}),
        ("/api/api/chat", lambda body: body.keys() == {"error"}),
    ],
)
async def test_vendors_word_a_wrong_path(session: aiohttp.ClientSession, path: str, told) -> None:
    async with (
        Simulator(strict_paths=True) as simulator,
        session.post(simulator.url + path, json={}) as response,
    ):
        assert told(await response.json(content_type=None)), await response.text()


async def test_aws_knows_no_such_operation(session: aiohttp.ClientSession) -> None:
    async with (
        Simulator(strict_paths=True) as simulator,
        session.post(simulator.url + "/v1/model/m/converse", json={}) as response,
    ):
        assert response.headers["x-amzn-errortype"] == "UnknownOperationException"


async def test_a_socket_at_a_wrong_path(session: aiohttp.ClientSession) -> None:
    async with Simulator(strict_paths=True) as simulator:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(simulator.url + "/responses")
        async with session.ws_connect(simulator.url + "/v1/responses"):
            pass
    assert caught.value.status == 404
    assert [received.dialect for received in simulator.requests] == ["", "openai-responses"]


async def test_a_model_learns_of_its_wrong_address() -> None:
    async with Simulator(strict_paths=True) as simulator:
        model = ls.Model("openai:m", base_url=simulator.url, api_key="k", retry=ls.Retry(max_retries=0))
        with pytest.raises(ls.NotFound, match="Invalid URL"):
            await model.stream("Hi").collect()


async def test_any_prefix_where_it_is_wanted(session: aiohttp.ClientSession) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    for simulator in (Simulator(), Simulator(dialects=[OpenAIChat()])):
        async with simulator, session.post(simulator.url + "/my/chat/completions", json=asked) as response:
            assert response.status == 200
    strict = Simulator(dialects=[OpenAIChat()], strict_paths=True)
    async with strict, session.post(strict.url + "/my/chat/completions", json=asked) as response:
        assert response.status == 404


@pytest.mark.parametrize("provider", list(all_providers()), ids=lambda provider: provider.name)
def test_paths_of_every_provider_are_known(provider) -> None:
    """A model of any provider finds the simulator below the path of its own address."""
    host, _, below = provider.base_url.partition("://")[2].partition("/")
    if not host or host == "127.0.0.1" or provider.name in WITHOUT_VERSION:
        pytest.skip("has no address of its own, or one without a version")
    request = ls.Request(model="m", messages=(ls.Message.user("Hi"),))
    path = provider.dialect.encode(request, provider=provider.name).http.url
    assert is_known_path((f"/{below}" if below else "") + path), below + path


@pytest.mark.parametrize(
    "path",
    [
        "/openai/deployments/d/chat/completions?api-version=2024-10-21",
        "/openai/v1/responses/resp_1/cancel",
        "/v1/responses/input_tokens",
        "/v1beta/models/m:countTokens",
        "/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
        "/v1beta1/publishers/google/models/m:streamGenerateContent?alt=sse",
        "/model/arn%3Aaws%3Abedrock%2Fm/count-tokens",
        "/mistral/v1/models",
        "/openai-chat/v1/chat/completions",
        "/api/tags",
        "/",
    ],
)
def test_paths_of_other_clients_are_known(path: str) -> None:
    assert is_known_path(path)
