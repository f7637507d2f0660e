"""Mistral's refusals as errors, and errors as its refusals."""

from __future__ import annotations

import json

import pytest

from llmstream import errors as e
from llmstream.dialects.mistral import Mistral
from llmstream.server_side.wires import server_side


def decoded(status, body, headers=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Mistral().decode_error(status, headers or {}, data, provider="mistral")


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (
            400,
            {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"},
            e.BadRequest,
            "Invalid model: x",
        ),
        (401, {"detail": "Unauthorized"}, e.AuthenticationError, "Unauthorized"),
        (
            422,
            {"object": "error", "message": {"detail": [{"msg": "Extra inputs", "loc": ["body", "n"]}]}},
            e.BadRequest,
            "body.n: Extra inputs",
        ),
        (422, {"detail": [{"type": "missing", "msg": "Field required"}]}, e.BadRequest, "Field required"),
        (429, {"object": "error", "message": "Slow down", "code": "1300"}, e.RateLimited, "Slow down"),
        (
            400,
            {
                "object": "error",
                "message": "Prompt contains 9 tokens, too large for model with 8 maximum context length",
            },
            e.ContextTooLong,
            "too large",
        ),
        (503, b"upstream connect error", e.Overloaded, "upstream connect error"),
    ],
)
def test_answers_as_errors(status, body, kind, words):
    error = decoded(status, body, {"mistral-correlation-id": "019b"})
    assert type(error) is kind
    assert (error.status, error.provider, error.request_id) == (status, "mistral", "019b")
    assert words in error.message


@pytest.mark.parametrize(
    "error",
    [
        e.BadRequest("no", status=400),
        e.BadRequest("body.n: no", status=422, reason="missing"),
        e.BadRequest("no", status=422),
        e.AuthenticationError("no", status=401),
        e.PermissionDenied("no"),
        e.NotFound("no"),
        e.RateLimited("no", retry_after_s=3.0, request_id="r"),
        e.Overloaded("no"),
        e.ServerError("no", status=500),
    ],
)
def test_error_survives_a_round_trip(error):
    answer = server_side(Mistral()).encode_error(error.info)
    again = decoded(answer.status, answer.body, answer.headers)
    assert type(again) is type(error)
    assert again.message == error.message
    assert (again.retry_after_s, again.request_id) == (error.retry_after_s, error.request_id)
