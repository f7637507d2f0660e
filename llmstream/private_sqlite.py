"""Opens SQLite files that only their owner can read, in WAL mode, for any number of processes of one machine.

Importing this module imports sqlite3, which not every Python has: import it only to open a file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["connect", "machine_boot", "machine_time", "transaction"]

IN_MEMORY: Final = ":memory:"
"""SQLite's name for a database without a file."""

_creating: Final = threading.Lock()

# Identifies the boot of a Linux machine.
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def machine_time() -> float:
    """Seconds since boot, the same in all processes; includes sleep if the system supports it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def machine_boot() -> str:
    """An id of this boot, from which `machine_time` counts; "" if the system has none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def connect(path: str | os.PathLike[str], *, busy_s: float) -> sqlite3.Connection:
    """Opens a file, and creates it if missing; the permissions of an existing one do not change.

    The connection starts no transaction implicitly, and any thread may use and close it, one at a time.

    path:   of the file, whose folder must exist; or `IN_MEMORY`
    busy_s: how long a statement waits for another connection's lock
    raises: OSError if the file cannot be made; sqlite3.Error if it is no database, or is locked for too long
    """
    if os.fspath(path) != IN_MEMORY:
        _create(path)
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        _set_wal(connection, time.monotonic() + busy_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: str | os.PathLike[str]) -> None:
    # SQLite would create the file readable by everybody; the two files of WAL mode get its permissions. An
    # existing file is never opened here: closing it would drop the locks of all connections of this process
    # (fcntl(2)), another process would consider itself the last one and delete the WAL, and readers here
    # would see an old state for ever. The lock: no thread connects to a file that another one is about to
    # close.
    with _creating, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        os.chmod(path, 0o600)  # the umask may also remove bits of the owner


def _set_wal(connection: sqlite3.Connection, until: float) -> None:
    while True:
        try:
            # SQLite does not wait for the lock that a change of the mode needs.
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.02)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "begin immediate") -> Iterator[None]:
    """A transaction that is rolled back on any exception; a writer takes the lock at its beginning."""
    connection.execute(begin)
    try:
        yield
        connection.execute("commit")
    finally:
        # After an exception, or a failed commit. SQLite itself rolls back if the disk is full.
        if connection.in_transaction:
            connection.execute("rollback")
