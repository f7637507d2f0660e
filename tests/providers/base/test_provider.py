from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from llmstream.dialects.errors import vendor_error
from llmstream.errors import (
    AuthenticationError,
    InvalidRequest,
    LLMStreamError,
    MissingKey,
    RateLimited,
)
from llmstream.exchange import HttpRequest
from llmstream.providers.base import Provider, bearer, join, key_header, no_auth

KEY = "sk-canary-0123456789"
HTTP = HttpRequest("/chat", b"{}", {"content-type": "application/json"})


class FakeDialect:
    """As much of a dialect as a provider touches."""

    name = "fake"

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        return vendor_error(status, headers, body, provider=provider)


def acme(**changes: Any) -> Provider:
    fields: dict[str, Any] = {
        "name": "acme",
        "dialect": FakeDialect(),
        "base_url": "https://api.acme.example/v1",
        "base_url_env": ("ACME_BASE_URL",),
        "key_env": ("ACME_API_KEY", "ACME_KEY"),
    }
    return Provider(**{**fields, **changes})


def prepare(provider: Provider, **given: Any) -> HttpRequest:
    return provider.prepare(given.pop("http", HTTP), **{"model": "m", "env": {}, "api_key": KEY, **given})


def test_address_and_key_prepare_a_request() -> None:
    http = prepare(acme())
    assert http.url == "https://api.acme.example/v1/chat"
    assert http.headers == {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    assert (http.method, http.body) == ("POST", b"{}")


def test_callers_address_outranks_others() -> None:
    """The caller's, then the environment's, then the default."""
    env = {"ACME_BASE_URL": "https://env.example"}
    assert acme().address(None, {}) == "https://api.acme.example/v1"
    assert acme().address(None, env) == "https://env.example"
    assert acme().address("https://mine.example", env) == "https://mine.example"
    assert acme().address("", {"ACME_BASE_URL": "  "}) == "https://api.acme.example/v1"


def test_callers_key_wins_over_environment() -> None:
    env = {"ACME_KEY": "second", "ACME_API_KEY": "first\n"}
    assert acme().key(None, env) == "first"
    assert acme().key("mine ", env) == "mine"
    assert acme().key(None, {"ACME_API_KEY": " ", "ACME_KEY": "second"}) == "second"


def test_a_missing_key_names_the_variables() -> None:
    with pytest.raises(MissingKey) as caught:
        acme(token_env=("ACME_TOKEN",)).key(None, {})
    assert str(caught.value).startswith("acme: no API key. Set ACME_API_KEY or ACME_KEY or ACME_TOKEN")
    assert "api_key=" in str(caught.value)


def test_missing_key_names_the_argument() -> None:
    """Where there is no variable for it."""
    with pytest.raises(MissingKey, match="Pass api_key="):
        acme(key_env=()).key(None, {})


def test_missing_address_names_the_variables() -> None:
    with pytest.raises(InvalidRequest, match=r"Pass base_url= or set ACME_BASE_URL\."):
        acme(base_url="").address(None, {})


def test_optional_key_is_sent_if_set() -> None:
    provider = acme(key_required=False)
    assert "authorization" not in prepare(provider, api_key=None).headers
    assert prepare(provider, api_key=None, env={"ACME_KEY": "k"}).headers["authorization"] == "Bearer k"


def test_token_is_bearer_without_a_key() -> None:
    provider = acme(auth=key_header("x-api-key"), token_env=("ACME_TOKEN",))
    both = {"ACME_API_KEY": "k", "ACME_TOKEN": "t"}
    assert prepare(provider, api_key=None, env={"ACME_TOKEN": "t"}).headers["authorization"] == "Bearer t"
    assert provider.key(None, {"ACME_TOKEN": "t"}) == "t"  # so that it can be masked in errors
    keyed = prepare(provider, api_key=None, env=both).headers
    assert keyed["x-api-key"] == "k"
    assert "authorization" not in keyed


@pytest.mark.parametrize("key", ["sk-a\r\nx: y", "sk-\u200b1", "sk-\x00", "schlüssel"])
def test_key_unfit_for_a_header_is_refused(key: str) -> None:
    """The error does not repeat it."""
    with pytest.raises(InvalidRequest, match="ACME_API_KEY") as caught:
        prepare(acme(), api_key=key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("wrong", [b"sk-geheim", 5, ["sk-geheim"]])
def test_non_text_key_or_address_is_refused(wrong: Any) -> None:
    """The error does not repeat it."""
    for given in ({"api_key": wrong}, {"base_url": wrong, "api_key": "k"}):
        with pytest.raises(InvalidRequest, match=f"is a str, not {type(wrong).__name__}") as caught:
            prepare(acme(), **given)
        assert "geheim" not in str(caught.value)


def test_key_is_in_no_repr_or_exception() -> None:
    provider = acme(token_env=("ACME_TOKEN",), auth=key_header("x-api-key"))
    for given in ({"api_key": KEY}, {"api_key": None, "env": {"ACME_TOKEN": KEY}}):
        http = prepare(provider, **given)
        assert KEY in str(dict(http.headers))
        assert KEY not in repr(http)
        assert KEY not in repr(provider)
    for bad in ({"base_url": "ftp://x"}, {"base_url": "https://x\ty"}):
        with pytest.raises(InvalidRequest) as caught:
            prepare(provider, **bad)
        assert KEY not in repr(caught.value)


def test_caller_headers_override_the_others() -> None:
    """Dialect, provider, environment, caller: in that order."""
    provider = acme(
        headers={"X-A": "provider", "X-B": "provider"}, header_env={"x-b": "ACME_B", "x-c": "ACME_C"}
    )
    http = HttpRequest("/chat", b"", {"x-a": "dialect", "x-d": "dialect"})
    headers = prepare(provider, http=http, env={"ACME_B": "env"}, headers={"X-D": "caller"}).headers
    assert {k: v for k, v in headers.items() if k != "authorization"} == {
        "x-a": "provider",
        "x-b": "env",
        "x-d": "caller",
    }


def test_caller_can_replace_the_credentials() -> None:
    assert prepare(acme(), headers={"Authorization": "Basic eA=="}).headers["authorization"] == "Basic eA=="


def test_headers_of_the_route_are_kept() -> None:
    def route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
        routed = join(base_url, http, model, env)
        return HttpRequest(f"{routed.url}/{model}", routed.body, {"x-model": model})

    http = prepare(acme(route=route))
    assert http.url.endswith("/v1/chat/m")
    assert http.headers["x-model"] == "m"


def test_a_refused_key_comes_with_its_remedy() -> None:
    error = acme().decode_error(401, {}, b'{"error": {"message": "bad key"}}')
    assert isinstance(error, AuthenticationError)
    assert str(error) == "acme: bad key. Check ACME_API_KEY or ACME_KEY or pass api_key=. (HTTP 401)"
    assert error.args == (error.message,)


def test_other_errors_are_the_dialects() -> None:
    error = acme().decode_error(429, {"retry-after": "3"}, b'{"error": {"message": "slow down"}}')
    assert isinstance(error, RateLimited)
    assert error.message == "slow down"
    assert error.retry_after_s == 3


def test_ways_to_carry_a_key() -> None:
    assert bearer("k") == {"authorization": "Bearer k"}
    assert key_header("x-key")("k") == {"x-key": "k"}
    assert no_auth("k") == {}


def test_a_provider_is_a_value() -> None:
    assert dataclasses.replace(acme(), title="Acme").title == "Acme"
    with pytest.raises(dataclasses.FrozenInstanceError):
        acme().name = "other"  # type: ignore[misc]


async def test_a_vendor_has_nothing_to_start() -> None:
    assert await acme().ready("m", None) is None
