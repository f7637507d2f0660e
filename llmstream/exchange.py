"""What dialects make and transports carry: an HTTP exchange as values, and the talk over a WebSocket."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

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
    "shown_address",
    "without_user",
]


# Azure's signatures and keys of functions; other secrets have the names of headers.
_SECRET_PARAMETERS = frozenset({"sig", "code"})

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


# Addresses for messages: enough to see which one is meant, and nothing that may be a credential.
#
# Passwords stand before an "@", signatures and keys behind a "?", and where an address is malformed
# nobody can say where one begins. So a message shows scheme, host and port, and less where these
# could be part of a password.

_SCHEME: Final = re.compile(r"([A-Za-z]{1,8}):/+")
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]?|[\w.-]*)(?::\d{0,5}(?!\w))?")
_END: Final = re.compile(r"[/?#\\]")
_HOST_CHARS: Final = 100


def shown_address(address: str) -> str:
    """An address as a message shows it: `'https://api.example/…'`, or `'https://…'` of a doubtful host."""
    match = _SCHEME.match(address.strip())
    scheme = match[0] if match else ""
    rest = address.strip()[len(scheme) :]
    if "://" in rest.partition("?")[0]:
        return repr(f"{scheme}…")
    if "@" in rest:
        rest = without_user(rest)
        if not rest:
            return repr(f"{scheme}…")
    found = _HOST.match(rest)
    host = found[0][:_HOST_CHARS] if found else ""
    return repr(f"{scheme}{host}{'…' if len(rest) > len(host) else ''}")


def without_user(rest: str) -> str:
    """What follows user and password behind the scheme; "" where it is not certain where they end."""
    authority = _END.split(rest, maxsplit=1)[0]
    if authority.count("@") != rest.count("@") or authority.count("@") > 1:
        # A password with a "/" ends the host early; what is shown would be a part of it.
        return ""
    return rest.partition("@")[2] if authority.count("@") else rest
