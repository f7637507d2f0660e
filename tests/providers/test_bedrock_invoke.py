"""Claude by InvokeModel: where requests go and what they say."""

from __future__ import annotations

from llmstream.chats.message import Message
from llmstream.providers.bedrock_invoke import BEDROCK_INVOKE
from llmstream.request import Request


def test_model_in_path_and_version_in_body():
    request = Request(model="anthropic.claude-3-haiku-20240307-v1:0", messages=(Message.user("Hi"),))
    http = BEDROCK_INVOKE.dialect.encode(request, provider="bedrock-invoke").http
    sent = BEDROCK_INVOKE.prepare(http, model=request.model, env={"AWS_BEARER_TOKEN_BEDROCK": "k"})
    assert sent.url == (
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/"
        "anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream"
    )
    assert sent.headers["authorization"] == "Bearer k"
    assert sent.json()["anthropic_version"] == "bedrock-2023-05-31"
    assert "model" not in sent.json()


def test_a_refusal_is_typed_by_its_header():
    error = BEDROCK_INVOKE.decode_error(
        429, {"x-amzn-errortype": "ThrottlingException:"}, b'{"message":"Too many requests"}'
    )
    assert (error.code, error.reason, error.retryable) == ("rate-limited", "ThrottlingException", True)
