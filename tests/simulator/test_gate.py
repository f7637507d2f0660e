"""Who is let in, and what is kept of what they bring."""

from __future__ import annotations

import pytest

from llmstream.errors import AuthenticationError, InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.simulator.gate import check_bind, check_key, host_is_local, masked


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:99"])
def test_local_host_names_pass(host: str) -> None:
    assert host_is_local(host)


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "8.8.8.8"]
)
def test_other_host_names_do_not(host: str | None) -> None:
    assert not host_is_local(host)


def test_only_loopback_is_bound_unless_told() -> None:
    check_bind("::1", allow_remote=False)
    check_bind("0.0.0.0", allow_remote=True)
    for host in ("0.0.0.0", "192.168.0.2", "example.org"):
        with pytest.raises(InvalidRequest, match="allow_remote"):
            check_bind(host, allow_remote=False)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer k"},
        {"authorization": "AWS4-HMAC-SHA256 Credential=k/20260131/eu-north-1/bedrock/aws4_request, Sig=s"},
        {"x-api-key": "k"},
        {"api-key": "k"},
        {"x-goog-api-key": "k"},
    ],
)
def test_a_key_is_found_in_every_vendors_header(headers: dict[str, str]) -> None:
    check_key(headers, {"k", "l"})
    with pytest.raises(AuthenticationError, match="not valid"):
        check_key(headers, {"other"})


def test_no_key_is_no_key_unless_none_is_wanted() -> None:
    check_key({}, None)
    with pytest.raises(AuthenticationError, match="no API key"):
        check_key({"authorization": "Basic k"}, {"k"})


def test_a_key_of_any_bytes_is_no_key() -> None:
    with pytest.raises(AuthenticationError, match="not valid"):
        check_key({"x-api-key": "\udcff"}, {"k"})


def test_secrets_are_masked() -> None:
    http = masked(
        HttpRequest("/x?a=1&key=secret", b"", {"authorization": "Bearer secret", "x-api-key": "secret"})
    )
    assert "secret" not in http.url + str(http.headers)
    assert "a=1" in http.url
