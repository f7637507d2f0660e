"""Which endpoint of Bedrock a request goes to, and what it is signed for."""

from __future__ import annotations

import importlib.util

import pytest

from llmstream.exchange import HttpRequest
from llmstream.providers.bedrock_messages import BEDROCK_MESSAGES
from llmstream.providers.bedrock_openai import BEDROCK_OPENAI
from llmstream.providers.bedrock_responses import BEDROCK_RESPONSES

ENV = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
MANTLE = "https://bedrock-mantle.{region}.api.aws"
RUNTIME = "https://bedrock-runtime.{region}.amazonaws.com"


@pytest.mark.skipif(importlib.util.find_spec("botocore") is None, reason="botocore is not installed")
@pytest.mark.parametrize(
    ("provider", "base_url", "url", "service"),
    [
        (BEDROCK_MESSAGES, None, f"{MANTLE}/anthropic/x", "bedrock-mantle"),
        (BEDROCK_MESSAGES, f"{RUNTIME}/anthropic", f"{RUNTIME}/anthropic/x", "bedrock"),
        (BEDROCK_OPENAI, None, f"{RUNTIME}/openai/v1/x", "bedrock"),
        (BEDROCK_OPENAI, RUNTIME, f"{RUNTIME}/openai/v1/x", "bedrock"),
        (BEDROCK_RESPONSES, None, f"{RUNTIME}/openai/v1/x", "bedrock"),
        (BEDROCK_RESPONSES, f"{MANTLE}/v1", f"{MANTLE}/v1/x", "bedrock-mantle"),
    ],
)
def test_request_is_signed_for_its_endpoint(provider, base_url, url, service):
    http = provider.prepare(HttpRequest("/x", b"{}"), model="m", base_url=base_url, env=ENV)
    assert http.url == url.replace("{region}", "eu-west-1")
    assert f"/eu-west-1/{service}/aws4_request" in http.headers["authorization"]


@pytest.mark.parametrize("provider", [BEDROCK_MESSAGES, BEDROCK_OPENAI, BEDROCK_RESPONSES])
def test_a_key_makes_signing_needless(provider):
    http = provider.prepare(
        HttpRequest("/x"), model="m", env={"AWS_BEARER_TOKEN_BEDROCK": "k", "HOME": "/nowhere"}
    )
    assert http.headers == {"authorization": "Bearer k"}
    assert ".us-east-1." in http.url
