"""Forms of addresses: places that variables fill, a path to add, a version to take off."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.base import Route, join

__all__ = ["filled", "with_path", "without_version"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What may stand in a place: nothing that could lead a request, and its key, to another host."""


def filled(**places: tuple[str, ...]) -> Route:
    """A route that puts a variable into each place of the address, such as `{account}`.

    places: name of the place to the variables that may hold it, the first one set wins. A value may
        be the whole host where the address goes on with the rest of it: "acme.snowflakecomputing.com"
    raises (the result): InvalidRequest that names the variables, where none is set or it cannot stand there
    """

    def route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
        for place, names in places.items():
            before, mark, after = base_url.partition(f"{{{place}}}")
            if mark:
                base_url = before + _value(place, names, after.partition("/")[0], env) + after
        return join(base_url, http, model, env)

    return route


def with_path(path: str) -> Callable[[str], str]:
    """For `Provider.normalize`: a host alone gets the path, an address with a path is left as it is."""

    def extended(address: str) -> str:
        base, mark, query = address.strip().partition("?")
        host = base.rpartition("://")[2].rstrip("/")
        return address if "/" in host else base.rstrip("/") + path + mark + query

    return extended


def without_version(address: str) -> str:
    """For `Provider.normalize`: Anthropic's paths begin with /v1, which other SDKs want in the address."""
    base, mark, query = address.strip().partition("?")
    return base.rstrip("/").removesuffix("/v1") + mark + query


def _value(place: str, names: tuple[str, ...], rest_of_host: str, env: Mapping[str, str]) -> str:
    value = next((env[name].strip() for name in names if env.get(name, "").strip()), "")
    if not value:
        raise InvalidRequest(
            f"The address has a place for the {place}, which is not known. "
            f"Set {' or '.join(names)}, or pass base_url=."
        )
    value = value.rpartition("://")[2].rstrip("/")
    if rest_of_host:
        value = value.removesuffix(rest_of_host)
    if not _PLAIN.fullmatch(value):
        raise InvalidRequest(
            f"{value!r} cannot stand in an address as the {place}. Check {' or '.join(names)}."
        )
    return value
