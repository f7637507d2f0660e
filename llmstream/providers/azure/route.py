"""Azure's URLs, of which there are two kinds, and its two kinds of credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from llmstream.exchange import HttpRequest
from llmstream.providers.base import bearer, join, path_segment

__all__ = ["azure_route", "key_or_token"]

_VERSION_ENV: Final = ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION")
_TOKEN: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+=*")
"""A JSON web token, as Entra gives them; keys have no dots."""


def key_or_token(key: str) -> dict[str, str]:
    """A resource's key in the header `api-key`, an Entra token as Bearer."""
    return bearer(key) if _TOKEN.fullmatch(key) else {"api-key": key}


def azure_route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The whole URL: below /openai/v1, or of one deployment where a dated version is asked for.

    base_url: an endpoint, or an address that ends in /v1 or /models or holds /deployments/, which is
        taken as it is; an `api-version` in its query counts before the environment's
    model:    the deployment
    source: learn.microsoft.com, Azure OpenAI "API version lifecycle", seen 2026-11
    """
    base, _, query = base_url.partition("?")
    base = base.rstrip("/")
    fields = dict(parse_qsl(query))
    own = fields.get("api-version")
    version = own or next((env[name].strip() for name in _VERSION_ENV if env.get(name, "").strip()), None)
    path = urlsplit(base).path
    if "/deployments/" in path:
        sent = version
    elif path.endswith(("/v1", "/models", http.url)):
        sent = own
    elif version is None or not version[:1].isdigit():
        base = f"{base.removesuffix('/openai')}/openai/v1"
        sent = version
    else:
        base = f"{base.removesuffix('/openai')}/openai/deployments/{path_segment(model)}"
        sent = version
    if sent:
        fields["api-version"] = sent
    rest = f"?{urlencode(fields, quote_via=quote)}" if fields else ""
    return join(base + rest, http, model, env)
