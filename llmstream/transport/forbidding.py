"""A switch for tests: forbids requests to other machines."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager

from llmstream.errors import InvalidRequest

__all__ = ["check_may_leave", "requests_forbidden"]

# How many ask for it; of the process, since tests have threads and loops of their own.
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
