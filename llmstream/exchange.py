"""One HTTP exchange as values: what dialects make and transports carry."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["HttpRequest", "HttpResponse", "carries_secret", "redact_headers"]

_SECRET_WORDS = ("auth", "key", "token", "secret", "cookie", "password", "credential", "signature")


@functools.lru_cache
def carries_secret(name: str) -> bool:
    """Whether a header of this name is likely to hold a credential."""
    lower = name.lower()
    return any(word in lower for word in _SECRET_WORDS)


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The same headers with the values of those that carry credentials masked."""
    return {k: "***" if carries_secret(k) else v for k, v in headers.items()}


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. Dialects give `url` relative to the provider's address ("/chat/completions")."""

    url: str
    body: bytes = b""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    method: str = "POST"

    def __repr__(self) -> str:
        path, query, _ = self.url.partition("?")  # some vendors take the key in the query
        return (
            f"HttpRequest({self.method} {path}{query and '?***'}, headers={redact_headers(self.headers)}, "
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
