"""Addresses with places, and what people write in a variable for them."""

from __future__ import annotations

import pytest

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.base import filled, with_path, without_version

HTTP = HttpRequest("/chat")
HOST = "https://{account}.acme.example/v1"


def url(env: dict[str, str], base_url: str = HOST) -> str:
    return filled(account=("ACCOUNT", "ACCOUNT_ID"))(base_url, HTTP, "m", env).url


def test_first_variable_set_fills_a_place() -> None:
    assert url({"ACCOUNT": "a-1", "ACCOUNT_ID": "b"}) == "https://a-1.acme.example/v1/chat"
    assert url({"ACCOUNT": " ", "ACCOUNT_ID": "b"}) == "https://b.acme.example/v1/chat"
    in_path = "https://acme.example/accounts/{account}/v1"
    assert url({"ACCOUNT": "a"}, in_path) == "https://acme.example/accounts/a/v1/chat"


@pytest.mark.parametrize("value", ["a.acme.example", "https://a.acme.example", "https://a.acme.example/"])
def test_the_whole_host_is_understood(value: str) -> None:
    assert url({"ACCOUNT": value}) == "https://a.acme.example/v1/chat"


def test_fixed_address_needs_no_variables() -> None:
    assert url({}, "https://mine.example/v1") == "https://mine.example/v1/chat"


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"Set ACCOUNT or ACCOUNT_ID, or pass base_url="):
        url({})


@pytest.mark.parametrize("value", ["evil.example/x", "a@evil.example", "a b", "..", "evil.example#", "a:1"])
def test_a_value_cannot_lead_elsewhere(value: str) -> None:
    with pytest.raises(InvalidRequest, match="Check ACCOUNT or ACCOUNT_ID"):
        url({"ACCOUNT": value})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("https://h.example", "https://h.example/x/v1"),
        ("https://h.example/", "https://h.example/x/v1"),
        ("h.example", "h.example/x/v1"),
        ("https://h.example?a=b", "https://h.example/x/v1?a=b"),
        ("https://h.example/serving-endpoints", "https://h.example/serving-endpoints"),
    ],
)
def test_a_host_alone_gets_the_path(written: str, meant: str) -> None:
    assert with_path("/x/v1")(written) == meant


def test_a_version_is_taken_off() -> None:
    assert without_version(" https://h.example/v1/?a=b") == "https://h.example?a=b"
    assert without_version("https://h.example/v1beta") == "https://h.example/v1beta"
