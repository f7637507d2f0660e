"""A provider as data: a dialect, an address, a key, and what this vendor does differently.

A new provider is one module beside this one that holds one `Provider`; the registry finds it by the module's
name. It takes all it needs from here.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from llmstream.dialects.base import Dialect
from llmstream.errors import (
    AuthenticationError,
    ConnectionFailed,
    InvalidRequest,
    LLMStreamError,
    MissingKey,
    NotFound,
)
from llmstream.exchange import HttpRequest, shown_address
from llmstream.request import Request

__all__ = [
    "NOT_FOUND_AT",
    "Auth",
    "ChooseWire",
    "Provider",
    "Route",
    "Sign",
    "Wire",
    "bearer",
    "checked_address",
    "extended",
    "filled",
    "is_local",
    "join",
    "key_header",
    "no_auth",
    "path_segment",
    "split_address",
    "version_of",
    "versioned",
    "versioned_host",
    "with_path",
    "without_version",
]

NOT_FOUND_AT: Final = " The request was "
"""Precedes the URL in the message of an error 404; a gateway removes it and the URL for its clients."""

# Addresses and routes: reads what people write as a base URL, fills it, joins it with a dialect's path.


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


@functools.lru_cache(maxsize=256)  # called at each request, for one address
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


@functools.lru_cache(maxsize=256)  # called at each request, for one address
def versioned_host(text: str) -> str:
    """Adds /v1 to an address without a path; a path (a proxy's) stays as it is."""
    host, path, query = split_address(text)
    return f"{host}{path or '/v1'}{query}"


@functools.lru_cache(maxsize=256)  # called at each request, for one address
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


# The type.


Auth: TypeAlias = Callable[[str], dict[str, str]]
"""Maps a key to the headers that carry it."""

Sign: TypeAlias = Callable[[HttpRequest, Mapping[str, str]], HttpRequest]
"""Maps (request as it will be sent, environment) to the same with a signature; called for every attempt."""


@dataclass(frozen=True)
class Wire:
    """Another wire of the same vendor, for one request.

    why: the warning for the caller; None where the wire is the same and only its rules differ
    """

    dialect: Dialect
    why: str | None = None


ChooseWire: TypeAlias = Callable[[Request, Callable[[], str]], Wire | None]
"""Maps (request, a function that returns the address) to the wire to use; None for the usual."""


def bearer(key: str) -> dict[str, str]:
    """`Authorization: Bearer KEY`."""
    return {"authorization": f"Bearer {key}"}


def key_header(name: str) -> Auth:
    """Sends the key in a header of this name."""
    return lambda key: {name: key}


def no_auth(key: str) -> dict[str, str]:
    """Sends no credentials."""
    return {}


def _as_written(address: str) -> str:
    return address


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Who serves models, and how to reach and address it.

    name:         as in "name:model"
    dialect:      the wire, with this vendor's quirks
    base_url:     where the vendor's paths begin, as in its own SDK; may be "" where only the
                  environment or the caller has it
    base_url_env: variables that may hold the address, the first one set wins
    normalize:    turns an address as people write it into the base URL
    key_env:      variables that may hold the key, the first one set wins
    auth:         the headers that carry the key
    token_env:    variables that may hold a token instead, sent as Bearer where no key is set
    account_env:  further variables that identify the account, for the key of `cache`
    key_required: False for servers that run without one
    headers:      sent with every request
    header_env:   header name to the variable that may hold its value
    required_headers: header name (lower case) to the word for it in errors: from `header_env` or the caller
    route:        how address and path become a URL
    wire:         picks another wire for requests that the vendor takes there only; None where there is none
    sign:         signs what will be sent where no key is set; None where there is nothing to sign with
    idempotency_header: header by which the vendor recognises a repeated request
    aliases:      other names it is known by
    title, docs:  for people: the vendor's name for it, and the URL of its reference
    notes:        for people: the one thing to know about it, a line of Markdown; the module's docstring
                  has the others
    cached_input_is_free: whether rate limits leave out input that was read from the vendor's cache
    counter:      returns the dialect whose endpoint counts tokens, where that is not `dialect`
    hint:         what to do when the connection is refused, for servers that people start themselves
    """

    name: str
    dialect: Dialect
    base_url: str
    base_url_env: tuple[str, ...] = ()
    normalize: Callable[[str], str] = _as_written
    key_env: tuple[str, ...] = ()
    auth: Auth = bearer
    token_env: tuple[str, ...] = ()
    account_env: tuple[str, ...] = ()
    key_required: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    header_env: Mapping[str, str] = field(default_factory=dict)
    required_headers: Mapping[str, str] = field(default_factory=dict)
    route: Route = join
    wire: ChooseWire | None = None
    sign: Sign | None = None
    idempotency_header: str = ""
    aliases: tuple[str, ...] = ()
    title: str = ""
    docs: str = ""
    notes: str = ""
    hint: str = ""
    cached_input_is_free: bool = False
    counter: Callable[[], Dialect] | None = None

    def address(self, given: str | None, env: Mapping[str, str] = os.environ) -> str:
        """The base URL: the caller's, else the environment's, else the vendor's.

        raises: InvalidRequest where there is none or it is no http(s) URL
        """
        url = _text(given, "base_url").strip() or _first(self.base_url_env, env) or self.base_url
        if not url:
            names = " or ".join(self.base_url_env)
            raise InvalidRequest(
                "no address. Pass base_url=" + (f" or set {names}." if names else "."), provider=self.name
            )
        return checked_address(self.normalize(url), provider=self.name, usual=self.base_url)

    def key(self, given: str | None, env: Mapping[str, str] = os.environ) -> str | None:
        """The key: the caller's, else the environment's; None where none is needed.

        raises: MissingKey, and InvalidRequest for a key that is not valid in a header
        """
        return self._credentials(given, env)[0]

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
        """Adds address, credentials and headers to the dialect's request, which then is ready to be sent.

        raises: MissingKey, InvalidRequest
        """
        try:
            key, auth = self._credentials(api_key, env)
        except MissingKey as error:
            if base_url:  # servers on one's own machine mostly have no keys
                error.message += " If the server at base_url needs no key, any text will do."
                error.args = (error.message,)
            raise
        routed = self.route(self.address(base_url, env), http, model, env)
        from_env = {name: value for name, var in self.header_env.items() if (value := env.get(var))}
        credentials = auth(key) if key is not None else {}
        # From the most general to the caller's own, which wins.
        groups = (routed.headers, self.headers, from_env, credentials, headers or {})
        try:
            # Lower case, so that each name occurs once, however each group spells it. A name without capitals
            # stays the same object: each open stream holds its headers.
            merged = {
                name if str.islower(name) else name.lower(): value
                for group in groups
                for name, value in group.items()
            }
        except TypeError:
            raise InvalidRequest("header names must be str") from None
        for name, word in self.required_headers.items():
            if not merged.get(name):
                variable = self.header_env.get(name)
                ways = (f"Set {variable}, or pass" if variable else "Pass") + f" headers={{{name!r}: ...}}."
                raise InvalidRequest(f"No {word} for {self.name}. {ways}")
        sent = HttpRequest(routed.url, routed.body, merged, routed.method)
        return self.sign(sent, env) if key is None and self.sign is not None else sent

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMStreamError:
        """The typed error of a response that is no stream; a refused key names its variable."""
        error = self.dialect.decode_error(status, headers, body, provider=self.name)
        if isinstance(error, AuthenticationError):
            error.message = f"{_ended(error.message)} {self._remedy('Check')}"
            # `str(error)` reads args, not the message.
            error.args = (error.message,)
        return error

    def explain(self, error: LLMStreamError, http: HttpRequest) -> None:
        """Adds what depends on the address to an error: the URL that was not found, the server to start.

        http: the request as it was sent; the query of its URL is not shown
        """
        if isinstance(error, ConnectionFailed) and self.hint:
            error.message = f"{_ended(error.message)} {self.hint}"
        elif isinstance(error, NotFound):
            url = http.url.partition("?")[0]
            error.message = f"{_ended(error.message)}{NOT_FOUND_AT}{http.method} {url}"
            error.message += self._missing_version(url) or _not_found_remedy(error)
        error.args = (error.message,)

    def _missing_version(self, url: str) -> str:
        """A hint with the version of the vendor's own address, where the URL has none."""
        usual = version_of(self.base_url)
        if not usual or version_of(url):
            return ""
        scheme, _, rest = url.partition("://")
        return f'; did you mean base_url="{scheme}://{rest.partition("/")[0]}{usual}"?'

    def learn(self, url: str, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Learns from a refusal, such as the server's time; returns whether to retry.

        url:     of the request
        headers: names in lower case
        """
        return False

    async def ready(self, model: str, key: str | None) -> str | None:
        """Prepares a request that has no base_url of the caller's; returns an address to use instead, if any.

        A provider that runs its own server starts it here.

        key: the caller's
        """
        return None

    def _credentials(self, given: str | None, env: Mapping[str, str]) -> tuple[str | None, Auth]:
        """The key or token, and the headers for it."""
        # Keys are pasted, with a line feed at the end.
        key = _text(given, "api_key").strip() or _first(self.key_env, env)
        token = "" if key else _first(self.token_env, env)
        if not key and not token:
            if self.key_required:
                raise MissingKey(f"no API key. {self._remedy('Set')}", provider=self.name)
            return None, self.auth
        found = key or token
        # A line feed would begin another header.
        if not (found.isascii() and found.isprintable()):
            raise InvalidRequest(
                f"The key for {self.name} has a character that is not valid in a header. "
                + self._remedy("Check")
            )
        return found, self.auth if key else bearer

    def _remedy(self, verb: str) -> str:
        names = " or ".join((*self.key_env, *self.token_env))
        return f"{verb} {names} or pass api_key=." if names else "Pass api_key=."


def _not_found_remedy(error: NotFound) -> str:
    """What to check after a 404, which vendors send for an unknown model as for a wrong path."""
    if "base_url" in error.message:  # of a web page
        return ""
    if "model" in error.message.partition(NOT_FOUND_AT)[0].lower():
        return ". Check the model's name; `await model.check()` finds similar ones."
    return ". Check base_url."


def _ended(text: str) -> str:
    """The text, ended by a full stop."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _text(given: object, name: str) -> str:
    """The caller's value, "" for None. Errors do not show it, as it may be a key."""
    if given is not None and not isinstance(given, str):
        raise InvalidRequest(f"{name} is a str, not {type(given).__name__}")
    return given or ""


def _first(names: tuple[str, ...], env: Mapping[str, str]) -> str:
    """The first of the variables that holds anything but white space."""
    return next((value for name in names if (value := env.get(name, "").strip())), "")
