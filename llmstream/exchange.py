"""Values between dialects and transports: an HTTP request, its response, and the protocol of a WebSocket."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

__all__ = [
    "HttpRequest",
    "HttpResponse",
    "MessageKind",
    "SocketProtocol",
    "Steering",
    "carries_secret",
    "carries_secret_parameter",
    "public_address",
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
    """Masks the values of headers that carry credentials."""
    return {k: "***" if carries_secret(k) else v for k, v in headers.items()}


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. The `url` of a dialect is relative to the provider's base URL ("/chat/completions")."""

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
        """Returns the parsed body."""
        return msgspec.json.decode(self.body)


class HttpResponse(msgspec.Struct, frozen=True):
    """A complete response; header names are lower case."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = msgspec.field(default_factory=dict)


MessageKind: TypeAlias = Literal["unrelated", "response", "reconnect"]
"""A message of the server: unrelated to the response; part of it; or a refusal of only this socket."""


class Steering(Protocol):
    """User input that is sent into a response.

    message: as sent
    settled: the server has accepted or refused it
    """

    message: bytes
    settled: bool

    @property
    def error(self) -> Exception | None:
        """Why the server refused it, or None."""
        ...


class SocketProtocol(Protocol):
    """The state of one WebSocket: requests one after the other, each with its response. No I/O."""

    @property
    def is_idle(self) -> bool:
        """Whether no response is in progress, and nothing more follows the last one."""
        ...

    @property
    def has_response_id(self) -> bool:
        """Whether the id of the current response is known; steering names it."""
        ...

    def continues(self, request: Any) -> bool:
        """Whether a request continues the last response, so that only new items need to be sent."""
        ...

    def send(self, request: Any) -> bytes:
        """Returns the message to send for a request."""
        ...

    def receive(self, message: bytes) -> MessageKind:
        """Handles a message from the server."""
        ...

    def steer(self, content: Any) -> Steering:
        """Returns user input for the current response.

        raises: Unsupported if this server accepts none
        """
        ...


# URLs for messages: enough to recognize them, and nothing that may be a credential.
#
# Passwords stand before an "@", signatures and keys behind a "?", and in a malformed address their position
# is unclear. So a message shows scheme, host and port, and less if these could be part of a password.

_SCHEME: Final = re.compile(r"([A-Za-z]{1,8}):/+")
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]?|[\w.-]*)(?::\d{0,5}(?!\w))?")
_END: Final = re.compile(r"[/?#\\]")
# An address may be text that was pasted by mistake; a host with more characters is no real one.
_HOST_CHARS: Final = 100


def shown_address(address: str) -> str:
    """Returns a URL for messages: `'https://api.example/…'`, or `'https://…'` if the host is in doubt."""
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


def public_address(url: str) -> str:
    """Returns a valid URL for reports: without user, password and query, which may be secret."""
    from urllib.parse import urlsplit  # only reports need it

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def without_user(rest: str) -> str:
    """Returns the part behind user and password; "" if it is unclear where they end."""
    authority = _END.split(rest, maxsplit=1)[0]
    if authority.count("@") != rest.count("@") or authority.count("@") > 1:
        # A password with a "/" would end the host early, and the message would show a part of it.
        return ""
    return rest.partition("@")[2] if authority.count("@") else rest
