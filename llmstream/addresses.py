"""Addresses of stores: "sqlite:PATH", "redis://...", "postgresql://...".

All parameters with such an address are parsed here, so that one spelling works everywhere.
"""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["is_postgres", "is_redis", "redis_server", "shown", "sqlite_path"]


def sqlite_path(where: str) -> str | None:
    """The path of "sqlite:PATH", else None.

    None also for "sqlite://...": elsewhere its third slash may or may not belong to the path.
    """
    scheme, _, path = where.partition(":")
    return path if scheme == "sqlite" and path and not path.startswith("//") else None


def is_redis(where: str) -> bool:
    """Whether an address names a Redis server, in one of the spellings of redis-py."""
    return where.startswith(("redis://", "rediss://", "unix://"))


def is_postgres(where: str) -> bool:
    """Whether an address names a PostgreSQL server."""
    return where.startswith(("postgresql://", "postgres://"))


def shown(where: str) -> str:
    """An address as an error may quote it: mostly only the scheme, as the rest may contain a password."""
    scheme, _, rest = where.partition(":")
    return f"{scheme}:..." if rest else where


def redis_server(where: str) -> str:
    """Host and port of a Redis server, or the path of its socket, without user and password."""
    parts = urlsplit(where)
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"
