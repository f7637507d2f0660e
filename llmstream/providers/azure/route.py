"""Azure's URLs, of which there are two kinds, and its two kinds of credentials."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from llmstream.exchange import HttpRequest
from llmstream.providers.base import Auth, Wire, bearer, join, path_segment
from llmstream.providers.openai.wire import other_wire
from llmstream.request import Request

__all__ = ["azure_address", "azure_route", "azure_wire", "key_or_token", "token_or"]

_VERSION_ENV: Final = ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION", "AZURE_API_VERSION")

# Of Foundry's `/models`, which refuses requests without one (seen 2026-11, litellm, Microsoft Learn).
_MODELS_VERSION: Final = "2024-05-01-preview"

# Endpoints of single models, which refuse a version (seen 2026-11, pydantic-ai).
_SERVERLESS: Final = ".models.ai.azure.com"

# A JSON web token of Entra; keys have no dots.
_TOKEN: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+=*")


def token_or(header: str) -> Auth:
    """An Entra token as Bearer, a resource's key in the header of this name."""
    return lambda key: bearer(key) if _TOKEN.fullmatch(key) else {header: key}


key_or_token: Final = token_or("api-key")


def azure_address(text: str) -> str:
    """The address of a resource, or its name alone (`AZURE_RESOURCE_NAME`)."""
    name = text.strip()
    # A bare word could be a host too; "localhost" is meant as one.
    alone = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", name) and name.lower() != "localhost"
    return f"https://{name}.openai.azure.com" if alone else name


def azure_route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The complete URL: below /openai/v1, or of one deployment where a dated version is set.

    base_url: an endpoint, or an address that ends in /v1 or /models or holds /deployments/, which is
        taken as it is; an `api-version` in its query counts before the environment's. /models always
        gets a version, endpoints of single models (*.models.ai.azure.com) never
    model:    the deployment
    source: learn.microsoft.com, Azure OpenAI "API version lifecycle", seen 2026-11
    """
    base, _, query = base_url.partition("?")
    base = base.rstrip("/")
    fields = dict(parse_qsl(query))
    own = fields.get("api-version")
    version = own or _version(env)
    parts = urlsplit(base)
    path = parts.path
    if (parts.hostname or "").endswith(_SERVERLESS):
        base = base if path else f"{base}/v1"
        sent = own
    elif "/deployments/" in path:
        sent = version
    # With the path of the call as well, as it is copied from a page of Foundry.
    elif path.endswith(("/models", f"/models{http.url}")):
        # "v1" and "preview" are names of the newer API, which Foundry's path does not know.
        sent = version if version is not None and version[:1].isdigit() else _MODELS_VERSION
    elif path.endswith(("/v1", http.url)):
        sent = own
    elif version is None or not version[:1].isdigit():
        # Endpoints are written with /openai as well as without.
        base = f"{base.removesuffix('/openai')}/openai/v1"
        sent = version
    else:
        base = f"{base.removesuffix('/openai')}/openai/deployments/{path_segment(model)}"
        sent = version
    if sent:
        fields["api-version"] = sent
    rest = f"?{urlencode(fields, quote_via=quote)}" if fields else ""
    return join(base + rest, http, model, env)


def azure_wire(request: Request, address: Callable[[], str]) -> Wire | None:
    """Responses where Azure serves the request only there, and the address is not of the older, dated API.

    The dated API has other models, whose names are those of deployments; it keeps its wire.
    """
    return other_wire(request, lambda: _serves_responses(address(), os.environ), provider="azure")


def _serves_responses(base_url: str, env: Mapping[str, str]) -> bool:
    base, _, query = base_url.partition("?")
    parts = urlsplit(base.rstrip("/"))
    path = parts.path
    if (parts.hostname or "").endswith(_SERVERLESS):
        # The endpoint of one model of another vendor.
        return False
    if path.endswith("/v1"):
        return True
    version = dict(parse_qsl(query)).get("api-version") or _version(env)
    dated = version is not None and version[:1].isdigit()
    return not dated and "/deployments/" not in path and not path.endswith("/models")


def _version(env: Mapping[str, str]) -> str | None:
    return next((env[name].strip() for name in _VERSION_ENV if env.get(name, "").strip()), None)
