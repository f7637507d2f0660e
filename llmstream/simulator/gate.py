"""What a request must bring to be let in: a key, a host name that is ours, the wish for a stream."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from llmstream.dialects.base import Dialect
from llmstream.errors import AuthenticationError, BadRequest, InvalidRequest, NotFound
from llmstream.exchange import HttpRequest, carries_secret, redact_headers

__all__ = [
    "check_bind",
    "check_key",
    "check_stream_asked",
    "host_is_local",
    "is_foreign_page",
    "masked",
    "no_such_path",
]

_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
_AWS_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/")
"""The access key id of a request signed for AWS."""

_SECRET_PARAMETERS: Final = frozenset({"sig", "code"})
"""Names of secrets in a query that headers have not; source: Azure, signatures and keys of functions."""

_WHOLE_BY_DEFAULT: Final = frozenset({"openai-chat", "openai-responses", "anthropic", "cohere", "mistral"})
"""Dialects whose vendors answer in one piece unless the body says `"stream": true`.

Clouds that serve them say it in the path: `invoke-with-response-stream`, `MODEL:streamRawPredict`.
"""

_WHOLE_PATHS: Final = {
    re.compile(r"[/]models/[^/]+(:|%3A)generateContent$", re.IGNORECASE): ":streamGenerateContent",
    re.compile(r"[/]models/[^/]+(:|%3A)rawPredict$", re.IGNORECASE): ":streamRawPredict",
    re.compile(r"/model/[^/]+/converse$"): "/converse-stream",
    re.compile(r"/model/[^/]+/invoke$"): "/invoke-with-response-stream",
}
"""Paths for an answer in one piece, and how their vendors name the same as a stream."""


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


def check_stream_asked(dialect: Dialect, http: HttpRequest) -> None:
    """The simulator only streams.

    raises: BadRequest where an answer in one piece is asked for
    """
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
    wanted = body.get("stream") if isinstance(body, dict) else None
    if wanted is None:
        action = http.url.partition("?")[0].rpartition("/")[2].lower()
        wanted = dialect.name not in _WHOLE_BY_DEFAULT or "stream" in action
    if not wanted:
        raise BadRequest(
            'the simulator only streams: ask with "stream": true', status=400, reason="invalid_request"
        )


def no_such_path(http: HttpRequest) -> BadRequest | NotFound:
    """The refusal of a path that no dialect knows, or that of an answer in one piece."""
    path = http.url.partition("?")[0]
    streamed = next((to for at, to in _WHOLE_PATHS.items() if at.search(path)), None)
    if http.method == "POST" and streamed is not None:
        return BadRequest(
            f"the simulator only streams: ask with {streamed}", status=400, reason="invalid_request"
        )
    return NotFound(
        f"no dialect of the simulator answers {http.method} {path}", status=404, reason="not_found"
    )


def masked(http: HttpRequest) -> HttpRequest:
    """The request without its secrets."""
    path, mark, query = http.url.partition("?")
    url = f"{path}{mark}{'&'.join(map(_masked_parameter, query.split('&')))}"
    return msgspec.structs.replace(http, url=url, headers=redact_headers(http.headers))


def _masked_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    plain = unquote(name).lower()
    return f"{name}=***" if equals and (carries_secret(plain) or plain in _SECRET_PARAMETERS) else parameter


def _is_loopback(host: str) -> bool:
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
