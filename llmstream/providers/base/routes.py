"""Routes: how an address and a dialect's path become a URL, and the variables that fill an address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.base.address import extended

__all__ = ["Route", "filled", "join"]

Route: TypeAlias = Callable[[str, HttpRequest, str, Mapping[str, str]], HttpRequest]
"""Maps (base_url, request with a relative URL, model, environment) to the request with its complete URL."""

# Values for a place: nothing that could send a request, and its key, to another host.
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def join(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The usual route: the address, then the dialect's path."""
    return HttpRequest(extended(base_url, http.url), http.body, http.headers, http.method)


def filled(**places: tuple[str, ...]) -> Route:
    """Makes a route that fills each place of the address, such as `{account}`, from a variable.

    places: name of the place to the variables that may hold it, the first one set wins. A value may
        be the complete host where the address continues with the rest of it: "acme.snowflakecomputing.com"
    raises (the route): InvalidRequest that names the variables, where none is set or its value is not valid
    """

    def route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
        for place, names in places.items():
            before, mark, after = base_url.partition(f"{{{place}}}")
            if mark:
                base_url = before + _value(place, names, after.partition("/")[0], env) + after
        return join(base_url, http, model, env)

    return route


def _value(place: str, names: tuple[str, ...], rest_of_host: str, env: Mapping[str, str]) -> str:
    value = next((env[name].strip() for name in names if env.get(name, "").strip()), "")
    if not value:
        raise InvalidRequest(f"The address needs the {place}. Set {' or '.join(names)}, or pass base_url=.")
    value = value.rpartition("://")[2].rstrip("/")
    if rest_of_host:
        value = value.removesuffix(rest_of_host)
    if not _PLAIN.fullmatch(value):
        raise InvalidRequest(f"{value!r} cannot be the {place} in an address. Check {' or '.join(names)}.")
    return value
