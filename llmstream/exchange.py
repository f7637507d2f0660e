"""One HTTP exchange as values: what dialects make and transports carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["HttpRequest", "HttpResponse", "redact_headers"]

_SECRET_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "cookie",
        "set-cookie",
        "x-amz-security-token",
    }
)


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The same headers with the values of those that carry credentials masked."""
    return {k: "***" if k.lower() in _SECRET_HEADERS else v for k, v in headers.items()}


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. Dialects give `url` relative to the provider's address ("/chat/completions")."""

    url: str
    body: bytes = b""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    method: str = "POST"

    def __repr__(self) -> str:
        return (
            f"HttpRequest({self.method} {self.url}, headers={redact_headers(self.headers)}, "
            f"{len(self.body)} bytes)"
        )

    def json(self) -> Any:
        """The body, parsed."""
        return msgspec.json.decode(self.body)


class HttpResponse(msgspec.Struct, frozen=True):
    """A whole answer; header names are lower case."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
