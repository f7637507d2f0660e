"""Refusals of a whole request, in both directions."""

from __future__ import annotations

import json

import pytest

from llmstream import errors
from llmstream.dialects.anthropic import Anthropic
from llmstream.errors import ErrorInfo
from llmstream.server_side.wires import server_side
from llmstream.server_side.wires.anthropic.writer import exception_type

DIALECT = Anthropic()


def decode(status, body, **headers):
    return DIALECT.decode_error(
        status, {k.replace("_", "-"): v for k, v in headers.items()}, body, provider="anthropic"
    )


@pytest.mark.parametrize(
    ("status", "kind", "error", "retryable"),
    [
        (400, "invalid_request_error", errors.BadRequest, False),
        (401, "authentication_error", errors.AuthenticationError, False),
        (402, "billing_error", errors.PermissionDenied, False),
        (403, "permission_error", errors.PermissionDenied, False),
        (404, "not_found_error", errors.NotFound, False),
        (413, "request_too_large", errors.BadRequest, False),
        (429, "rate_limit_error", errors.RateLimited, True),
        (500, "api_error", errors.ServerError, True),
        (504, "timeout_error", errors.ServerError, True),
        (529, "overloaded_error", errors.Overloaded, True),
    ],
)
def test_each_status_has_its_error_class(status, kind, error, retryable):
    body = json.dumps({"type": "error", "error": {"type": kind, "message": "words"}, "request_id": "req_1"})
    got = decode(status, body.encode())
    assert type(got) is error
    assert (got.status, got.retryable, got.reason, got.request_id) == (status, retryable, kind, "req_1")
    again = server_side(DIALECT).encode_error(got.info)
    assert again.status == status
    assert json.loads(again.body)["error"] == {"type": kind, "message": "words"}
    assert (
        DIALECT.decode_error(again.status, again.headers, again.body, provider="anthropic").info == got.info
    )


@pytest.mark.parametrize(
    ("status", "kind", "code", "error", "retryable"),
    [
        (404, "not_found_error", "thread_not_found", errors.NotFound, False),
        (400, "invalid_request_error", "compaction_signature_invalid", errors.BadRequest, False),
        (408, "invalid_request_error", "request_body_timeout", errors.ServerError, True),
        (429, "rate_limit_error", "ramp_limit_exceeded", errors.RateLimited, True),
        (429, "rate_limit_error", "enforced_spend_limit_reached", errors.RateLimited, False),
        (402, "billing_error", "linked_organization_billing_unavailable", errors.PermissionDenied, False),
    ],
)
def test_reason_is_the_code_in_the_details(status, kind, code, error, retryable):
    said = {"type": kind, "message": "words", "details": {"error_code": code}}
    got = decode(status, json.dumps({"type": "error", "error": said}).encode())
    assert type(got) is error
    assert (got.status, got.retryable, got.reason, got.message) == (status, retryable, code, "words")
    again = server_side(DIALECT).encode_error(got.info)
    assert json.loads(again.body)["error"]["details"] == {"error_code": code}
    assert (
        DIALECT.decode_error(again.status, again.headers, again.body, provider="anthropic").info == got.info
    )


def test_details_say_what_an_error_is_about():
    details = {"error_code": "organization_on_hold", "appeal_url": "https://appeal.example"}
    said = {"type": "permission_error", "message": "Disabled.", "details": details}
    got = decode(403, json.dumps({"type": "error", "error": said}).encode())
    assert (got.reason, got.message) == (
        "organization_on_hold",
        "Disabled. (appeal_url: https://appeal.example)",
    )


def test_a_prompt_that_is_too_long():
    said = {"type": "invalid_request_error", "message": "prompt is too long: 3 tokens > 2 maximum"}
    body = json.dumps({"type": "error", "error": said}).encode()
    assert isinstance(decode(400, body), errors.ContextTooLong)


def test_headers_give_request_id_and_wait():
    got = decode(429, b"{}", request_id="req_9", retry_after="7")
    assert (got.request_id, got.retry_after_s) == ("req_9", 7.0)


@pytest.mark.parametrize(
    ("info", "status", "kind", "exception"),
    [
        (ErrorInfo("rate-limited", "m", True), 429, "rate_limit_error", "throttlingException"),
        (ErrorInfo("overloaded", "m", True), 529, "overloaded_error", "serviceUnavailableException"),
        (ErrorInfo("deadline-exceeded", "m", True), 504, "timeout_error", "modelTimeoutException"),
        (ErrorInfo("bad-request", "m", False), 400, "invalid_request_error", "validationException"),
        (ErrorInfo("missing-key", "m", False), 401, "authentication_error", "internalServerException"),
        (ErrorInfo("connection-lost", "m", True), 500, "api_error", "internalServerException"),
        (
            ErrorInfo("overloaded", "m", True, status=503),
            503,
            "overloaded_error",
            "serviceUnavailableException",
        ),
    ],
)
def test_own_errors_map_to_vendor_types(info, status, kind, exception):
    answer = server_side(DIALECT).encode_error(info)
    assert answer.status == status
    assert json.loads(answer.body)["error"]["type"] == kind
    assert exception_type(info) == exception
