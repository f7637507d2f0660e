"""Connections to PostgreSQL (extra `postgres`): made at first use, and again after they broke."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from llmstream.errors import LogUnavailable, Unsupported

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresLink"]

# How long a connection, and one statement, is waited for; half of the default lease.
_TIMEOUT_S: Final = 5.0

_OPTIONS: Final = f"-c statement_timeout={int(_TIMEOUT_S * 1000)} -c lock_timeout={int(_TIMEOUT_S * 1000)}"

# Of `pg_advisory_xact_lock`: `create table if not exists` of two processes at once fails in one of them.
_TABLES_LOCK: Final = 7_317_041


class PostgresLink:
    """One connection, used by one statement or transaction at a time."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()

    async def connected(self) -> psycopg.AsyncConnection[Any]:
        """The connection.

        raises: LogUnavailable; Unsupported without the extra
        """
        try:
            import psycopg
        except ImportError:
            raise Unsupported(
                "PostgreSQL needs the extra `postgres`: pip install 'llmstream-sdk[postgres]'"
            ) from None
        if self._connection is None or self._connection.closed or self._connection.broken:
            try:
                # Without `autocommit` psycopg opens a transaction at the first read, and leaves it idle.
                self._connection = await psycopg.AsyncConnection.connect(
                    self._address, autocommit=True, connect_timeout=int(_TIMEOUT_S), options=_OPTIONS
                )
            except psycopg.Error as error:
                raise LogUnavailable(f"PostgreSQL cannot be reached: {error}") from None
        return self._connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Callable[..., Any]]:
        """A transaction; gives a function that runs a statement and returns its rows."""
        import psycopg

        async with self._lock:
            connection = await self.connected()

            async def run(statement: str, values: Sequence[Any] = ()) -> list[Any]:
                # Without values psycopg does not look for placeholders, so that a `%` in a statement stays
                # one.
                cursor = await connection.execute(statement, values or None)
                return [] if cursor.description is None else await cursor.fetchall()

            try:
                async with connection.transaction():
                    yield run
            except psycopg.Error as error:
                # The connection may be dead; any other error leaves it usable.
                if isinstance(error, psycopg.OperationalError):
                    await self._drop()
                raise LogUnavailable(f"PostgreSQL failed: {error}") from error
            except asyncio.CancelledError:
                await self._drop()  # a statement may be under way
                raise

    async def rows(self, statement: str, *values: Any) -> list[Any]:
        """The rows of one statement, in a transaction of its own."""
        async with self.transaction() as run:
            found: list[Any] = await run(statement, values)
            return found

    async def make(self, statements: Sequence[str]) -> None:
        """Makes tables, one process at a time."""
        async with self.transaction() as run:
            await run("select pg_advisory_xact_lock(%s)", (_TABLES_LOCK,))
            for statement in statements:
                await run(statement)

    async def notices(self, channel: str) -> AsyncGenerator[str]:
        """Yields "" once it listens, then what other processes send on a channel."""
        import psycopg
        from psycopg import sql

        listen = sql.SQL("listen {}").format(sql.Identifier(channel))
        connection = await self.connected()
        try:
            await connection.execute(listen)
            yield ""
            async for notice in connection.notifies():
                yield notice.payload
        except psycopg.Error as error:
            raise LogUnavailable(f"PostgreSQL failed: {error}") from None
        finally:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()

    async def aclose(self) -> None:
        """Disconnects. Idempotent."""
        async with self._lock:
            await self._drop()
