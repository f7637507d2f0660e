"""Egress: the proxy of a request, and a switch for tests that forbids requests to other machines.

The proxy comes from the environment, read as curl, Go and requests read it. Its address may contain a
password, so errors name the variable and show no part of the address.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from llmstream.environment import variables
from llmstream.errors import InvalidRequest, ProxyError

__all__ = [
    "check_may_leave",
    "proxy_for",
    "proxy_secrets",
    "requests_forbidden",
]

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORTS: Final = {"http": 80, "https": 443}
_ENTRIES: Final = re.compile(r"[\s,]+")
_NO_URL_CHARACTER: Final = re.compile(r"[\x00-\x20\x7f\\]")
_WITH_SYSTEM_PROXIES: Final = frozenset({"darwin", "win32"})
# Masking shorter passwords would mangle messages.
_SHORTEST_SECRET: Final = 6


def proxy_for(scheme: str, host: str, port: int | None = None) -> str | None:
    """The address of the environment's proxy for a target, or None; loopback is never proxied.

    port:   of the target; by default that of the scheme
    raises: ProxyError if the environment's proxy cannot be used
    """
    if host in _LOOPBACK:
        return None
    proxies = _proxies()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or _is_direct(proxies, host, port or _PORTS.get(scheme, 0)):
        return None
    return _usable(address, _source(scheme if proxies.get(scheme) else "all"))


def proxy_secrets() -> tuple[str, ...]:
    """Passwords of the environment's proxies: as written, decoded, and encoded as sent."""
    return tuple(
        {
            secret
            for address in _proxies().values()
            for secret in _credentials(address)
            if len(secret) >= _SHORTEST_SECRET
        }
    )


# The environment variables last read, and the proxies from them.
_known: tuple[Mapping[str, str] | None, dict[str, str]] = (None, {})


def _proxies() -> dict[str, str]:
    """The proxies by scheme, and "no"; read again after a variable has changed."""
    global _known
    current = variables()
    # Changes of system settings, or of an environment without a snapshot, are not detected.
    if sys.platform in _WITH_SYSTEM_PROXIES or current is os.environ:
        return urllib.request.getproxies()
    if _known[0] is not current:
        _known = (current, urllib.request.getproxies())
    return _known[1]


def _credentials(address: str) -> Iterator[str]:
    userinfo = address.rpartition("@")[0].rpartition("//")[2]
    user, _, password = userinfo.partition(":")
    if password:
        yield password
        yield unquote(password)
        yield base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode(errors="replace")).decode()


def _is_direct(proxies: dict[str, str], host: str, port: int) -> bool:
    """Whether `no_proxy` matches the target; without it, whether the system's list does."""
    if "no" in proxies:
        return any(_names(entry, host.lower(), port) for entry in _ENTRIES.split(proxies["no"]) if entry)
    # Linux has only this variable; macOS and Windows also have a system list.
    return bool(urllib.request.proxy_bypass(host))


def _names(entry: str, host: str, port: int) -> bool:
    """Whether an entry of `no_proxy` matches a target: `*`, a host, a domain, an address, a network."""
    if entry == "*":
        return True
    pattern, wanted = _split_port(entry.lower())
    if wanted is not None and wanted != port:
        return False
    address = _address(host)
    if address is not None:
        return _holds(pattern, address)
    name = pattern.removeprefix("*").lstrip(".").rstrip(".")
    host = host.rstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _split_port(entry: str) -> tuple[str, int | None]:
    """An entry and its port: `host:443`, `[::1]:443`; an IPv6 address without brackets has none."""
    name, colon, port = entry.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= 5):
        return entry.strip("[]"), None
    if ":" in name and not name.endswith("]"):
        return entry, None
    return name.strip("[]"), int(port)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _holds(pattern: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        return False


def _usable(address: str, source: str) -> str:
    """The proxy's address with a scheme; without one it is http, as in other tools.

    raises: ProxyError
    """
    text = address.strip()
    url = text if "://" in text else f"http://{text}"
    scheme = url.partition("://")[0].lower()
    if scheme.startswith("socks"):
        raise ProxyError(
            f"{source} names a SOCKS proxy, which is not supported. "
            "Set it to an HTTP proxy, as in http://user:password@host:port."
        )
    try:
        parts = urlsplit(url)
        usable = scheme in _PORTS and bool(parts.hostname) and parts.port != 0
        # An "@" after the host means that the password contains a character that ends the host, such as "/".
        usable = usable and not any("@" in part for part in (parts.path, parts.query, parts.fragment))
        usable = usable and not _NO_URL_CHARACTER.search(url)
    except ValueError:
        usable = False
    if not usable:
        raise ProxyError(
            f"{source} is not the address of a proxy. Write it as http://user:password@host:port, "
            "with the special characters of the password percent-encoded."
        )
    return url


def _source(kind: str) -> str:
    """The variable of the proxy's address, for messages; the lower-case name takes precedence, as in curl."""
    name = f"{kind}_proxy"
    found = [variable for variable in os.environ if variable.lower() == name]
    if not found:
        return "the proxy of the system's settings"
    return f"the environment variable {name if name in found else found[0]}"


# The number of active blocks; process-wide, because tests use their own threads and loops.
_forbidding = 0


@contextmanager
def requests_forbidden() -> Iterator[None]:
    """Makes requests to other machines an InvalidRequest within the block; loopback stays allowed."""
    global _forbidding
    _forbidding += 1
    try:
        yield
    finally:
        _forbidding -= 1


def check_may_leave(host: str) -> None:
    """Checks that requests to a host are allowed.

    raises: InvalidRequest
    """
    if _forbidding and not _is_loopback(host):
        raise InvalidRequest(
            f"a test forbids real requests, and this one would go to {host}. "
            "Use a ScriptedModel, or a Simulator and its url as base_url.",
            reason="forbidden",
        )


def _is_loopback(host: str) -> bool:
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
