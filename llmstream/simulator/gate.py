"""Request admission: API key, Host header, a path that some vendor has."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.errors import AuthenticationError, InvalidRequest, NotFound
from llmstream.exchange import HttpRequest, carries_secret_parameter, redact_headers

__all__ = [
    "check_bind",
    "check_key",
    "host_is_local",
    "is_foreign_page",
    "is_known_path",
    "masked",
    "no_such_path",
    "usual_path",
]

_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
_AWS_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/")
"""The access key id of a request signed for AWS."""


def check_bind(host: str, *, allow_remote: bool) -> None:
    """Refuses an address that others can reach, unless that is wanted.

    raises: InvalidRequest
    """
    if not allow_remote and not _is_loopback(host):
        raise InvalidRequest(
            f"the simulator would listen on {host!r}, where others can reach it. "
            "Use 127.0.0.1, or pass allow_remote=True."
        )


def host_is_local(header: str | None) -> bool:
    """Whether a Host header names this machine: a web page elsewhere cannot make it do that."""
    if not header:
        return False
    match = re.fullmatch(r"(\[[^\]]+\]|[^:]+)(?::\d+)?", header.strip())
    return match is not None and _is_loopback(match.group(1).strip("[]"))


def is_foreign_page(headers: Mapping[str, str]) -> bool:
    """Whether a web page of another place sends this: browsers say so, and programs say nothing.

    A page of this machine may ask, whatever its port; "null" is a page that hides where it is from.
    """
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "").lower() == "cross-site"
    scheme, _, host = origin.strip().partition("://")
    return scheme.lower() not in ("http", "https") or not host_is_local(host)


def check_key(headers: Mapping[str, str], keys: Collection[str] | None) -> None:
    """Whether one of the keys was sent, in any vendor's header; None takes everything.

    Of a request signed for AWS the access key id is the key; the signature is not looked at.

    raises: AuthenticationError
    """
    if keys is None:
        return
    authorization = headers.get("authorization", "")
    scheme, _, token = authorization.partition(" ")
    given = [headers[name] for name in _KEY_HEADERS if headers.get(name)]
    if scheme.lower() == "bearer":
        given.append(token.strip())
    elif signed := _AWS_CREDENTIAL.match(authorization):
        given.append(signed[1])
    for one in given:
        sent = one.encode("utf-8", "surrogateescape")  # a header may hold any bytes
        if any(hmac.compare_digest(sent, key.encode()) for key in keys):
            return
    words = "the API key is not valid" if given else "no API key was sent"
    raise AuthenticationError(
        f"{words}; the simulator wants one of its own", status=401, reason="invalid_api_key"
    )


def no_such_path(http: HttpRequest, usual: str | None) -> NotFound:
    """The refusal of a path that no vendor has; `usual` is the one that was probably meant."""
    path = http.url.partition("?")[0]
    meant = ""
    if usual:
        meant = f" Did you mean {usual}? Check base_url, or leave out strict_paths (simulate --any-path)."
    return NotFound(f"Invalid URL ({http.method} {path}).{meant}", status=404, reason=UNKNOWN_PATH)


def masked(http: HttpRequest) -> HttpRequest:
    """The request without its secrets."""
    path, mark, query = http.url.partition("?")
    url = f"{path}{mark}{'&'.join(map(_masked_parameter, query.split('&')))}"
    return msgspec.structs.replace(http, url=url, headers=redact_headers(http.headers))


def _masked_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=***" if equals and carries_secret_parameter(unquote(name)) else parameter


def _is_loopback(host: str) -> bool:
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_OPENAI: Final = "|".join(
    (
        "/v1",
        "/(api|engines|inference|serverless|zen|compatible-mode|openai)/v1",
        "/v1/(openai|solar)",
        "/v1beta/openai",
        "/api/(v3|paas/v4|v2/cortex/v1)",
        "/openai/deployments/[^/]+",
        "/client/v4/accounts/[^/]+/ai/v1",
        "/v1(beta1)?/projects/[^/]+/locations/[^/]+/endpoints/openapi",
        "/serving-endpoints",
    )
)
"""Where OpenAI's paths begin: at OpenAI, on Azure, and at the vendors that imitate it."""

_ANTHROPIC: Final = "(/(api/)?anthropic|/coding|/zen)?/v1"
_GOOGLE: Final = "/v1(beta|alpha|beta1)?(/projects/[^/]+/locations/[^/]+)?(/publishers/[^/]+)?"

_KNOWN: Final = re.compile(
    "|".join(
        (
            rf"({_OPENAI})/(chat/completions|responses(/.*)?|models(/[^/]+)?)",
            rf"{_ANTHROPIC}/(messages(/count_tokens)?|models(/[^/]+)?)",
            rf"{_GOOGLE}/((models|tunedModels|endpoints)(/[^/]+)?|interactions(/[^/]+)?)",
            "/model/[^/]+/(converse|converse-stream|invoke|invoke-with-response-stream|count-tokens)",
            "/v2/chat|/v1/models(/[^/]+)?",
            "/api/(chat|show|tags|version)",
            "",
        )
    )
)

_USUAL: Final = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/MODEL:streamGenerateContent",
    "gemini-interactions": "/v1beta/interactions",
    "bedrock-converse": "/model/MODEL/converse-stream",
    "cohere": "/v2/chat",
    "mistral": "/mistral/v1/chat/completions",
    "ollama": "/api/chat",
}


def is_known_path(url: str) -> bool:
    """Whether some vendor has a path; the name of a dialect may stand before it."""
    path = url.partition("?")[0].rstrip("/")
    first, _, rest = path[1:].partition("/")
    return _KNOWN.fullmatch(f"/{rest}" if first in _USUAL else path) is not None


def usual_path(dialect: str) -> str | None:
    """Where the simulator serves a dialect."""
    return _USUAL.get(dialect)
