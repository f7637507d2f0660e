"""Files that are written whole or not at all, and are their owner's alone."""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["read_whole", "write_whole"]

_NEW_FILE = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL  # also refuses a symbolic link that somebody planted
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def write_whole(
    path: str | os.PathLike[str], data: bytes, modified_at_s: float | None = None, *, prefix: str = "."
) -> None:
    """Put data into a file, mode 0600, replacing what was there in one step.

    A reader sees the old content or the new, also after a crash. A symbolic link at `path` is
    replaced and not followed, so nobody can have us write elsewhere.

    modified_at_s: Unix time to set as the time of change; None leaves it to the system
    prefix:        how the temporary file's name begins, for whoever removes those of killed processes
    raises:        OSError where the folder is missing or cannot be written, or a folder, pipe or device is
                   at `path`; what was there stays
    """
    if os.path.lexists(path) and not stat.S_ISREG(mode := os.lstat(path).st_mode) and not stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    folder = os.path.dirname(os.path.abspath(path))
    # A name of its own length, so that a long one still fits the file system's limit.
    temporary = os.path.join(folder, f"{prefix}{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, _NEW_FILE, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if modified_at_s is not None:
            time_ns = round(modified_at_s * 1_000_000_000)
            os.utime(temporary, ns=(time_ns, time_ns))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(folder)


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a regular file.

    raises: OSError where it cannot be read, or is a pipe or device, which might never end
    """
    with open(path, "rb", opener=_open_regular) as file:
        return file.read()


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # or a pipe waits for its writer
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # of a folder, open() says what it is
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def _sync_folder(folder: str) -> None:
    """Make the new name durable, where the system lets a folder be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows, or a folder one may write but not read
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems
        pass
    finally:
        os.close(descriptor)
