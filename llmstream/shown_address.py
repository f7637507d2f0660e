"""Addresses for messages: enough to see which one is meant, and nothing that may be a credential.

Passwords stand before an "@", signatures and keys behind a "?", and where an address is malformed
nobody can say where one begins. So a message shows scheme, host and port, and less where these
could be part of a password.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["shown_address", "without_user"]

_SCHEME: Final = re.compile(r"([A-Za-z]{1,8}):/+")
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]?|[\w.-]*)(?::\d{0,5}(?!\w))?")
_END: Final = re.compile(r"[/?#\\]")
_HOST_CHARS: Final = 100


def shown_address(address: str) -> str:
    """An address as a message shows it: `'https://api.example/…'`, or `'https://…'` of a doubtful host."""
    match = _SCHEME.match(address.strip())
    scheme = match[0] if match else ""
    rest = address.strip()[len(scheme) :]
    if "://" in rest.partition("?")[0]:
        return repr(f"{scheme}…")
    if "@" in rest:
        rest = without_user(rest)
        if not rest:
            return repr(f"{scheme}…")
    found = _HOST.match(rest)
    host = found[0][:_HOST_CHARS] if found else ""
    return repr(f"{scheme}{host}{'…' if len(rest) > len(host) else ''}")


def without_user(rest: str) -> str:
    """What follows user and password behind the scheme; "" where it is not certain where they end."""
    authority = _END.split(rest, maxsplit=1)[0]
    if authority.count("@") != rest.count("@") or authority.count("@") > 1:
        return ""  # a password with a "/" ends the host early; what is shown would be a part of it
    return rest.partition("@")[2] if authority.count("@") else rest
