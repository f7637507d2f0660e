"""What may be downloaded for a vendor that takes no URLs: how much, for how long, from where."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["DownloadLimits"]


class DownloadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one download.

    max_bytes:     of the content, once it is decompressed
    total_s:       seconds for all of it: names, connections, redirects, content
    max_redirects: how many are followed; each is checked as the first address was
    allow_private: loopback and private networks too. Addresses at which clouds hand out
                   credentials (169.254.169.254 and its kin) stay refused
    allow_http:    http:// as well as https://
    media_types:   by kind of part, the beginnings of the media types that may come; any type
                   may come for a kind that is not listed
    """

    max_bytes: int = 20 * 1024 * 1024
    total_s: float = 30.0
    max_redirects: int = 3
    allow_private: bool = False
    allow_http: bool = False
    media_types: Mapping[str, tuple[str, ...]] = msgspec.field(
        default_factory=lambda: {"image": ("image/",), "audio": ("audio/",)}
    )
