"""The Claude Platform on AWS: a region, a workspace, and a key or a signature."""

from __future__ import annotations

import importlib.util

import pytest

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.aws_anthropic import AWS_ANTHROPIC

HTTP = HttpRequest("/v1/messages", b"{}", {"content-type": "application/json"})
ENV = {"AWS_REGION": "us-west-2", "ANTHROPIC_AWS_WORKSPACE_ID": "wrkspc_1", "ANTHROPIC_AWS_API_KEY": "k"}


def prepared(env, **given):
    return AWS_ANTHROPIC.prepare(HTTP, model="claude-sonnet-4-5", env=env, **given)


def without(name):
    return {key: value for key, value in ENV.items() if key != name}


def test_every_request_names_the_workspace():
    http = prepared(ENV)
    assert http.url == "https://aws-external-anthropic.us-west-2.api.aws/v1/messages"
    assert http.headers["anthropic-workspace-id"] == "wrkspc_1"
    assert http.headers["x-api-key"] == "k"


def test_what_is_missing_is_named():
    with pytest.raises(InvalidRequest, match="ANTHROPIC_AWS_WORKSPACE_ID"):
        prepared(without("ANTHROPIC_AWS_WORKSPACE_ID"))
    with pytest.raises(InvalidRequest, match="AWS_REGION or AWS_DEFAULT_REGION"):
        prepared(without("AWS_REGION"))


def test_a_header_names_the_workspace_too():
    http = prepared(without("ANTHROPIC_AWS_WORKSPACE_ID"), headers={"Anthropic-Workspace-Id": "wrkspc_2"})
    assert http.headers["anthropic-workspace-id"] == "wrkspc_2"


@pytest.mark.skipif(importlib.util.find_spec("botocore") is None, reason="botocore is not installed")
def test_a_request_without_a_key_is_signed():
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
    http = prepared({**without("ANTHROPIC_AWS_API_KEY"), **keys})
    assert "/us-west-2/aws-external-anthropic/aws4_request" in http.headers["authorization"]
    assert http.headers["anthropic-workspace-id"] == "wrkspc_1"
    assert "x-api-key" not in http.headers
