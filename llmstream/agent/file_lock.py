"""Exclusive locks on files, so that one process at a time has them; the system drops them at its death."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["is_at", "lock", "taking"]

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)
"""Some network file systems have none; the file is used without, as on a system that has none."""

_WINDOWS_OFFSET = 1 << 40
"""Windows locks ranges of bytes against reading too, so one is taken that no file has."""


def lock(file: int) -> None:
    """Locks an open file, until it is closed.

    raises: BlockingIOError where another process, or another descriptor of this one, has it locked
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
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def is_at(file: int, path: str) -> bool:
    """Whether the open file is the one that its path names, and not one that was there before."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(file)
    return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)


@contextmanager
def taking(path: str | os.PathLike[str]) -> Generator[bytes]:
    """The content of a file, which is gone once the block is left; where the block raises it stays.

    raises: FileNotFoundError where there is none, or somebody else is taking it; OSError for a symbolic
            link, and for what is no regular file
    """
    name = os.fspath(path)
    if os.path.islink(name):
        raise OSError(errno.ELOOP, "a symbolic link, not a file; name the file itself", name)
    if os.path.lexists(name) and not os.path.isfile(name):  # a pipe would wait for its writer
        raise OSError(errno.EINVAL, "not a regular file", name)
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(name, flags | getattr(os, "O_BINARY", 0))
    try:
        try:
            lock(file)
        except BlockingIOError:
            raise FileNotFoundError(errno.ENOENT, "another process is taking it", name) from None
        if not is_at(file, name):
            raise FileNotFoundError(errno.ENOENT, "another process took it", name)
        with open(file, "rb", closefd=False) as source:
            yield source.read()
        if sys.platform == "win32":  # which removes no open file
            os.close(file)
            file = -1
        os.unlink(name)  # it fails for all but one, also where there are no locks
    finally:
        if file >= 0:
            os.close(file)
