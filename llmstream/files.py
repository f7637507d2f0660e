"""Files of this library: replaced in one step, locked, only for their owner, and never a pipe or device.

SQLite files too: in WAL mode, for any number of processes of one machine. Not every Python has sqlite3, so
it is imported with the first file that is opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "connect_sqlite",
    "is_at",
    "lock",
    "machine_boot",
    "machine_time",
    "read_file",
    "replace_file",
    "sync_folder",
    "taking",
    "transaction",
]


# Files.

_NEW_FILE = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL  # also rejects a symbolic link planted by another user
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def replace_file(
    path: str | os.PathLike[str], data: bytes, modified_at_s: float | None = None, *, prefix: str = "."
) -> None:
    """Writes data to a file, mode 0600, replacing its content atomically.

    A reader sees the old content or the new, also after a crash. A symbolic link at `path` is
    replaced and not followed, so that a link cannot redirect the write.

    modified_at_s: Unix time to set as the time of change; None leaves it to the system
    prefix:        prefix of the temporary file's name, so that those of killed processes can be found
    raises:        OSError if the folder is missing or cannot be written, or a folder, pipe or device is at
                   `path`; the old content stays
    """
    # A rename would put a file in place of a device or pipe.
    if os.path.lexists(path) and not stat.S_ISREG(mode := os.lstat(path).st_mode) and not stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    folder = os.path.dirname(os.path.abspath(path))
    # A name of fixed length, so that it fits the file system's limit even for a long `path`.
    temporary = os.path.join(folder, f"{prefix}{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, _NEW_FILE, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            # Before the rename: after a power failure the name must not refer to an empty file.
            os.fsync(file.fileno())
        if modified_at_s is not None:
            time_ns = round(modified_at_s * 1_000_000_000)
            os.utime(temporary, ns=(time_ns, time_ns))
        os.replace(temporary, path)
    except BaseException:
        # It holds a conversation.
        os.unlink(temporary)
        raise
    sync_folder(folder)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a regular file.

    raises: OSError if it cannot be read, or is a pipe or device, which might never end
    """
    with open(path, "rb", opener=_open_regular) as file:
        return file.read()


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # or a pipe waits for its writer
    mode = os.fstat(descriptor).st_mode
    # For a folder, open() raises the right error.
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def sync_folder(folder: str) -> None:
    """Makes the names of new files durable, if the system allows opening a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows, or a folder that is writable but not readable
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems
        pass
    finally:
        os.close(descriptor)


# Exclusive file locks between processes; the system releases them when a process ends.


# Errors of file systems without locks, such as some network file systems; the file is used unlocked.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)

# Windows also blocks reading of a locked range, so the lock is far behind the end of any file.
_WINDOWS_OFFSET = 1 << 40


def lock(file: int) -> None:
    """Locks an open file until it is closed.

    raises: BlockingIOError if another process, or another descriptor of this one, holds the lock
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, _WINDOWS_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(errno.EAGAIN, "the file is locked") from error
        finally:
            os.lseek(file, 0, os.SEEK_SET)
        return
    try:
        import fcntl
    except ImportError:  # WebAssembly
        return
    try:
        # Not fcntl's own locks, which end when the process closes any descriptor of the file.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # First, because it is an OSError too.
        raise
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def is_at(file: int, path: str) -> bool:
    """Whether the path still names the open file, and not a file that replaced it."""
    try:
        # Of the path itself: a link in place of the file is another file.
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(file)
    return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)


@contextlib.contextmanager
def taking(path: str | os.PathLike[str]) -> Generator[bytes]:
    """Reads a file and deletes it at the end of the block, unless the block raises.

    raises: FileNotFoundError if it does not exist, or another process is taking it; OSError for a
            symbolic link or anything but a regular file
    """
    name = os.fspath(path)
    if os.path.islink(name):
        raise OSError(errno.ELOOP, "a symbolic link, not a file; name the file itself", name)
    if os.path.lexists(name) and not os.path.isfile(name):  # opening a pipe would block
        raise OSError(errno.EINVAL, "not a regular file", name)
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(name, flags | getattr(os, "O_BINARY", 0))
    try:
        try:
            lock(file)
        except BlockingIOError:
            raise FileNotFoundError(errno.ENOENT, "another process is taking it", name) from None
        # Between opening and locking another process may have taken it.
        if not is_at(file, name):
            raise FileNotFoundError(errno.ENOENT, "another process took it", name)
        with open(file, "rb", closefd=False) as source:
            yield source.read()
        if sys.platform == "win32":  # Windows cannot delete an open file
            os.close(file)
            file = -1
        os.unlink(name)  # succeeds in one process only, even without locks
    finally:
        if file >= 0:
            os.close(file)


# SQLite files.

IN_MEMORY: Final = ":memory:"
"""SQLite's name for a database without a file."""

_creating: Final = threading.Lock()

# Identifies the boot of a Linux machine.
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


def machine_time() -> float:
    """Seconds since boot, the same in all processes; includes sleep if the system supports it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def machine_boot() -> str:
    """An id of this boot, from which `machine_time` counts; "" if the system has none."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def connect_sqlite(path: str | os.PathLike[str], *, busy_s: float) -> sqlite3.Connection:
    """Opens a file, and creates it if missing; the permissions of an existing one do not change.

    The connection starts no transaction implicitly, and any thread may use and close it, one at a time.

    path:   of the file, whose folder must exist; or `IN_MEMORY`
    busy_s: how long a statement waits for another connection's lock
    raises: OSError if the file cannot be made; sqlite3.Error if it is no database, or is locked for too long
    """
    import sqlite3

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
    import sqlite3

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
