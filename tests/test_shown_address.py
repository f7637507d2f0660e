"""Addresses in messages: no part of a credential, however malformed they are."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.exchange import public_address, shown_address

SECRET = "sk-SECRET1234"

MALFORMED = [
    f"ftp://u:{SECRET}@h/",
    f"http://u:{SECRET}@h:port/",
    f"http://u:{SECRET}@[::1",
    f"http://u:{SECRET}/x@h",
    f"http://u:x#{SECRET}@h",
    f"http://u:a@{SECRET}/b@h",
    f"u:{SECRET}@h",
    f"htps://h/?key={SECRET}",
    f"http://h/?key={SECRET}#x",
    f"http://h:99999/?key={SECRET}",
    f"http://h h/?key={SECRET}",
    f"http:///v1?key={SECRET}",
    f"https:/h?key={SECRET}",
    f"http://h/\\?key={SECRET}",
    f"http://[::1]x/?key={SECRET}",
    f"http://h:{SECRET}",
    f"{SECRET}://h",
]


@pytest.mark.parametrize("address", MALFORMED)
def test_malformed_address_is_not_shown(address: str) -> None:
    assert SECRET not in shown_address(address)


@pytest.mark.parametrize("address", MALFORMED)
async def test_refused_base_url_hides_secrets(address: str) -> None:
    with pytest.raises(ls.LLMStreamError) as caught:
        model = ls.Model("openai:m", base_url=address, api_key="k", retry=ls.Retry(max_retries=0))
        await model.stream("hi").collect()
    assert SECRET not in str(caught.value)
    assert not isinstance(caught.value, ls.TransportError)
    assert SECRET not in repr(vars(caught.value))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("ftp://files.example:21/a/b", "'ftp://files.example:21…'"),
        ("http://u:p@h:port/", "'http://h…'"),
        ("https://a.example", "'https://a.example'"),
        ("a.example", "'a.example'"),
        ("", "''"),
    ],
)
def test_the_host_is_shown(address: str, shown: str) -> None:
    assert shown_address(address) == shown


def test_a_public_address_has_a_path() -> None:
    assert (
        public_address(f"https://u:{SECRET}@api.example:8443/v1?key={SECRET}")
        == "https://api.example:8443/v1"
    )
