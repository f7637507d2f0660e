from __future__ import annotations

import pytest

from llmstream.errors import InvalidRequest, MissingKey
from llmstream.exchange import HttpRequest
from llmstream.providers.azure import AZURE

RES = "https://res.openai.azure.com"
CHAT = "/chat/completions"
DATED = "2024-10-21"
DEPLOYED = f"/openai/deployments/gpt-5{CHAT}"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJ4In0.c2lnbmF0dXJl"


def prepare(
    base_url: str | None = RES, *, model: str = "gpt-5", api_key: str | None = "k", **env: str
) -> HttpRequest:
    http = HttpRequest("/chat/completions", b"{}")
    return AZURE.prepare(http, model=model, base_url=base_url, api_key=api_key, env=env)


@pytest.mark.parametrize(
    ("base", "version", "url"),
    [
        ("", None, f"/openai/v1{CHAT}"),
        ("/", None, f"/openai/v1{CHAT}"),
        ("/openai", None, f"/openai/v1{CHAT}"),
        ("", "preview", f"/openai/v1{CHAT}?api-version=preview"),
        ("", DATED, f"{DEPLOYED}?api-version={DATED}"),
        ("/openai/", DATED, f"{DEPLOYED}?api-version={DATED}"),
        (f"?api-version={DATED}", None, f"{DEPLOYED}?api-version={DATED}"),
        ("?api-version=2025-01-01", DATED, f"{DEPLOYED}?api-version=2025-01-01"),
        ("/openai/v1", None, f"/openai/v1{CHAT}"),
        ("/openai/v1/", DATED, f"/openai/v1{CHAT}"),
        ("/openai/v1?api-version=preview", DATED, f"/openai/v1{CHAT}?api-version=preview"),
        ("/openai/deployments/gpt-5", DATED, f"{DEPLOYED}?api-version={DATED}"),
        (f"{DEPLOYED}?api-version={DATED}", None, f"{DEPLOYED}?api-version={DATED}"),
        (f"/models?api-version={DATED}", None, f"/models{CHAT}?api-version={DATED}"),
    ],
)
def test_every_form_of_address_gives_its_url(base: str, version: str | None, url: str) -> None:
    env = {"OPENAI_API_VERSION": version} if version else {}
    assert prepare(RES + base, **env).url == RES + url


def test_endpoint_comes_from_the_environment() -> None:
    http = prepare(None, AZURE_OPENAI_ENDPOINT=RES, AZURE_OPENAI_API_VERSION="2024-10-21")
    assert http.url == f"{RES}/openai/deployments/gpt-5/chat/completions?api-version=2024-10-21"


def test_missing_endpoint_names_the_remedy() -> None:
    with pytest.raises(InvalidRequest, match="AZURE_OPENAI_ENDPOINT"):
        prepare(None)


@pytest.mark.parametrize("model", ["../x", "a/b", "%2e%2e", "a?b", "a#b", "//host"])
def test_deployment_name_is_quoted_in_path(model: str) -> None:
    url = prepare(model=model, OPENAI_API_VERSION="2024-10-21").url
    prefix, rest = f"{RES}/openai/deployments/", "/chat/completions?api-version=2024-10-21"
    assert url.startswith(prefix)
    assert url.endswith(rest)
    assert not set(url[len(prefix) : -len(rest)]) & set("/?#")


@pytest.mark.parametrize("model", ["..", "."])
def test_dot_segment_deployment_is_refused(model: str) -> None:
    with pytest.raises(InvalidRequest):
        prepare(model=model, OPENAI_API_VERSION="2024-10-21")


def test_a_key_goes_in_its_header() -> None:
    headers = prepare().headers
    assert headers["api-key"] == "k"
    assert "authorization" not in headers
    assert "'k'" not in repr(prepare())


def test_environment_token_is_bearer() -> None:
    """Where no key is set."""
    headers = prepare(api_key=None, AZURE_OPENAI_AD_TOKEN="entra").headers
    assert headers == {"authorization": "Bearer entra"}
    keyed = prepare(api_key=None, AZURE_OPENAI_AD_TOKEN="entra", AZURE_API_KEY="k").headers
    assert keyed == {"api-key": "k"}


def test_a_token_given_as_key_is_recognised() -> None:
    assert prepare(api_key=JWT).headers == {"authorization": f"Bearer {JWT}"}


def test_missing_key_and_token_both_named() -> None:
    with pytest.raises(MissingKey, match=r"AZURE_OPENAI_API_KEY.*AZURE_OPENAI_AD_TOKEN"):
        prepare(api_key=None)
