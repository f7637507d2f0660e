"""What each provider is sent, whole: address, credentials and body, through the real client."""

from __future__ import annotations

import json
import re

import pytest
from yarl import URL

import llmstream as ls
from llmstream.events import Event
from llmstream.grammar import check
from llmstream.providers.base import Provider
from llmstream.providers.registry import all_providers
from llmstream.server_side.wires import server_side

KEY = "key-0123456789"
REGION = "eu-west-1"
SAID: list[Event] = [ls.StreamStart(), ls.TextStart("0"), ls.TextDelta("Hello", "0"), ls.TextEnd("0")]

PROVIDERS = [p for p in all_providers() if not p.name.startswith("sim")]


def body_of(provider: Provider, model: ls.Model) -> bytes:
    """How this vendor would say "Hello"."""
    encoder = server_side(provider.dialect).event_encoder(model.request("Hi"))
    events = [*SAID, ls.Finish("stop", ls.Usage(1, 1, 2))]
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch) -> None:
    for provider in PROVIDERS:
        for name in (*provider.key_env, *provider.token_env, *provider.base_url_env):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("ANTHROPIC_AWS_WORKSPACE_ID", "wrkspc_1")
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "p1")


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
async def test_stream_reaches_vendor_and_returns(vendors, provider) -> None:
    placed = {"{account}", "{resource}"} & set(re.findall(r"\{\w+\}", provider.base_url))
    base_url = "https://vendor.example/v1" if placed or not provider.base_url else None
    model = ls.Model(f"{provider.name}:some-model", base_url=base_url, api_key=KEY)
    sent = []
    vendors.post(
        re.compile(".*"),
        status=200,
        body=body_of(provider, model),
        content_type=provider.dialect.content_type,
        callback=lambda url, **kwargs: sent.append((url, kwargs)),
    )
    events = [event async for event in model.events("Hi")]
    assert check(events) == []
    assert "".join(e.delta for e in events if isinstance(e, ls.TextDelta)) == "Hello"
    ((url, request),) = sent
    address = URL((base_url or provider.address(None)).replace("{region}", REGION))
    assert (url.scheme, url.host) == (address.scheme, address.host)
    assert sum(KEY in value for value in request["headers"].values()) == 1
    assert b"Hi" in request["data"]
    assert KEY.encode() not in request["data"]
    assert "some-model" in str(url) or json.loads(request["data"])["model"] == "some-model"
