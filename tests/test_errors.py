"""The tree of exceptions and its wire form."""

from __future__ import annotations

import copy
import pickle

import pytest

from llmstream import errors
from llmstream.errors import ErrorInfo, LLMStreamError, error_from_info

CLASSES = [getattr(errors, name) for name in errors.__all__ if name not in ("ErrorInfo", "error_from_info")]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_exception_survives_as_a_value(kind: type[LLMStreamError]) -> None:
    error = kind("words", provider="acme", status=429, retry_after_s=1.5, request_id="r", reason="tpm")
    again = error_from_info(error.info)
    assert type(again) is kind
    assert again.info == error.info


def test_every_code_is_of_one_class() -> None:
    codes = [kind.code for kind in CLASSES]
    assert len(set(codes)) == len(codes)


def test_unknown_code_is_the_base_class() -> None:
    assert type(error_from_info(ErrorInfo("from-the-future", "x", False))) is LLMStreamError


def test_the_words_say_to_whom_and_what() -> None:
    error = errors.RateLimited(
        "slow down", provider="acme", status=429, retry_after_s=12, request_id="req_81"
    )
    assert str(error) == "acme: slow down (HTTP 429, retry after 12 s, request req_81)"


def test_retryable_is_per_class_by_default() -> None:
    assert errors.Overloaded("x").retryable
    assert not errors.BadRequest("x").retryable
    assert not errors.Overloaded("x", retryable=False).retryable


def test_an_exception_can_be_pickled() -> None:
    error = errors.NotFound("no model", provider="acme", status=404)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.info) == (errors.NotFound, error.info)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.InvalidRequest, ValueError),
        (errors.DeadlineExceeded, TimeoutError),
        (errors.ConnectionFailed, ConnectionError),
        (errors.ConnectionLost, ConnectionError),
    ],
)
def test_kinds_known_to_python_are_its_own(error, builtin) -> None:
    raised = error("what", provider="acme", status=418, reason="why", retry_after_s=2.0)
    assert isinstance(raised, builtin)
    for copied in (pickle.loads(pickle.dumps(raised)), copy.copy(raised)):
        assert (type(copied), str(copied), copied.info) == (error, str(raised), raised.info)
