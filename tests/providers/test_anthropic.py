from __future__ import annotations

import pytest

from llmstream.exchange import HttpRequest
from llmstream.providers.anthropic import ANTHROPIC

HTTP = HttpRequest("/v1/messages", b"{}")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("https://gate.example/anthropic", "https://gate.example/anthropic/v1/messages"),
        ("https://gate.example/anthropic/v1?team=1", "https://gate.example/anthropic/v1/messages?team=1"),
        ("https://gate.example/dev1", "https://gate.example/dev1/v1/messages"),
    ],
)
def test_version_in_the_url_is_not_doubled(base: str, url: str) -> None:
    assert ANTHROPIC.prepare(HTTP, model="m", base_url=base, api_key="k", env={}).url == url
    env = {"ANTHROPIC_BASE_URL": base}
    assert ANTHROPIC.prepare(HTTP, model="m", api_key="k", env=env).url == url


def test_a_key_has_its_own_header() -> None:
    assert ANTHROPIC.prepare(HTTP, model="m", env={"ANTHROPIC_API_KEY": "k"}).headers == {"x-api-key": "k"}


def test_token_is_bearer_without_a_key() -> None:
    env = {"ANTHROPIC_AUTH_TOKEN": "t"}
    assert ANTHROPIC.prepare(HTTP, model="m", env=env).headers == {"authorization": "Bearer t"}
    both = {**env, "ANTHROPIC_API_KEY": "k"}
    assert ANTHROPIC.prepare(HTTP, model="m", env=both).headers == {"x-api-key": "k"}
