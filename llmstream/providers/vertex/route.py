"""Vertex AI's addresses, which hold a project and a location, and its two kinds of credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from llmstream.exchange import HttpRequest
from llmstream.providers.base import bearer, join, path_segment

__all__ = ["ADDRESS", "key_or_token", "vertex_route"]

ADDRESS: Final = "https://aiplatform.googleapis.com/v1/projects/{project}/locations/{location}"
"""Of the global location; others have hosts of their own."""

_TOKEN: Final = re.compile(r"ya29\..+|eyJ[\w-]+\.[\w-]+\.[\w-]+=*")
_HOST: Final = "https://aiplatform.googleapis.com"


def key_or_token(key: str) -> dict[str, str]:
    """A key of express mode in Google's header, an access token as Bearer."""
    return bearer(key) if _TOKEN.fullmatch(key) else {"x-goog-api-key": key}


def vertex_route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The whole URL, with project and location of the environment; express mode has neither.

    source: cloud.google.com, "Generative AI on Vertex AI locations", seen 2026-11
    """
    if "{project}" in base_url:
        project = _first(env, "GOOGLE_CLOUD_PROJECT", "GOOGLE_VERTEX_PROJECT", "GCLOUD_PROJECT")
        location = _first(env, "GOOGLE_CLOUD_LOCATION", "GOOGLE_VERTEX_LOCATION") or "global"
        if not project:
            base_url = base_url.replace("/projects/{project}/locations/{location}", "")
        else:
            base_url = base_url.replace(_HOST, _host(path_segment(location)), 1)
            base_url = base_url.replace("{project}", path_segment(project))
            base_url = base_url.replace("{location}", path_segment(location))
    return join(base_url, http, model, env)


def _host(location: str) -> str:
    if location == "global":
        return _HOST
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((env[name].strip() for name in names if env.get(name, "").strip()), "")
