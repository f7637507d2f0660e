"""Servers for this machine only: which hosts are loopback, and which requests come from a remote web page.

A remote web page can send requests to 127.0.0.1: by its own name resolving to that address (DNS rebinding),
or as a cross-site request. Browsers report both in headers that pages cannot set.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

__all__ = ["host_is_local", "is_foreign_page", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether a server on that host is reachable only from this machine."""
    # A fully qualified name may end in a dot.
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_is_local(header: str | None) -> bool:
    """Whether a Host header names this machine; a remote web page cannot send that."""
    if not header:
        return False
    match = re.fullmatch(r"(\[[^\]]+\]|[^:]+)(?::\d+)?", header.strip())
    return match is not None and is_loopback(match.group(1).strip("[]"))


def is_foreign_page(headers: Mapping[str, str]) -> bool:
    """Whether a remote web page sent the request: browsers report it, programs send no such header.

    Pages of this machine are accepted on any port. "null" is a page that hides its origin.
    """
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "").lower() == "cross-site"
    scheme, _, host = origin.strip().partition("://")
    return scheme.lower() not in ("http", "https") or not host_is_local(host)
