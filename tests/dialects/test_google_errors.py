"""Codes of Google's as errors of ours."""

from __future__ import annotations

import pytest

from llmstream import errors
from llmstream.dialects.google import failure
from llmstream.server_side.wires.errors import status_of


@pytest.mark.parametrize(
    ("code", "error", "status"),
    [
        (1, errors.BadRequest, 499),
        (2, errors.ServerError, 500),
        (5, errors.NotFound, 404),
        (7, errors.PermissionDenied, 403),
        (9, errors.BadRequest, 400),
        (10, errors.ServerError, 409),
        (11, errors.BadRequest, 400),
        (16, errors.AuthenticationError, 401),
        (17, errors.ServerError, 500),
        (0, errors.ServerError, 500),
        ("RESOURCE_EXHAUSTED", errors.RateLimited, 429),
        ("type.example/errors/unavailable/", errors.Overloaded, 503),
        ("nobody_knows", errors.ServerError, 500),
        (None, errors.ServerError, 500),
        ([1], errors.ServerError, 500),
    ],
)
def test_each_code_has_its_error(code, error, status):
    got = failure({"code": code, "message": "words"}, provider="google")
    assert (type(got), got.status, got.message) == (error, status, "words")
    assert status_of(got.info) == status


def test_permanent_errors_are_not_retryable():
    assert not failure({"code": 12}, provider="google").retryable
    assert not failure({"code": "quota_exceeded"}, provider="google").retryable
    assert failure({"code": "rate_limit_exceeded"}, provider="google").retryable


@pytest.mark.parametrize("told", ["words", {}, None, [], 3])
def test_any_failure_is_an_error(told):
    assert isinstance(failure(told, provider="google"), errors.ProviderError)
