"""Downloads the file of a URL in a conversation, only from addresses of the public internet.

A URL in a conversation may come from anybody. It must not make this machine connect to itself, to its
network, or to the cloud that runs it. So only addresses known to be public are allowed; for an address
inside another (mapped, NAT64), the inner one counts.

Names are resolved once; every address is checked, and the connection uses only these (the Host header and
TLS still name the host). Redirects are followed here, and each is checked again. No credentials of the caller
are sent: no key, no cookie; and no proxy of the environment is used, because it would resolve names itself.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
import re
import socket
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import unquote_to_bytes

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from llmstream.chats.content import sniffed_type
from llmstream.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    DecodeError,
    InvalidRequest,
    LimitExceeded,
    TransportError,
)
from llmstream.exchange import shown_address, without_user
from llmstream.transport.egress import check_may_leave
from llmstream.transport.failures import typed_failure
from llmstream.transport.http import ENCODINGS
from llmstream.transport.sessions import trust

__all__ = [
    "DownloadLimits",
    "Downloaded",
    "download",
    "refused_address",
    "refused_url",
]


# Which URLs and addresses are allowed.


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


# One download.

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TRY_AGAIN: Final = frozenset({408, 425, 429})
_NO_TYPE: Final = ("", "application/octet-stream", "binary/octet-stream")
# source: RFC 6838, 4.2
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
# Signed URLs have thousands of characters; the host and the beginning of the path identify them.
_URL_CHARS_SHOWN: Final = 200


class Downloaded(msgspec.Struct, frozen=True):
    """The content of a file and its media type ("" if unknown)."""

    data: bytes
    media_type: str


async def download(url: str, *, limits: DownloadLimits = DownloadLimits(), kind: str = "") -> Downloaded:
    """Downloads the file of an https, or allowed http, URL; decodes a data URL.

    kind:   of the part it is for ("image", "audio", "document"), for `limits.media_types`
    raises: InvalidRequest for a URL that may not be fetched, a 4xx response or a wrong type;
            LimitExceeded if it is too large; DeadlineExceeded; TransportError, StreamError
    """
    if url[:5].lower() == "data:":
        found = _inside(url, limits)
    else:
        try:
            async with asyncio.timeout(limits.total_s) as timer:
                found = await _fetched(url, limits)
        except TimeoutError:
            if not timer.expired():
                raise
            raise DeadlineExceeded(
                f"{_shown(url)} was not downloaded within {limits.total_s:g} s. "
                "DownloadLimits(total_s=...) allows more.",
                reason="download",
            ) from None
    allowed = limits.media_types.get(kind)
    if allowed is not None and not found.media_type.startswith(allowed):
        raise InvalidRequest(
            f"{_shown(url)} should be {'an' if kind[0] in 'aeiou' else 'a'} {kind} "
            f"but has the media type {found.media_type or 'unknown'!r}"
        )
    return found


class _Pinned(AbstractResolver):
    """Resolves the checked hosts to their checked addresses, and no others."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], list[ResolveResult]] = {}

    async def pin(self, host: str, port: int, *, allow_private: bool) -> None:
        """Resolves a host once for all later connections.

        raises: InvalidRequest if any of its addresses is refused, ConnectionFailed if it has none
        """
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            words = getattr(error, "strerror", None) or error
            raise ConnectionFailed(f"no address is known for {host}: {words}") from error
        addresses: list[ResolveResult] = []
        for family, _, _, _, at in found:
            address = str(at[0])
            reason = refused_address(address, allow_private=allow_private)
            if reason is not None:
                raise InvalidRequest(f"{host} cannot be fetched from: {reason}")
            addresses.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=family,
                    proto=0,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        if not addresses:
            raise ConnectionFailed(f"no address is known for {host}")
        self._known[host, port] = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The checked addresses."""
        known = self._known.get((host, port))
        if known is None:
            raise OSError(f"{host} was not checked")
        return known

    async def close(self) -> None:
        """Does nothing: no resource is open."""


async def _fetched(url: str, limits: DownloadLimits) -> Downloaded:
    pinned = _Pinned()
    connector = aiohttp.TCPConnector(resolver=pinned, use_dns_cache=False, force_close=True, ssl=trust())
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        for _ in range(limits.max_redirects + 1):
            reason = refused_url(url, limits)
            if reason is not None:
                raise InvalidRequest(f"{_shown(url)} cannot be fetched: {reason}")
            target = URL(url)
            host, port = target.raw_host or "", target.port or 0
            check_may_leave(host)
            await pinned.pin(host, port, allow_private=limits.allow_private)
            try:
                response = await session.get(
                    target, allow_redirects=False, headers={"accept-encoding": "identity"}
                )
            except aiohttp.ClientError as error:
                raise typed_failure(error, host, answered=False) from error
            async with response:
                location = response.headers.get("location")
                if response.status in _REDIRECTS and location:
                    url = _next(target, location)
                    continue
                return await _content(response, url, host, limits)
    raise InvalidRequest(f"{_shown(url)} is reached only by more than {limits.max_redirects} redirects")


def _next(source: URL, location: str) -> str:
    """Target of a redirect, as an absolute URL.

    raises: InvalidRequest if it is not a URL
    """
    try:
        return str(source.join(URL(location)))
    except (ValueError, UnicodeError):
        raise InvalidRequest(f"{_shown(str(source))} redirects to an invalid URL") from None


async def _content(
    response: aiohttp.ClientResponse, url: str, host: str, limits: DownloadLimits
) -> Downloaded:
    status = response.status
    if status != 200:
        words = f"{_shown(url)} could not be downloaded: {host} answered {status}"
        if status >= 500 or status in _TRY_AGAIN:
            raise TransportError(words, status=status)
        raise InvalidRequest(words, status=status)
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise DecodeError(f"{_shown(url)} has an unknown content-encoding: {encoding[:50]!r}")
    if (response.content_length or 0) > limits.max_bytes:
        raise _too_large(url, limits)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > limits.max_bytes:
                raise _too_large(url, limits)
            pieces.append(piece)
    except aiohttp.ClientError as error:
        raise typed_failure(error, host, answered=True) from error
    data = b"".join(pieces)
    declared = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Downloaded(data, _media_type(declared, data, url))


def _inside(url: str, limits: DownloadLimits) -> Downloaded:
    """The content of a data URL, in base64 or percent-encoded."""
    head, comma, text = url[5:].partition(",")
    kind, *parameters = (word.strip().lower() for word in head.split(";"))
    if not comma:
        raise InvalidRequest(f"{_shown(url)} is not a valid data URL")
    if len(text) > limits.max_bytes * 3:  # the maximum length of max_bytes, percent-encoded
        raise _too_large(url, limits)
    data = unquote_to_bytes(text)
    if parameters and parameters[-1] == "base64":
        try:
            data = base64.b64decode(b"".join(data.split()) + b"=" * (-len(data) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRequest(f"{_shown(url)} is not valid base64") from None
    if len(data) > limits.max_bytes:
        raise _too_large(url, limits)
    return Downloaded(data, _media_type(kind or "text/plain", data, ""))


def _media_type(declared: str, data: bytes, url: str) -> str:
    """Media type by header, else by content, else by the path's extension."""
    if declared not in _NO_TYPE and _MEDIA_TYPE.fullmatch(declared):
        return declared
    return sniffed_type(data) or mimetypes.guess_type(URL(url).path if url else "")[0] or ""


def _too_large(url: str, limits: DownloadLimits) -> LimitExceeded:
    return LimitExceeded(
        f"{_shown(url)} is larger than {limits.max_bytes} bytes. DownloadLimits(max_bytes=...) allows more."
    )


def _shown(url: str) -> str:
    """A URL for an error: of limited length, without credentials and query, which may be a signature."""
    if url[:5].lower() == "data:":
        return "a data URL"
    scheme, mark, rest = url.partition("://")
    rest = without_user(rest)
    if not (mark and rest) or scheme.lower() not in ("http", "https"):
        return shown_address(url)  # unparsable: its credentials or query cannot be located
    authority, slash, path = re.split(r"[?#;\\]", rest, maxsplit=1)[0].partition("/")
    return repr(f"{scheme}://{authority}{slash}{path}"[:_URL_CHARS_SHOWN])
