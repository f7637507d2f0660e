"""Connections to PostgreSQL (extra `postgres`): opened at first use, and reopened after failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from llmstream.errors import LogUnavailable, Unsupported

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresLink", "Run", "Statement"]

Statement: TypeAlias = tuple[str, Sequence[Any]]
"""A statement with placeholders, and their values."""

Run: TypeAlias = Callable[..., Awaitable[list[Any]]]
"""Runs a statement, with a sequence of values, and returns its rows."""

# Timeout of a connection and of one statement; half of the default lease.
_TIMEOUT_S: Final = 5.0

# A process that is paused in a transaction keeps its locks: the server ends that connection before others
# give up waiting for them. A transaction takes two round trips.
_OPTIONS: Final = (
    f"-c statement_timeout={int(_TIMEOUT_S * 1000)} -c lock_timeout={int(_TIMEOUT_S * 1000)} "
    f"-c idle_in_transaction_session_timeout={int(_TIMEOUT_S * 500)}"
)

# A process paused between two messages of a pipeline is not idle, so no server timeout ends its transaction:
# clients whose wait for its locks timed out end it. The criterion is a client silent for this long within a
# transaction on the tables of runs; a live one takes milliseconds.
_END_PAUSED: Final = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where usename = current_user and datname = current_database() and pid <> pg_backend_pid()
        and wait_event = 'ClientRead' and xact_start < clock_timestamp() - interval '4 s'
        and pid in (
            select pid from pg_locks where granted
            and relation in (to_regclass('llmstream_runs'), to_regclass('durable_runs'))
        )
"""

# Of `pg_advisory_xact_lock`: `create table if not exists` of two concurrent processes fails in one of them.
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
                # Without `autocommit` psycopg opens a transaction at the first read and keeps it open.
                self._connection = await psycopg.AsyncConnection.connect(
                    self._address, autocommit=True, connect_timeout=int(_TIMEOUT_S), options=_OPTIONS
                )
            except psycopg.Error as error:
                raise LogUnavailable(f"PostgreSQL cannot be reached: {error}") from None
        return self._connection

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """The connection, for one caller at a time. It is closed if it may be dead or in a transaction."""
        import psycopg

        async with self._lock:
            try:
                yield await self.connected()
            except BaseException as error:
                # A statement may be running, or a transaction open; after any other error it stays usable.
                usable = isinstance(error, Exception) and not isinstance(error, psycopg.OperationalError)
                if not usable or self._is_in_transaction():
                    await self._drop()
                if isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
                    await self._end_paused()
                if isinstance(error, psycopg.Error):
                    raise LogUnavailable(f"PostgreSQL failed: {error}") from error
                raise

    async def _end_paused(self) -> None:
        """Ends the transactions of processes that were paused in them, with locks that others wait for."""
        import psycopg

        with suppress(psycopg.Error, LogUnavailable):  # the next attempt reports the error
            await (await self.connected()).execute(_END_PAUSED)

    def _is_in_transaction(self) -> bool:
        from psycopg.pq import TransactionStatus

        connection = self._connection
        return connection is not None and connection.info.transaction_status != TransactionStatus.IDLE

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Run]:
        """A transaction; yields a function that runs a statement and returns its rows."""
        async with self._used() as connection, connection.transaction():

            async def run(statement: str, values: Sequence[Any] = ()) -> list[Any]:
                return await _fetched(await _executed(connection, statement, values))

            yield run

    async def rows(self, statement: str, *values: Any) -> list[Any]:
        """The rows of one statement, which is a transaction by itself: one round trip."""
        async with self._used() as connection:
            return await _fetched(await _executed(connection, statement, values))

    async def together(self, statements: Sequence[Statement]) -> list[list[Any]]:
        """The rows of each statement, in one transaction and one round trip."""
        if len(statements) == 1:  # a pipeline costs 50 % more
            ((statement, values),) = statements
            return [await self.rows(statement, *values)]
        async with self._used() as connection:
            return await _sent(connection, statements)

    async def exchange(
        self, reads: Sequence[Statement], change: Callable[[list[list[Any]]], Sequence[Statement]]
    ) -> None:
        """A transaction of two round trips: reads, and the changes that follow from their rows.

        reads: with the locks that the changes need
        """
        async with self._used() as connection:
            _, *found = await _sent(connection, [("begin", ()), *reads])
            await _sent(connection, [*change(found), ("commit", ())])

    async def make(self, statements: Sequence[str]) -> None:
        """Creates tables, one process at a time."""
        async with self.transaction() as run:
            await run("select pg_advisory_xact_lock(%s)", (_TABLES_LOCK,))
            for statement in statements:
                await run(statement)

    async def notices(self, channel: str) -> AsyncGenerator[str]:
        """Yields "" once it listens, then the messages of other processes on a channel."""
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
            with suppress(Exception):
                await connection.close()

    async def aclose(self) -> None:
        """Disconnects. Idempotent."""
        async with self._lock:
            await self._drop()


async def _executed(
    connection: psycopg.AsyncConnection[Any], statement: str, values: Sequence[Any]
) -> psycopg.AsyncCursor[Any]:
    # Without values psycopg does not look for placeholders, so that a `%` in a statement stays one.
    return await connection.execute(statement, values or None)


async def _fetched(cursor: psycopg.AsyncCursor[Any]) -> list[Any]:
    return [] if cursor.description is None else await cursor.fetchall()


async def _sent(connection: psycopg.AsyncConnection[Any], statements: Sequence[Statement]) -> list[list[Any]]:
    """Sends statements together, as one transaction unless they begin or end one."""
    async with connection.pipeline():
        cursors = [await _executed(connection, *each) for each in statements]
    return [await _fetched(cursor) for cursor in cursors]
