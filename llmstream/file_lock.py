"""Exclusive file locks between processes; the system releases them when a process ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["is_at", "lock", "taking"]

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


@contextmanager
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
