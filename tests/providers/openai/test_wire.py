"""Which wire a request to OpenAI or Azure takes, where none was asked for."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.chats.content import Audio
from llmstream.errors import Unsupported
from llmstream.providers.registry import all_providers
from llmstream.request import ToolSpec

TOOLS = [ToolSpec("look", "Looks.", {"type": "object", "properties": {}})]


async def asked(monkeypatch, spec, prompt="Hi", *, base_url=None, **options):
    """Path of the first attempt, its body, and the warnings."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)
    model = ls.Model(spec, base_url=base_url, api_key="k")
    call = model.call(model.request(prompt, **options))
    prepared = await call._plan.prepare()
    path = prepared.http.url.partition("?")[0].partition("/v1")[2]
    return path, prepared.http.json(), prepared.encoded.warnings


@pytest.mark.parametrize(
    ("model", "options", "path"),
    [
        ("gpt-6-astra", {"tools": TOOLS}, "/responses"),
        ("gpt-6-astra", {}, "/chat/completions"),
        ("gpt-5.6", {"tools": TOOLS}, "/responses"),
        ("gpt-5.6", {"tools": TOOLS, "reasoning": "none"}, "/chat/completions"),
        ("gpt-5.4", {"tools": TOOLS}, "/chat/completions"),
        ("gpt-5.4", {"tools": TOOLS, "reasoning": "high"}, "/responses"),
        ("gpt-5.2", {"tools": TOOLS, "reasoning": "high"}, "/chat/completions"),
        ("gpt-4.1", {"tools": TOOLS}, "/chat/completions"),
        ("gpt-5-pro", {}, "/responses"),
        ("gpt-8-word", {"tools": TOOLS}, "/responses"),
    ],
)
async def test_openai_picks_a_wire_by_request(monkeypatch, model, options, path):
    found, _, warnings = await asked(monkeypatch, f"openai:{model}", **options)
    assert found == path
    said = [w.message for w in warnings if "sent to the Responses API" in getattr(w, "message", "")]
    assert len(said) == (path == "/responses")


async def test_a_wire_that_was_named_is_kept(monkeypatch):
    path, body, warnings = await asked(monkeypatch, "openai-chat:gpt-5.6", tools=TOOLS)
    assert (path, body["reasoning_effort"]) == ("/chat/completions", "none")
    assert "openai-responses:gpt-5.6" in warnings[0].details
    with pytest.raises(Unsupported, match="openai-responses:gpt-6-astra"):
        await asked(monkeypatch, "openai-chat:gpt-6-astra", tools=TOOLS)
    with pytest.raises(Unsupported, match="openai-responses:gpt-5-codex"):
        await asked(monkeypatch, "openai-chat:gpt-5-codex")


async def test_another_server_is_asked_as_it_is(monkeypatch):
    elsewhere = "http://localhost:4000/v1"
    path, body, warnings = await asked(monkeypatch, "openai:gpt-6-astra", base_url=elsewhere, tools=TOOLS)
    assert (path, "reasoning_effort" in body, warnings) == ("/chat/completions", False, [])
    assert body["tools"][0]["function"]["name"] == "look"


async def test_what_only_chat_takes_stays_there(monkeypatch):
    options = {"openai": {"logit_bias": {"1": 2}}}
    path, body, _ = await asked(monkeypatch, "openai:gpt-5.6", tools=TOOLS, provider_options=options)
    assert (path, body["reasoning_effort"]) == ("/chat/completions", "none")
    spoken = ls.Message.user("Hi", Audio(data=b"x", media_type="audio/wav"))
    path, _, _ = await asked(monkeypatch, "openai:gpt-5.6", spoken, tools=TOOLS)
    assert path == "/chat/completions"


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("https://res.openai.azure.com", "/responses"),
        ("https://res.openai.azure.com/openai/v1", "/responses"),
        ("https://res.openai.azure.com/openai/deployments/gpt-5.6?api-version=2025-01-01", ""),
    ],
)
async def test_azure_has_responses_below_v1_only(monkeypatch, base_url, path):
    found, body, _ = await asked(monkeypatch, "azure:gpt-5.6", base_url=base_url, tools=TOOLS)
    assert found == path
    assert ("messages" in body) == (path == "")


async def test_a_regional_host_is_openais_too(monkeypatch):
    eu = "https://eu.api.openai.com/v1"
    path, _, _ = await asked(monkeypatch, "openai:gpt-6-astra", base_url=eu, tools=TOOLS)
    assert path == "/responses"


@pytest.mark.parametrize("base_url", [None, "http://localhost:4000/v1"])
async def test_responses_stay_at_every_address(monkeypatch, base_url):
    path, _, warnings = await asked(
        monkeypatch, "openai-responses:gpt-6-astra", base_url=base_url, tools=TOOLS
    )
    assert (path, warnings) == ("/responses", [])


def test_only_azure_and_openai_choose_a_wire():
    assert [provider.name for provider in all_providers() if provider.wire] == ["azure", "openai"]
