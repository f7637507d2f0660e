"""A request to Bedrock as it is sent, with either kind of credentials."""

from __future__ import annotations

import importlib.util

import pytest

import llmstream as ls
from llmstream.chats.message import Message
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.errors import LLMStreamError
from llmstream.events import Finish, TextDelta, TextEnd, TextStart
from llmstream.providers.bedrock import BEDROCK
from llmstream.request import Request
from llmstream.server_side.wires import server_side

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
REQUEST = Request(model=MODEL, messages=(Message.user("Hi"),))
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s"}


def prepared(env, **fields):
    http = BEDROCK.dialect.encode(REQUEST, provider="bedrock").http
    return BEDROCK.prepare(http, model=MODEL, env=env, **fields)


def test_a_bearer_key_needs_no_signature():
    http = prepared({"AWS_BEARER_TOKEN_BEDROCK": "k", **KEYS, "AWS_REGION": "eu-west-1"})
    assert http.headers["authorization"] == "Bearer k"
    assert "x-amz-date" not in http.headers
    assert http.url == (
        "https://bedrock-runtime.eu-west-1.amazonaws.com/model/"
        "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    )
    assert prepared({}, api_key="mine").headers["authorization"] == "Bearer mine"


@pytest.mark.skipif(importlib.util.find_spec("botocore") is None, reason="botocore is not installed")
def test_aws_credentials_sign_all_headers():
    http = prepared({**KEYS, "AWS_REGION": "eu-west-1"}, headers={"x-amz-custom": "1"})
    assert http.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "/eu-west-1/bedrock/aws4_request" in http.headers["authorization"]
    assert "x-amz-custom" in http.headers["authorization"]


def test_missing_credentials_name_the_remedy():
    with pytest.raises(LLMStreamError, match="AWS_BEARER_TOKEN_BEDROCK"):
        prepared({})


async def test_socket_response_quotes_url_once(serve):
    from aiohttp import web

    seen = []

    async def answer(request):
        seen.append((request.raw_path, request.headers["authorization"]))
        encoder = server_side(BedrockConverse()).event_encoder(REQUEST)
        events = [TextStart("0"), TextDelta("Hello", "0"), TextEnd("0"), Finish("stop")]
        response = web.StreamResponse(headers={"content-type": BedrockConverse().content_type})
        await response.prepare(request)
        for event in events:
            data = encoder.feed(event)
            for at in range(0, len(data), 7):
                await response.write(data[at : at + 7])
        return response

    model = ls.Model(f"bedrock:{MODEL}", base_url=await serve(answer), api_key="k")
    async with ls.stream(model, "Hi") as stream:
        assert [event.delta async for event in stream if isinstance(event, TextDelta)] == ["Hello"]
    assert stream.finish_reason == "stop"
    assert seen == [(f"/model/{MODEL.replace(':', '%3A')}/converse-stream", "Bearer k")]


async def test_refusal_is_typed_and_gives_advice(serve):
    from aiohttp import web

    async def refuse(request):
        return web.json_response(
            {"message": "The security token included in the request is expired"},
            status=403,
            headers={"x-amzn-errortype": "ExpiredTokenException:http://internal.amazon.com/"},
        )

    model = ls.Model(f"bedrock:{MODEL}", base_url=await serve(refuse), api_key="k")
    with pytest.raises(ls.AuthenticationError, match=r"expired.*AWS_BEARER_TOKEN_BEDROCK"):
        async with ls.stream(model, "Hi") as stream:
            await stream.collect()
