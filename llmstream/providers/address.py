"""Addresses: what people write as one, and what becomes of it and a dialect's path."""

from __future__ import annotations

import functools
import re
from typing import Final

from llmstream.errors import InvalidRequest

__all__ = ["checked_address", "extended", "is_local", "path_segment"]

_NO_URL_CHARACTER: Final = re.compile(r"[\x00-\x20\x7f\\]")
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def path_segment(text: str) -> str:
    """Text as one segment of a URL's path: nothing in it can lead elsewhere.

    raises: InvalidRequest for "", "." and "..", and for what is no Unicode text
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
    """The address with a path below it; queries of both are kept.

    An address that already ends in the path, as copied from a vendor's page, is left as it is.
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


@functools.lru_cache(maxsize=256)
def checked_address(text: str, *, provider: str, usual: str) -> str:
    """The address, with the scheme that was left out: that of the usual one, on this machine http.

    A host's name in other letters than ASCII becomes the form that name servers know.

    raises: InvalidRequest where it is no http(s) URL, or holds a password or a fragment
    """
    from urllib.parse import urlsplit

    url = text.strip()
    if "://" not in url:
        scheme = "http" if is_local(f"http://{url}") or usual.startswith("http://") else "https"
        url = f"{scheme}://{url}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
        if usable and not parts.netloc.isascii():
            host = (parts.hostname or "").encode("idna").decode()
            url = parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host).geturl()
    except ValueError:
        usable = False
    if usable and (parts.username is not None or parts.password is not None):
        raise InvalidRequest(
            "the address holds a user or a password. Pass api_key= or headers= instead.", provider=provider
        )
    if not usable or parts.fragment or _NO_URL_CHARACTER.search(url):
        raise InvalidRequest(f"not an http or https address: {text!r}. Check base_url.", provider=provider)
    return url
