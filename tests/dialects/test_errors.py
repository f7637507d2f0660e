"""Vendors' errors, in all of their shapes."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream import errors
from llmstream.dialects.errors import _plain, error_from_value, is_error_body, retry_after_s, vendor_error


def answer(status: int, value: object, **headers: str) -> errors.LLMStreamError:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return vendor_error(status, {k.replace("_", "-"): v for k, v in headers.items()}, body, provider="acme")


@pytest.mark.parametrize(
    "value",
    [
        {"error": {"message": "no such thing", "type": "t", "code": "c", "param": None}},
        {"error": "no such thing"},
        {"message": "no such thing"},
        {"detail": "no such thing"},
        {"detail": [{"msg": "no such thing", "loc": ["body"]}]},
        {"code": "c", "error": "no such thing"},
        {"code": 3051, "message": "no such thing", "type": "t"},
        {"object": "error", "message": "no such thing"},
        [{"error": {"message": "no such thing"}}],
        b"<p>no such thing</p>",
        b"no such thing",
    ],
    ids=str,
)
def test_every_shape_keeps_the_vendors_words(value: object) -> None:
    error = answer(400, value)
    assert type(error) is errors.BadRequest
    assert error.message == "no such thing"
    assert error.provider == "acme"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, errors.BadRequest, False),
        (401, errors.AuthenticationError, False),
        (402, errors.PermissionDenied, False),
        (403, errors.PermissionDenied, False),
        (404, errors.NotFound, False),
        (408, errors.ServerError, True),
        (409, errors.ServerError, True),
        (413, errors.BadRequest, False),
        (418, errors.BadRequest, False),
        (422, errors.BadRequest, False),
        (429, errors.RateLimited, True),
        (500, errors.ServerError, True),
        (503, errors.Overloaded, True),
        (529, errors.Overloaded, True),
        (599, errors.ServerError, True),
    ],
)
def test_the_status_says_the_class(status: int, kind: type[errors.ProviderError], retryable: bool) -> None:
    error = answer(status, {"error": {"message": "x"}})
    assert (type(error), error.retryable, error.status) == (kind, retryable, status)


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "too big"}}, errors.ContextTooLong),
        (400, {"error": {"message": "prompt is too long: 3 tokens > 2 maximum"}}, errors.ContextTooLong),
        (400, {"error": {"code": "content_filter", "message": "no"}}, errors.ContentFiltered),
        (400, {"error": "Incorrect API key provided"}, errors.AuthenticationError),
        (
            400,
            {"error": {"message": "bad", "details": [{"reason": "API_KEY_INVALID"}]}},
            errors.AuthenticationError,
        ),
    ],
)
def test_the_words_say_more_than_the_status(status: int, words: object, kind: type[Exception]) -> None:
    assert type(answer(status, words)) is kind


def test_a_used_up_quota_is_not_retried() -> None:
    error = answer(429, {"error": {"code": "insufficient_quota", "message": "pay"}})
    assert (type(error), error.retryable) == (errors.RateLimited, False)


def test_vendor_retry_header_wins() -> None:
    assert answer(400, {}, x_should_retry="true").retryable
    assert not answer(500, {}, x_should_retry="false").retryable


def test_request_id_is_found_in_any_header() -> None:
    for header in ("x-request-id", "request-id", "x-amzn-requestid", "mistral-correlation-id"):
        error = vendor_error(500, {header: "r1"}, b"", provider="acme")
        assert error.request_id == "r1"
    assert answer(500, {"error": {"message": "x"}, "request_id": "r2"}).request_id == "r2"


def test_googles_delay_is_in_the_details() -> None:
    error = answer(429, {"error": {"message": "x", "details": [{"retryDelay": "37s"}]}})
    assert error.retry_after_s == 37


def test_failed_generation_is_in_the_message() -> None:
    error = answer(400, {"error": {"code": "tool_use_failed", "message": "no", "failed_generation": "maybe"}})
    assert "maybe" in error.message


@pytest.mark.parametrize(
    ("value", "status", "kind"),
    [
        ({"type": "overloaded_error", "message": "busy"}, 529, errors.Overloaded),
        ({"error": "busy", "error_type": "overloaded"}, 503, errors.Overloaded),
        ({"type": "invalid_request_error", "code": "1", "message": "no"}, 400, errors.BadRequest),
        ({"type": "service_tier_capacity_exceeded", "code": "3505"}, 429, errors.RateLimited),
        ({"code": "rate_limit_exceeded", "message": "slow"}, 429, errors.RateLimited),
        ({"code": 502, "message": "bad gateway"}, 502, errors.ServerError),
        ({"code": "1302", "message": "slow"}, 500, errors.ServerError),
        ("something", 500, errors.ServerError),
        (None, 500, errors.ServerError),
    ],
)
def test_message_gives_the_status_in_a_200(value: object, status: int, kind: type[Exception]) -> None:
    error = error_from_value(value, provider="acme")
    assert (error.status, type(error)) == (status, kind)


@pytest.mark.parametrize(
    ("code", "status", "retryable"),
    [("1302", 429, True), ("1113", 402, False), ("1001", 401, False), ("1214", 400, False), ("9", 500, True)],
)
def test_the_numbers_of_zai_have_a_status(code: str, status: int, retryable: bool) -> None:
    error = error_from_value({"error": {"code": code, "message": "no"}}, provider="zai")
    assert (error.status, error.retryable, error.reason) == (status, retryable, code)


@pytest.mark.parametrize(
    ("body", "is_error"),
    [
        (b'{"message": "invalid request", "id": "x"}', True),
        (b'{"detail": [{"msg": "no", "loc": ["body"]}]}', True),
        (b'{"message": {"role": "assistant", "content": "hi"}, "done": true}', False),
        (b'{"message": "hi", "choices": []}', False),
        (b'{"message": ""}', False),
    ],
)
def test_unmarked_error_body_is_recognized(body: bytes, is_error: bool) -> None:
    assert is_error_body(body) is is_error


def test_html_page_is_no_stream() -> None:
    error = answer(200, b"<html>Sign in</html>", content_type="text/html")
    assert isinstance(error, errors.NotAStream)
    assert "Sign in" in error.message
    assert "base_url" in error.message
    assert "a proxy, a firewall or a login page" in error.message
    assert "a proxy" not in answer(200, b"{}", content_type="application/json").message


def test_html_refusal_names_who_may_have_sent_it() -> None:
    page = b"\n<!DOCTYPE html><html><head><title>Blocked by policy</title></head></html>"
    error = answer(403, page, content_type="text/html")
    assert type(error) is errors.PermissionDenied
    assert error.message.startswith(
        "Blocked by policy. This is a web page, not the API's error: check base_url"
    )
    assert answer(502, page, content_type="text/html").message == "Blocked by policy"


NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "12"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "12"}, 12.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_retry_after_is_number_date_or_none(headers: dict[str, str], wait: float | None) -> None:
    assert retry_after_s(headers, now=lambda: NOW) == wait


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "detail", "details", "metadata", "status", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(_json, st.integers(200, 599))
def test_any_error_body_is_a_typed_error(value: object, status: int) -> None:
    assert isinstance(answer(status, value), errors.LLMStreamError)
    assert isinstance(error_from_value(value, provider="acme"), errors.ProviderError)


@given(st.binary(max_size=200), st.integers(200, 599))
def test_any_bytes_are_a_typed_error(body: bytes, status: int) -> None:
    error = vendor_error(status, {}, body, provider="acme")
    assert errors.error_from_info(error.info).info == error.info


def test_recorded_errors_have_their_status(shared_dir: Path, compare_case: Any) -> None:
    """And whether they are retryable."""
    wrong = {}
    for folder in sorted((shared_dir / "corpus" / "errors").iterdir()):
        meta = json.loads((folder / "meta.json").read_text())
        body = (folder / "response.bin").read_bytes()
        error = vendor_error(meta["status"], meta["headers"], body, provider=meta["dialect"])
        event = {"type": "error", "error": msgspec.to_builtins(error.info)}
        if differences := compare_case([event], folder):
            wrong[folder.name] = differences
    assert wrong == {}


def test_rejected_field_is_named() -> None:
    detail = [{"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required"}]
    error = vendor_error(422, {}, msgspec.json.encode({"detail": detail}), provider="x")
    assert error.message == "messages.0: Field required"


def test_empty_response_body_is_reported() -> None:
    assert "Its body is empty" in vendor_error(200, {}, b"", provider="x").message


POLICY_CODES = ["bio_policy", "cyber_policy", "misalignment_policy_violation", "content_policy_violation"]


@pytest.mark.parametrize("code", POLICY_CODES)
@pytest.mark.parametrize("status", [None, 400, 403])
def test_a_policy_block_is_no_fault_to_retry(code: str, status: int | None) -> None:
    told = {"error": {"code": code, "message": "The service is unavailable for this.", "param": None}}
    error = error_from_value(told, provider="openai", status=status)
    assert type(error) is errors.ContentFiltered
    assert (error.status, error.retryable, error.reason) == (status or 400, False, code)


def test_wrong_data_residency_is_bad_request() -> None:
    told = {"error": {"code": "data_residency_mismatch", "message": "Use the endpoint of your region."}}
    error = error_from_value(told, provider="openai")
    assert (type(error), error.status, error.retryable) == (errors.BadRequest, 400, False)


@pytest.mark.parametrize(("status", "said"), [(None, 429), (429, 429), (503, 503)])
def test_slow_down_is_a_rate_limit(status: int | None, said: int) -> None:
    told = {"error": {"code": "slow_down", "message": "Your request rate rose too fast."}}
    error = error_from_value(told, provider="openai", status=status)
    assert (type(error), error.status, error.retryable) == (errors.RateLimited, said, True)


def test_the_field_that_is_blamed_is_kept() -> None:
    error = answer(400, {"error": {"message": "no", "param": "tools[0].name", "code": None}})
    assert (error.param, error.info.param) == ("tools[0].name", "tools[0].name")
    assert answer(400, {"error": {"message": "no", "param": None}}).param is None


def test_details_of_a_block_are_kept() -> None:
    block = {
        "error_type": "other",
        "detailed_explanation": "It would delete files.",
        "steer": {"message": "s"},
    }
    told = {"error": {"message": "no", "code": "misalignment_policy_violation", "misalignment": block}}
    error = error_from_value(told, provider="openai")
    assert error.details == {"misalignment": block}
    assert errors.error_from_info(error.info).info == error.info


def test_a_type_beside_a_finer_code_is_kept() -> None:
    told = {"error": {"message": "no", "code": "bio_policy", "type": "safety_block"}}
    assert error_from_value(told, provider="openai").details == {"type": "safety_block"}
    plain = {"error": {"message": "no", "code": "c", "type": "invalid_request_error"}}
    assert error_from_value(plain, provider="openai").details is None


def test_a_code_in_the_details_is_the_reason() -> None:
    """Inside a 200 the type still says the status: Anthropic, 2026-10."""
    details = {"error_code": "compaction_unavailable", "nothing": None}
    said = {"type": "api_error", "message": "words", "details": details}
    error = error_from_value({"error": said}, provider="x")
    assert (error.status, error.reason, error.message) == (500, "compaction_unavailable", "words")


def test_details_without_a_code_say_nothing() -> None:
    said = {"type": "api_error", "message": "words", "details": {"error_code": 3, "more": "x"}}
    error = error_from_value({"error": said}, provider="x")
    assert (error.reason, error.message) == ("api_error", "words")


@pytest.mark.parametrize("name", ["code", "type", "status", "error_type", "reason"])
def test_number_too_long_for_int_is_a_reason(name: str) -> None:
    error = answer(400, {"error": {"message": "no", name: "1" * 5000}})
    assert type(error) is errors.BadRequest
    assert error.reason == "1" * 5000


def test_a_delay_beyond_numbers_is_none() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9" * 400 + "s"}
    assert answer(429, {"error": {"message": "no", "details": [info]}}).retry_after_s is None


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (b"<TITLE lang=en>502 Bad\n Gateway</TITLE><h1>x</h1>", "502 Bad Gateway"),
        (b"<title></title><p>busy</p>", "busy"),
        (b"<title>never closed <b>busy</b>", "never closed busy"),
        (b"a < b", "a < b"),
    ],
)
def test_the_message_of_a_page(page: bytes, message: str) -> None:
    assert answer(400, page).message == message


def test_open_tags_are_searched_once() -> None:
    """A pattern looks for the end from each beginning; 64 KiB of them took seconds."""
    text = Counted("<title" * 10_000)
    _plain(text)
    assert text.searched <= 4 * len(text)


class Counted(str):
    """Counts the characters that are searched in it."""

    searched = 0

    def find(self, *args: Any) -> int:
        found = super().find(*args)
        begin = args[1] if len(args) > 1 else 0
        self.searched += (len(self) if found < 0 else found) - begin
        return found

    def lower(self) -> Counted:
        return self
