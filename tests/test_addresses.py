"""Addresses of stores: what each spelling names, and what an error may quote of one."""

from __future__ import annotations

import pytest

from llmstream.addresses import is_postgres, is_redis, redis_server, shown, sqlite_path


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("sqlite:runs.db", "runs.db"),
        ("sqlite:/var/lib/runs.db", "/var/lib/runs.db"),
        ("sqlite:", None),
        ("sqlite:///runs.db", None),
        ("runs.db", None),
        ("SQLite:runs.db", None),
    ],
)
def test_path_of_an_sqlite_address(where: str, path: str | None) -> None:
    assert sqlite_path(where) == path


def test_servers_are_told_apart() -> None:
    redis = ["redis://host:6379/0", "rediss://host", "unix:///run/redis.sock"]
    postgres = ["postgresql://host/database", "postgres://host"]
    other = ["redis:", "postgresql:host", "sqlite:redis://", ""]
    assert [is_redis(where) for where in redis + postgres + other] == [True] * 3 + [False] * 6
    assert [is_postgres(where) for where in redis + postgres + other] == [False] * 3 + [True] * 2 + [
        False
    ] * 4


def test_passwords_are_not_shown() -> None:
    assert shown("redis://user:secret@host") == "redis:..."
    assert shown("somewhere") == "somewhere"


def test_servers_without_credentials() -> None:
    assert redis_server("rediss://user:secret@host:6380/0") == "host:6380"
    assert redis_server("redis://host") == "host:6379"
    assert redis_server("unix://:secret@/run/redis.sock") == "/run/redis.sock"
