"""A provider as data: a dialect, an address, a key, and what is peculiar about it.

A new provider is one folder beside this file whose `__init__.py` holds one `Provider`; the
registry finds it by the folder's name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote, urlsplit

from llmstream.dialects.base import Dialect
from llmstream.errors import InvalidRequest, MissingKey
from llmstream.exchange import HttpRequest

__all__ = ["Auth", "Provider", "Route", "bearer", "key_header", "no_auth", "path_segment"]

Auth: TypeAlias = Callable[[str], dict[str, str]]
"""A key to the headers that carry it."""

Route: TypeAlias = Callable[[str, HttpRequest, str, Mapping[str, str]], HttpRequest]
"""(base_url, request with a relative URL, model, environment) to the request with its whole URL."""


def bearer(key: str) -> dict[str, str]:
    """`Authorization: Bearer KEY`."""
    return {"authorization": f"Bearer {key}"}


def key_header(name: str) -> Auth:
    """A header of the vendor's own that holds the key."""
    return lambda key: {name: key}


def no_auth(key: str) -> dict[str, str]:
    """No credentials at all."""
    return {}


def path_segment(text: str) -> str:
    """Text as one segment of a URL's path: nothing in it can lead elsewhere."""
    if text in (".", ".."):
        raise InvalidRequest(f"{text!r} cannot be part of an address")
    return quote(text, safe="-_.~")


def join(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The usual route: the address, then the dialect's path."""
    base, _, query = base_url.partition("?")
    url = base.rstrip("/") + http.url
    if query:
        url += ("&" if "?" in http.url else "?") + query
    return HttpRequest(url, http.body, http.headers, http.method)



@dataclass(frozen=True, kw_only=True)
class Provider:
    """Who is spoken to, and how.

    name:         as in "name:model"
    dialect:      the wire, with this vendor's quirks
    base_url:     where the vendor's paths begin, as in its own SDK; may be "" where only the
                  environment or the caller knows it
    base_url_env: variables that may hold the address, the first one set wins
    key_env:      variables that may hold the key, the first one set wins
    auth:         how the key travels
    key_required: False for servers that run without one
    headers:      sent with every request
    header_env:   header name to the variable that may hold its value
    route:        how address and path become a URL
    aliases:      other names it is known by
    title, docs:  for people
    """

    name: str
    dialect: Dialect
    base_url: str
    base_url_env: tuple[str, ...] = ()
    key_env: tuple[str, ...] = ()
    auth: Auth = bearer
    key_required: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    header_env: Mapping[str, str] = field(default_factory=dict)
    route: Route = join
    aliases: tuple[str, ...] = ()
    title: str = ""
    docs: str = ""

    def address(self, given: str | None, env: Mapping[str, str] = os.environ) -> str:
        """The base URL: the caller's, else the environment's, else the vendor's.

        raises: InvalidRequest where there is none or it is no http(s) URL
        """
        url = given or next((env[name] for name in self.base_url_env if env.get(name)), "") or self.base_url
        if not url:
            names = " or ".join(self.base_url_env)
            raise InvalidRequest(
                f"No address for {self.name}. Pass base_url=" + (f" or set {names}." if names else ".")
            )
        if "://" not in url:
            url = f"http://{url}"
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
        except ValueError:
            usable = False
        if not usable:
            raise InvalidRequest(f"{self.name}: not an http or https address: {url!r}. Check base_url.")
        return url

    def key(self, given: str | None, env: Mapping[str, str] = os.environ) -> str | None:
        """The key: the caller's, else the environment's; None where none is needed.

        raises: MissingKey
        """
        key = given or next((env[name] for name in self.key_env if env.get(name)), None)
        if key is None and self.key_required:
            names = " or ".join(self.key_env)
            remedy = f"Set {names} or pass api_key=." if names else "Pass api_key=."
            raise MissingKey(f"No key for {self.name}. {remedy}", provider=None)
        return key.strip() if key is not None else None

    def prepare(
        self,
        http: HttpRequest,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> HttpRequest:
        """The dialect's request with address, credentials and headers: ready to be sent.

        raises: MissingKey, InvalidRequest
        """
        key = self.key(api_key, env)
        routed = self.route(self.address(base_url, env), http, model, env)
        from_env = {name: env[var] for name, var in self.header_env.items() if env.get(var)}
        auth = self.auth(key) if key is not None else {}
        merged: dict[str, str] = {}
        for group in (http.headers, self.headers, from_env, auth, headers or {}):
            merged.update({name.lower(): value for name, value in group.items()})
        return HttpRequest(routed.url, routed.body, merged, routed.method)

    async def ready(self) -> str | None:
        """Called before the first request; the simulator starts here and says its address."""
        return None
