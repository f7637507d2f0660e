"""Vertex AI's addresses, which hold a project and a location, and its two kinds of credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.base import bearer, join, path_segment, split_address

__all__ = ["ADDRESS", "claude_route", "key_or_token", "project_address", "vertex_route"]

# Of the global location; others have hosts of their own.
ADDRESS: Final = "https://aiplatform.googleapis.com/v1/projects/{project}/locations/{location}"

_IN_PROJECT: Final = "/projects/{project}/locations/{location}"
# Google's own first, that of Anthropic's SDK last: `claude_route` reads them from behind.
_PROJECTS: Final = (
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_VERTEX_PROJECT",
    "GCLOUD_PROJECT",
    "VERTEXAI_PROJECT",
    "ANTHROPIC_VERTEX_PROJECT_ID",
)

# Google's own, @ai-sdk's, LiteLLM's, those of Anthropic's SDK and of Claude Code (seen 2026-11).
_LOCATIONS: Final = (
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_VERTEX_LOCATION",
    "VERTEXAI_LOCATION",
    "CLOUD_ML_REGION",
)

# Google's access tokens, and JSON web tokens; keys of express mode have neither form.
_TOKEN: Final = re.compile(r"ya29\..+|eyJ[\w-]+\.[\w-]+\.[\w-]+=*")
_HOST: Final = "https://aiplatform.googleapis.com"


def key_or_token(key: str) -> dict[str, str]:
    """A key of express mode in Google's header, an access token as Bearer."""
    return bearer(key) if _TOKEN.fullmatch(key) else {"x-goog-api-key": key}


def project_address(text: str, publisher: str) -> str:
    """The address with project, location and publisher, where its path has none of them.

    The SDKs of Google and of Anthropic take a host, or a host and a version, and add the rest;
    other clients take an address that has it all.
    """
    host, path, query = split_address(text)
    if path and not re.fullmatch(r"(/.*)?/v\d\w*", path):
        return f"{host}{path}{query}"
    return f"{host}{path or '/v1'}{_IN_PROJECT}/publishers/{publisher}{query}"


def vertex_route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The complete URL, with project and location of the environment; express mode has neither.

    source: cloud.google.com, "Generative AI on Vertex AI locations", seen 2026-11
    """
    project, location = _first(env, *_PROJECTS), _first(env, *_LOCATIONS)
    return join(_placed(base_url, project, location), http, model, env)


def claude_route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The same for Claude, which express mode does not have; Anthropic's own variables count first.

    raises: InvalidRequest without a project
    """
    project, location = _first(env, *_PROJECTS[::-1]), _first(env, *_LOCATIONS[::-1])
    if _IN_PROJECT in base_url and not project:
        raise InvalidRequest(
            "vertex-anthropic needs a project of Google Cloud. Set ANTHROPIC_VERTEX_PROJECT_ID or "
            "GOOGLE_CLOUD_PROJECT, or pass a base_url= that ends in "
            "/projects/PROJECT/locations/LOCATION/publishers/anthropic.",
            provider="vertex-anthropic",
        )
    return join(_placed(base_url, project, location), http, model, env)


def _placed(base_url: str, project: str, location: str) -> str:
    if _IN_PROJECT not in base_url:
        return base_url
    # A key of express mode belongs to a project by itself.
    if not project:
        return base_url.replace(_IN_PROJECT, "")
    location = location or "global"
    base_url = base_url.replace(_HOST, _host(path_segment(location)), 1)
    return base_url.replace("{project}", path_segment(project)).replace("{location}", path_segment(location))


def _host(location: str) -> str:
    if location == "global":
        return _HOST
    # Multi-regions have hosts of another form.
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((env[name].strip() for name in names if env.get(name, "").strip()), "")
