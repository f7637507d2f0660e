"""Which URLs and addresses may be downloaded from: those of the public internet.

A URL in a conversation may come from anybody. It must not make this machine connect to itself, to its
network, or to the cloud that runs it. So only addresses known to be public are allowed; for an address
inside another (mapped, NAT64), the inner one counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import msgspec
from yarl import URL

__all__ = ["DownloadLimits", "refused_address", "refused_url"]


class DownloadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one download.

    max_bytes:     of the decompressed content
    total_s:       seconds for names, connections, redirects and content together
    max_redirects: how many are followed; each is checked like the first address
    allow_private: loopback and private networks too. Addresses at which clouds return credentials
                   (169.254.169.254 and others) are always refused
    allow_http:    http:// as well as https://
    media_types:   allowed beginnings of media types, by kind of part; a kind that is not listed
                   allows any type
    """

    max_bytes: int = 20 * 1024 * 1024
    total_s: float = 30.0
    max_redirects: int = 3
    allow_private: bool = False
    allow_http: bool = False
    media_types: Mapping[str, tuple[str, ...]] = msgspec.field(
        default_factory=lambda: {"image": ("image/",), "audio": ("audio/",)}
    )


_METADATA: Final = tuple(
    map(
        IPv4Network,
        (
            "169.254.0.0/16",  # link-local: AWS, Google, Azure, DigitalOcean, ECS tasks
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure's host, in the middle of public space
            "192.0.0.192/32",  # Oracle
        ),
    )
)
_NEVER_V4: Final = tuple(map(IPv4Network, ("0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4")))
# source: IANA IPv4 Special-Purpose Address Registry
_NOT_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
        ),
    )
)

_METADATA_V6: Final = (
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),  # AWS
    IPv6Network("fd20:ce::254/128"),  # Google
)
_PRIVATE_V6: Final = (IPv6Network("fc00::/7"), IPv6Network("::1/128"))
_PUBLIC_V6: Final = IPv6Network("2000::/3")
# source: IANA IPv6 Special-Purpose Address Registry
_NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",
            "2002::/16",  # 6to4
            "3fff::/20",
        ),
    )
)

_NAT64: Final = IPv6Network("64:ff9b::/96")
_NUMBER: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z", re.IGNORECASE)
_QUAD: Final = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}\Z")
_UNSEEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
_LOCAL_NAMES: Final = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")


def refused_url(url: str, limits: DownloadLimits) -> str | None:
    """Why a URL is refused before its name is resolved; None if it is allowed.

    The text follows "cannot be fetched: ".
    """
    if _UNSEEN.search(url):
        return "it holds white space, a control character or a backslash"
    try:
        parsed = URL(url)
        host, port = parsed.raw_host or "", parsed.port
    except (ValueError, UnicodeError):
        return "it is not a valid URL"
    schemes = ("https", "http") if limits.allow_http else ("https",)
    if parsed.scheme not in schemes:
        return f"its scheme is {parsed.scheme or 'missing'!r}, allowed is {' or '.join(schemes)}"
    if not host or not port:
        return "it names no host or no usable port"
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        return "it holds credentials"
    return _refused_host(host, limits)


def refused_address(address: str, *, allow_private: bool = False) -> str | None:
    """Why an IP address is refused; None if it is public, or private and allowed."""
    try:
        known = ip_address(address)
    except ValueError:
        return f"{address!r} is not an IP address"
    if isinstance(known, IPv6Address):
        if known.scope_id is not None:
            return f"{address} is bound to a network interface"
        inner = known.ipv4_mapped
        if inner is None and known in _NAT64:
            inner = IPv4Address(int(known) & 0xFFFFFFFF)
        if inner is None:
            return _refused_v6(known, allow_private)
        known = inner
    return _refused_v4(known, allow_private)


def _refused_host(host: str, limits: DownloadLimits) -> str | None:
    if ":" in host:
        return refused_address(host, allow_private=limits.allow_private)
    if host.endswith("."):
        return "its host ends in a dot"
    if "%" in host or ".." in host or host.startswith("."):
        return "its host is not a valid name"
    labels = host.lower().split(".")
    if _QUAD.match(host):
        return refused_address(host, allow_private=limits.allow_private)
    if _NUMBER.match(labels[-1]):
        return "its host is a number in an unusual form"
    own = any(host.lower() == name or host.lower().endswith(f".{name}") for name in _LOCAL_NAMES)
    if not limits.allow_private and (own or len(labels) == 1):
        return f"{host} is a name of the local network"
    return None


def _refused_v4(address: IPv4Address, allow_private: bool) -> str | None:
    if any(address in network for network in _METADATA):
        return f"{address} is where a cloud hands out credentials"
    if any(address in network for network in _NEVER_V4):
        return f"{address} is the address of no single host"
    if not allow_private and any(address in network for network in _NOT_PUBLIC_V4):
        return f"{address} is not public. DownloadLimits(allow_private=True) allows private networks"
    return None


def _refused_v6(address: IPv6Address, allow_private: bool) -> str | None:
    if any(address in network for network in _METADATA_V6):
        return f"{address} is where a cloud hands out credentials"
    if any(address in network for network in _PRIVATE_V6):
        return (
            None
            if allow_private
            else f"{address} is not public. DownloadLimits(allow_private=True) allows private networks"
        )
    if address not in _PUBLIC_V6 or any(address in network for network in _NOT_PUBLIC_V6):
        return f"{address} is not a public address"
    return None
