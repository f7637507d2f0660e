"""Addresses and routes: reads what people write as a base URL, fills it, joins it with a dialect's path."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest, shown_address

__all__ = [
    "Route",
    "checked_address",
    "extended",
    "filled",
    "is_local",
    "join",
    "path_segment",
    "split_address",
    "version_of",
    "versioned",
    "versioned_host",
    "with_path",
    "without_version",
]

# Parsers drop these, or read a backslash as a slash: another host might get the key.
_NO_URL_CHARACTER: Final = re.compile(r"[\x00-\x20\x7f\\]")
# A scheme with a slash missing, a misspelling that would otherwise become a host.
_ONE_SLASH: Final = re.compile(r"[A-Za-z]+:/")
# Also v1beta and v3, and only complete segments.
_VERSION: Final = re.compile(r"/v\d\w*(?:/|$)")
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def path_segment(text: str) -> str:
    """Quotes text as one segment of a URL's path, so that it cannot lead to another path.

    raises: InvalidRequest for "", "." and "..", and for lone surrogates
    """
    if text in ("", ".", ".."):
        raise InvalidRequest(f"{text!r} cannot be part of an address")
    from urllib.parse import quote  # loaded with the first model: it takes as long as all of providers

    try:
        return quote(text, safe="-_.~")
    except UnicodeEncodeError:
        raise InvalidRequest(f"{text!r} cannot be part of an address") from None


@functools.lru_cache(maxsize=256)
def extended(base_url: str, path: str) -> str:
    """Appends a path to an address; the queries of both stay.

    An address that already ends in the path, as copied from a vendor's page, is returned as it is.
    """
    base, _, base_query = base_url.partition("?")
    path, _, path_query = path.partition("?")
    base = base.rstrip("/")
    url = base if base.endswith(path) else base + path
    query = "&".join(part for part in (path_query, base_query) if part)
    return f"{url}?{query}" if query else url


def is_local(url: str) -> bool:
    """Whether the address is this machine."""
    from urllib.parse import urlsplit

    return (urlsplit(url).hostname or "") in _LOCAL


def split_address(text: str) -> tuple[str, str, str]:
    """Splits an address in three: scheme and host, path without a slash at its end, query.

    The scheme may be missing; the query includes its "?".
    """
    base, mark, query = text.strip().partition("?")
    scheme, colon, rest = base.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{colon}{host}", f"{slash}{path}".rstrip("/"), f"{mark}{query}"


@functools.lru_cache(maxsize=256)  # asked at each call, of one address
def versioned(text: str) -> str:
    """Adds /v1 to an address, unless its path has a version.

    For servers whose own SDKs add /v1 to any address.
    """
    host, path, query = split_address(text)
    return f"{host}{path}{query}" if _VERSION.search(path) else f"{host}{path}/v1{query}"


def version_of(url: str) -> str:
    """The version in the path of an address, such as "/v1"; "" where there is none."""
    found = _VERSION.search(split_address(url)[1])
    return found[0].rstrip("/") if found else ""


@functools.lru_cache(maxsize=256)  # asked at each call, of one address
def versioned_host(text: str) -> str:
    """Adds /v1 to an address without a path; a path (a proxy's) stays as it is."""
    host, path, query = split_address(text)
    return f"{host}{path or '/v1'}{query}"


@functools.lru_cache(maxsize=256)  # asked at each call, of one address
def without_version(text: str, *versions: str) -> str:
    """Removes the version ("v1" by default) from the end of an address: the dialect's path has it."""
    host, path, query = split_address(text)
    versions = versions or ("v1",)
    ends = next((version for version in versions if path.endswith(f"/{version}")), None)
    return f"{host}{path if ends is None else path[: -len(ends) - 1]}{query}"


def with_path(path: str) -> Callable[[str], str]:
    """Makes a `Provider.normalize` that adds the path to an address without one."""

    def completed(address: str) -> str:
        base, mark, query = address.strip().partition("?")
        host = base.rpartition("://")[2].rstrip("/")
        return address if "/" in host else base.rstrip("/") + path + mark + query

    return completed


@functools.lru_cache(maxsize=256)
def checked_address(text: str, *, provider: str, usual: str) -> str:
    """Checks an address and completes a missing scheme: http for this machine, else that of the usual one.

    A host name with non-ASCII letters is encoded by IDNA.

    raises: InvalidRequest where it is no http(s) URL, or holds a password or a fragment
    """
    from urllib.parse import urlsplit

    url, parts = text.strip(), None
    try:
        if "://" not in url and not _ONE_SLASH.match(url):
            scheme = "http" if is_local(f"http://{url}") or usual.startswith("http://") else "https"
            url = f"{scheme}://{url}"
        parts = urlsplit(url)
        # `port` raises ValueError for one that is no number or too large.
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
        if usable and not parts.netloc.isascii():
            host = (parts.hostname or "").encode("idna").decode()
            url = parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host).geturl()
    except ValueError:
        usable = False
    # Credentials in an address end up in logs and errors.
    if usable and parts and (parts.username is not None or parts.password is not None):
        raise InvalidRequest(
            "the address holds a user or a password. Pass api_key= or headers= instead.", provider=provider
        )
    if not usable or not parts or parts.fragment or _NO_URL_CHARACTER.search(url):
        raise InvalidRequest(
            f"not an http or https address: {shown_address(text)}. Check base_url.", provider=provider
        )
    return url


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
    # People copy the complete address of their account.
    value = value.rpartition("://")[2].rstrip("/")
    if rest_of_host:
        value = value.removesuffix(rest_of_host)
    if not _PLAIN.fullmatch(value):
        raise InvalidRequest(f"{value!r} cannot be the {place} in an address. Check {' or '.join(names)}.")
    return value
