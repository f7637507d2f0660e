"""Cohere's refusals as errors, and errors as its refusals."""

from __future__ import annotations

import json

import pytest

from llmstream import errors as e
from llmstream.dialects.cohere import Cohere
from llmstream.server_side.wires import server_side


def decoded(status, body, headers=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Cohere().decode_error(status, headers or {}, data, provider="cohere")


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, e.BadRequest, False),
        (401, e.AuthenticationError, False),
        (403, e.PermissionDenied, False),
        (404, e.NotFound, False),
        (422, e.BadRequest, False),
        (429, e.RateLimited, True),
        (498, e.AuthenticationError, False),
        (499, e.BadRequest, False),
        (500, e.ServerError, True),
        (503, e.Overloaded, True),
        (504, e.ServerError, True),
    ],
)
def test_every_status_has_an_error_class(status, kind, retryable):
    error = decoded(status, {"id": "2d46", "message": "the vendor's words"})
    assert type(error) is kind
    assert (error.message, error.status, error.retryable) == ("the vendor's words", status, retryable)


def test_response_id_is_the_request_id():
    assert decoded(400, {"id": "2d46", "message": "no"}).request_id == "2d46"
    assert decoded(400, {"message": "no"}, {"x-request-id": "h"}).request_id == "h"
    assert decoded(502, b"<html>").request_id is None
    assert decoded(400, b"[1]").request_id is None


def test_a_prompt_that_is_too_long():
    said = "too many tokens: size limit exceeded by 25836 tokens. Try using shorter or fewer inputs."
    error = decoded(400, {"error_type": "TOO_MANY_TOKENS", "id": "c", "message": said})
    assert type(error) is e.ContextTooLong
    assert error.message == said


@pytest.mark.parametrize(
    "error",
    [
        e.BadRequest("no", status=422),
        e.ContextTooLong("too many tokens"),
        e.AuthenticationError("no"),
        e.PermissionDenied("no"),
        e.NotFound("no"),
        e.RateLimited("no", retry_after_s=3.0, request_id="r"),
        e.Overloaded("no"),
        e.ServerError("no", status=500),
    ],
)
def test_error_survives_a_round_trip(error):
    answer = server_side(Cohere()).encode_error(error.info)
    again = decoded(answer.status, answer.body, answer.headers)
    assert type(again) is type(error)
    assert (again.message, again.retry_after_s) == (error.message, error.retry_after_s)
    assert again.request_id == error.request_id
