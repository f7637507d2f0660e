"""OLLAMA_HOST and other ways to write where a daemon is, as the daemon itself reads them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ollama_address"]

_PORT: Final = 11434
# Reached by https without being asked, as by the daemon.
_CLOUD: Final = frozenset({"ollama.com", "www.ollama.com", "api.ollama.com"})
_ANYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - where one listens


def ollama_address(written: str) -> str:
    """The address with scheme, host and port: what is missing is http, this machine, 11434.

    written: such as "0.0.0.0", ":8080", "gpu-box", "gpu-box:1234", "https://ollama.com"; with a
        scheme the port is the scheme's; a path (a proxy's) stays, without "/api" at its end
    source: envconfig.Host in ollama/ollama, seen 2026-11
    """
    scheme, mark, rest = written.strip().rpartition("://")
    place, _, path = rest.partition("/")
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?", place)
    # A bare IPv6 address, or nothing that we know.
    if match is None:
        bare = re.fullmatch(r"[0-9a-fA-F:]+", place)
        host, port = (f"[{place}]", "") if bare else (place, "")
    else:
        host, port = match.group(1), match.group(2) or ""
    if not mark and host in _CLOUD:
        scheme = "https"
    elif not mark and not port:
        port = str(_PORT)
    host = _ANYWHERE.get(host, host)
    path = path.rstrip("/")
    path = "" if path == "api" else path.removesuffix("/api")
    return f"{scheme or 'http'}://{host}{f':{port}' if port else ''}{f'/{path}' if path else ''}"
