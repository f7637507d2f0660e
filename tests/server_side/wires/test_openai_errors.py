"""Errors as OpenAI answers them are read as the errors they were."""

from __future__ import annotations

import json

import pytest

from llmstream import errors
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.server_side.wires import server_side
from llmstream.server_side.wires.errors import (
    encode_openai_error,
    error_in_stream,
    openai_error_object,
    openai_refusal,
)

KINDS = [
    errors.BadRequest,
    errors.ContextTooLong,
    errors.ContentFiltered,
    errors.AuthenticationError,
    errors.PermissionDenied,
    errors.NotFound,
    errors.RateLimited,
    errors.Overloaded,
    errors.ServerError,
]


@pytest.mark.parametrize("kind", KINDS)
def test_error_response_reads_as_it_was(kind):
    answer = encode_openai_error(kind("What happened").info)
    again = vendor_error(answer.status, answer.headers, answer.body, provider="openai")
    assert (type(again), again.message) == (kind, "What happened")
    assert again.retryable is kind.default_retryable


def test_unknown_errors_are_server_errors():
    assert encode_openai_error(errors.ConnectionLost("gone").info).status == 500


def test_headers_give_wait_and_request_id():
    info = errors.RateLimited("Slow down", retry_after_s=1.5, request_id="req_1", reason="tokens").info
    answer = encode_openai_error(info)
    assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("1.5", "req_1")
    assert json.loads(answer.body) == {"error": openai_error_object(info)}
    assert openai_error_object(info) == {
        "message": "Slow down",
        "type": "rate_limit_error",
        "param": None,
        "code": "tokens",
    }


def test_refusal_is_a_bad_request():
    error = openai_refusal("Unknown parameter: 'x'.", "unknown_parameter")
    assert (error.status, error.reason, error.message) == (
        400,
        "unknown_parameter",
        "Unknown parameter: 'x'.",
    )


def test_rejected_field_and_details_written():
    info = errors.ContentFiltered("no", reason="bio_policy", param="input", details={"type": "block"}).info
    assert openai_error_object(info) == {
        "message": "no",
        "type": "block",
        "param": "input",
        "code": "bio_policy",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_both_wires_have_one_error_form(kind):
    info = kind("What happened").info
    chat, responses = server_side(OpenAIChat()), server_side(OpenAIResponses())
    assert chat.encode_error(info) == responses.encode_error(info)
    assert error_in_stream(info) == {
        **openai_error_object(info),
        "status_code": encode_openai_error(info).status,
    }
