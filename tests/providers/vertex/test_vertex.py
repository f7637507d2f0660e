"""Vertex AI: addresses of projects and locations, and where credentials come from."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import llmstream as ls
from llmstream.exchange import HttpRequest
from llmstream.providers.registry import find_provider
from llmstream.providers.vertex import credentials
from llmstream.providers.vertex.route import key_or_token, vertex_route

VERTEX = find_provider("vertex")


def url(**env: str) -> str:
    return vertex_route(VERTEX.base_url, HttpRequest("/models/m:go"), "m", env).url


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_a_location_has_its_own_host(location: str, host: str) -> None:
    wanted = f"https://{host}/v1/projects/p1/locations/{location}/publishers/google/models/m:go"
    assert url(GOOGLE_CLOUD_PROJECT="p1", GOOGLE_CLOUD_LOCATION=location) == wanted


def test_missing_project_means_express_mode() -> None:
    assert url() == "https://aiplatform.googleapis.com/v1/publishers/google/models/m:go"


def test_a_location_cannot_lead_elsewhere() -> None:
    strange = url(GOOGLE_CLOUD_PROJECT="p1", GOOGLE_CLOUD_LOCATION="evil.example/x")
    assert strange.startswith("https://evil.example%2Fx-aiplatform.googleapis.com/")
    with pytest.raises(ls.InvalidRequest):
        url(GOOGLE_CLOUD_PROJECT="..")


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        ("AIzaKey", {"x-goog-api-key": "AIzaKey"}),
        ("ya29.token", {"authorization": "Bearer ya29.token"}),
        ("eyJh.eyJp.c2ln", {"authorization": "Bearer eyJh.eyJp.c2ln"}),
    ],
)
def test_keys_and_tokens_travel_differently(key: str, headers: dict[str, str]) -> None:
    assert key_or_token(key) == headers


@pytest.fixture
def google_auth(monkeypatch) -> SimpleNamespace:
    """A google-auth that finds credentials of ours."""
    found = SimpleNamespace(token=None, valid=False, refreshed=0)

    def refresh(request: object) -> None:
        found.token, found.valid, found.refreshed = "ya29.fresh", True, found.refreshed + 1

    found.refresh = refresh
    auth, transport, requests = (ModuleType(n) for n in ("google.auth", "transport", "requests"))
    auth.default = lambda scopes: (found, "p1")  # type: ignore[attr-defined]  # a stand-in
    requests.Request = object  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "google", ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.transport", transport)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", requests)
    monkeypatch.setattr(credentials, "_credentials", [])
    for name in (*VERTEX.key_env, *VERTEX.token_env):
        monkeypatch.delenv(name, raising=False)
    return found


async def test_default_credentials_renew_a_token(google_auth) -> None:
    await VERTEX.ready("m", None)
    assert VERTEX.key(None, {}) == "ya29.fresh"
    sent = VERTEX.prepare(HttpRequest("/models/m:go"), model="m", env={"GOOGLE_CLOUD_PROJECT": "p1"})
    assert sent.headers["authorization"] == "Bearer ya29.fresh"
    await VERTEX.ready("m", None)
    assert google_auth.refreshed == 1
    google_auth.valid = False
    await VERTEX.ready("m", None)
    assert google_auth.refreshed == 2


async def test_callers_key_skips_google_auth(google_auth) -> None:
    await VERTEX.ready("m", "AIzaKey")
    assert google_auth.refreshed == 0


async def test_missing_google_auth_names_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    monkeypatch.setattr(credentials, "_credentials", [])
    for name in (*VERTEX.key_env, *VERTEX.token_env):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ls.Unsupported, match=r"llmstream-sdk\[vertex\]"):
        await VERTEX.ready("m", None)
