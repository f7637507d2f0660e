"""Host and Origin headers of requests to a server for this machine only."""

from __future__ import annotations

import pytest

from llmstream.server_side.local_only import host_is_local, is_foreign_page


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:99"])
def test_local_host_names_pass(host: str) -> None:
    assert host_is_local(host)


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "8.8.8.8"]
)
def test_other_host_names_do_not(host: str | None) -> None:
    assert not host_is_local(host)


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": ""}, True),
        ({"origin": "file://"}, True),
        ({"origin": "https://127.0.0.1.evil.example"}, True),
        ({"origin": "http://localhost@evil.example"}, True),
        ({"origin": "http://localhost:3000"}, False),
        ({"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}, False),
        ({"origin": "http://[::1]:8080"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "none"}, False),
    ],
)
def test_pages_of_other_places(headers: dict[str, str], foreign: bool) -> None:
    assert is_foreign_page(headers) == foreign
