"""What a resource on Azure is sent, over a socket: both forms of URL, keys, and tokens of Entra."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.errors import AuthenticationError
from llmstream.events import TextDelta

RECORDINGS = Path(__file__).parents[2] / "dialects"
CHAT = (RECORDINGS / "openai_chat" / "recordings" / "azure.sse").read_bytes()
RESPONSES = (RECORDINGS / "openai_responses" / "recordings" / "text.sse").read_bytes()
DATED = "2024-10-21"


def token(name: str) -> str:
    """A token in the form that Entra gives."""
    return f"eyJhbGciOiJSUzI1NiJ9.{name}.c2lnbmF0dXJl"


class Resource:
    """Answers with a recording, or refuses tokens that grew old, and notes what came."""

    def __init__(self, body: bytes, *refused: str) -> None:
        self.body = body
        self.refused = refused
        self.seen: list[tuple[str, dict[str, str]]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        names = ("api-key", "authorization")
        carried = {name: request.headers[name] for name in names if name in request.headers}
        self.seen.append((request.raw_path, carried))
        self.sent: dict[str, Any] = await request.json()
        if carried.get("authorization", "").removeprefix("Bearer ") in self.refused:
            error = {"code": "401", "message": "Access token is missing, invalid or expired."}
            return web.json_response({"error": error}, status=401)
        return web.Response(body=self.body, content_type="text/event-stream")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_AD_TOKEN"):
        monkeypatch.delenv(name, raising=False)


async def said(model: ls.Model) -> str:
    return "".join([event.delta async for event in model.events("Hi") if isinstance(event, TextDelta)])


@pytest.mark.parametrize(
    ("provider", "body", "tail", "version", "path"),
    [
        ("azure", CHAT, "", None, "/openai/v1/chat/completions"),
        ("azure", CHAT, "/openai/v1", DATED, "/openai/v1/chat/completions"),
        ("azure", CHAT, "", "preview", "/openai/v1/chat/completions?api-version=preview"),
        ("azure", CHAT, "", DATED, f"/openai/deployments/my%20gpt/chat/completions?api-version={DATED}"),
        (
            "azure",
            CHAT,
            f"/openai/deployments/my%20gpt?api-version={DATED}",
            None,
            f"/openai/deployments/my%20gpt/chat/completions?api-version={DATED}",
        ),
        ("azure-responses", RESPONSES, "", None, "/openai/v1/responses"),
        ("azure-responses", RESPONSES, "", "preview", "/openai/v1/responses?api-version=preview"),
    ],
)
async def test_both_url_forms_reach_the_deployment(
    serve: Any, monkeypatch: Any, provider: str, body: bytes, tail: str, version: str | None, path: str
) -> None:
    resource = Resource(body)
    if version:
        monkeypatch.setenv("OPENAI_API_VERSION", version)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", await serve(resource.answer) + tail)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-of-the-resource")
    assert await said(ls.Model(f"{provider}:my gpt"))
    assert resource.seen == [(path, {"api-key": "key-of-the-resource"})]
    assert (resource.sent["model"], resource.sent["stream"]) == ("my gpt", True)


def plain(name: str) -> Callable[[], Any]:
    return lambda: token(name)


def awaited(name: str) -> Callable[[], Any]:
    async def give() -> str:
        return token(name)

    return give


@pytest.mark.parametrize("provider", ["azure", "azure-responses"])
@pytest.mark.parametrize("give", [plain, awaited])
async def test_a_function_gives_the_token_of_entra(serve: Any, provider: str, give: Any) -> None:
    resource = Resource(CHAT if provider == "azure" else RESPONSES)
    model = ls.Model(f"{provider}:gpt", base_url=await serve(resource.answer), api_key=give("one"))
    assert await said(model)
    assert [carried for _, carried in resource.seen] == [{"authorization": f"Bearer {token('one')}"}]


async def test_expired_token_is_requested_again(serve: Any) -> None:
    resource = Resource(CHAT, token("old"))
    tokens = iter([token("old"), token("new")])
    model = ls.Model("azure:gpt", base_url=await serve(resource.answer), api_key=lambda: next(tokens))
    assert await said(model)
    assert [carried["authorization"] for _, carried in resource.seen] == [
        f"Bearer {token('old')}",
        f"Bearer {token('new')}",
    ]


async def test_refusal_gives_advice_and_no_token(serve: Any, monkeypatch: Any) -> None:
    resource = Resource(CHAT, token("old"))
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", token("old"))
    model = ls.Model("azure:gpt", base_url=await serve(resource.answer))
    with pytest.raises(AuthenticationError, match="AZURE_OPENAI_AD_TOKEN") as caught:
        await said(model)
    assert len(resource.seen) == 1
    assert "eyJ" not in str(caught.value)
