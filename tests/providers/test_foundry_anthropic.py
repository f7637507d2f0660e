"""Claude in Foundry: a resource, and a key or an Entra token."""

from __future__ import annotations

import pytest

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.foundry_anthropic import FOUNDRY_ANTHROPIC

HTTP = HttpRequest("/v1/messages")
TOKEN = "eyJhbGciOi.eyJhdWQiOi.c2lnbmF0dXJl"


def prepared(**env):
    return FOUNDRY_ANTHROPIC.prepare(HTTP, model="my-claude", env=env)


def test_the_resource_makes_the_address():
    http = prepared(ANTHROPIC_FOUNDRY_RESOURCE="res", ANTHROPIC_FOUNDRY_API_KEY="k")
    assert http.url == "https://res.services.ai.azure.com/anthropic/v1/messages"
    assert http.headers == {"x-api-key": "k"}
    with pytest.raises(InvalidRequest, match="ANTHROPIC_FOUNDRY_RESOURCE or AZURE_RESOURCE_NAME"):
        prepared(ANTHROPIC_FOUNDRY_API_KEY="k")


def test_version_in_the_address_is_optional():
    for address in ("https://res.example/anthropic/", "https://res.example/anthropic/v1"):
        http = prepared(ANTHROPIC_FOUNDRY_BASE_URL=address, ANTHROPIC_FOUNDRY_API_KEY="k")
        assert http.url == "https://res.example/anthropic/v1/messages"


def test_an_entra_token_travels_as_bearer():
    for name in ("AZURE_AD_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY"):
        http = prepared(ANTHROPIC_FOUNDRY_RESOURCE="res", **{name: TOKEN})
        assert http.headers == {"authorization": f"Bearer {TOKEN}"}
