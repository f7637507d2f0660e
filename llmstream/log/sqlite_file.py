"""SQLite files that several processes of one machine use: a thread with a connection."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from llmstream.errors import LogUnavailable
from llmstream.files import connect_sqlite

__all__ = ["SQLiteWorker", "open_worker"]

T = TypeVar("T")

# How long a commit waits for one of another process; with 8 processes that write, p99 is 9 ms.
_BUSY_S: Final = 5.0


class SQLiteWorker:
    """A thread with a connection to the file.

    what: the name of the file in errors, such as "event log"
    """

    def __init__(self, path: Path, what: str = "event log") -> None:
        self._path, self._label = path, what
        # One thread: an SQLite connection belongs to the thread that created it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llmstream-log")
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs work in the thread. Once started it is completed, even if the caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _connect(self._path)
            return work(self._connection)
        except LogUnavailable:  # also an OSError
            raise
        except (sqlite3.Error, OSError) as error:
            raise LogUnavailable(
                f"the {self._label} {self._path} cannot be used: {error}. Check that its folder exists and "
                "can be written, and that the disk is not full."
            ) from error

    async def aclose(self) -> None:
        """Closes the connection after work in progress."""
        connection = self._connection
        if connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, connection.close)
        self._thread.shutdown(wait=False)


def open_worker(worker: SQLiteWorker | None) -> SQLiteWorker:
    """The worker of an open store.

    raises: LogUnavailable
    """
    if worker is None:
        raise LogUnavailable("the store is closed", retryable=False)
    return worker


def _connect(path: Path) -> sqlite3.Connection:
    connection = connect_sqlite(path, busy_s=_BUSY_S)
    # Sorting must not write a file beside the database, whose disk may be full.
    connection.execute("pragma temp_store = memory")
    return connection
