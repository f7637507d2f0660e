"""What dialects make and transports carry: an HTTP exchange as values, and the talk over a WebSocket."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

__all__ = [
    "Heard",
    "HttpRequest",
    "HttpResponse",
    "Steering",
    "Talk",
    "carries_secret",
    "carries_secret_parameter",
    "redact_headers",
]

_SECRET_PARAMETERS = frozenset({"sig", "code"})
"""Azure's signatures and keys of functions; others are called by the names that headers have."""
_SECRET_WORDS = ("auth", "key", "token", "secret", "cookie", "password", "credential", "signature")


@functools.lru_cache
def carries_secret(name: str) -> bool:
    """Whether a header of this name is likely to hold a credential."""
    lower = name.lower()
    return any(word in lower for word in _SECRET_WORDS)


def carries_secret_parameter(name: str) -> bool:
    """Whether a parameter of a query is likely to hold a credential."""
    return carries_secret(name) or name.lower() in _SECRET_PARAMETERS


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
    """A complete response; header names are lower case."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = msgspec.field(default_factory=dict)


Heard: TypeAlias = Literal["beside", "answer", "moved"]
"""What a message is: beside the answer, a part of it, or the refusal of this socket, not of the request."""


class Steering(Protocol):
    """User input that is sent into a response.

    message: as it is sent
    settled: the server has accepted or refused it
    """

    message: bytes
    settled: bool

    @property
    def error(self) -> Exception | None:
        """Why the server refused it; None otherwise."""
        ...


class Talk(Protocol):
    """The messages over one WebSocket: requests one after the other, each with its answer. No I/O."""

    @property
    def at_rest(self) -> bool:
        """Whether no answer is under way, and nothing more will come of the last one."""
        ...

    @property
    def named(self) -> bool:
        """Whether the answer under way has a name, by which it can be steered."""
        ...

    def continues(self, request: Any) -> bool:
        """Whether a request goes on from the last answer, so that only what is new needs to be sent."""
        ...

    def ask(self, request: Any) -> bytes:
        """The message that asks for an answer."""
        ...

    def hear(self, message: bytes) -> Heard:
        """Takes note of a message from the server."""
        ...

    def steer(self, content: Any) -> Steering:
        """User input for the answer under way.

        raises: Unsupported, where this server takes none
        """
        ...
