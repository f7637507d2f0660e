"""Refusals of a whole request, in both directions."""

from __future__ import annotations

import json

import pytest

from llmstream import errors
from llmstream.dialects.gemini import Gemini
from llmstream.errors import ErrorInfo
from llmstream.server_side.wires import server_side

DIALECT = Gemini()


@pytest.mark.parametrize(
    ("status", "word", "error", "retryable"),
    [
        (400, "INVALID_ARGUMENT", errors.BadRequest, False),
        (400, "FAILED_PRECONDITION", errors.BadRequest, False),
        (401, "UNAUTHENTICATED", errors.AuthenticationError, False),
        (403, "PERMISSION_DENIED", errors.PermissionDenied, False),
        (404, "NOT_FOUND", errors.NotFound, False),
        (429, "RESOURCE_EXHAUSTED", errors.RateLimited, True),
        (500, "INTERNAL", errors.ServerError, True),
        (503, "UNAVAILABLE", errors.Overloaded, True),
        (504, "DEADLINE_EXCEEDED", errors.ServerError, True),
    ],
)
def test_each_status_has_its_error_class(status, word, error, retryable):
    body = json.dumps({"error": {"code": status, "message": "words", "status": word}}).encode()
    got = DIALECT.decode_error(status, {}, body, provider="google")
    assert type(got) is error
    assert (got.status, got.retryable, got.reason, got.message) == (status, retryable, word, "words")
    again = server_side(DIALECT).encode_error(got.info)
    assert again.status == status
    assert json.loads(again.body)["error"] == {"code": status, "message": "words", "status": word}


def test_invalid_key_is_found_by_its_reason():
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    told = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [detail]}
    got = DIALECT.decode_error(400, {}, json.dumps({"error": told}).encode(), provider="google")
    assert isinstance(got, errors.AuthenticationError)
    assert got.reason == "API_KEY_INVALID"
    again = server_side(DIALECT).encode_error(got.info)
    assert DIALECT.decode_error(400, again.headers, again.body, provider="google").info == got.info


def test_a_prompt_that_is_too_long():
    words = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
    body = json.dumps({"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}).encode()
    assert isinstance(DIALECT.decode_error(400, {}, body, provider="google"), errors.ContextTooLong)


def test_the_wait_is_in_the_details():
    answer = server_side(DIALECT).encode_error(ErrorInfo("rate-limited", "m", True, retry_after_s=37.5))
    got = DIALECT.decode_error(answer.status, answer.headers, answer.body, provider="google")
    assert (got.status, got.retry_after_s) == (429, 37.5)


@pytest.mark.parametrize(
    ("info", "status", "word"),
    [
        (ErrorInfo("bad-request", "m", False), 400, "INVALID_ARGUMENT"),
        (ErrorInfo("missing-key", "m", False), 403, "PERMISSION_DENIED"),
        (ErrorInfo("overloaded", "m", True), 503, "UNAVAILABLE"),
        (ErrorInfo("overloaded", "m", True, status=529), 529, "INTERNAL"),
        (ErrorInfo("bad-request", "m", False, status=413), 413, "INVALID_ARGUMENT"),
        (ErrorInfo("connection-lost", "m", True), 500, "INTERNAL"),
        (ErrorInfo("server-error", "m", True, reason="DEADLINE_EXCEEDED"), 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_own_errors_map_to_vendor_statuses(info, status, word):
    answer = server_side(DIALECT).encode_error(info)
    assert answer.status == status
    assert json.loads(answer.body)["error"]["status"] == word
