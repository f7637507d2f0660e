"""Files of this library: replaced in one step, readable by their owner only, and never a pipe or device."""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["read_file", "replace_file", "sync_folder"]

_NEW_FILE = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL  # also refuses a symbolic link that somebody planted
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def replace_file(
    path: str | os.PathLike[str], data: bytes, modified_at_s: float | None = None, *, prefix: str = "."
) -> None:
    """Puts data into a file, mode 0600, replacing what was there in one step.

    A reader sees the old content or the new, also after a crash. A symbolic link at `path` is
    replaced and not followed, so that a link cannot redirect the write.

    modified_at_s: Unix time to set as the time of change; None leaves it to the system
    prefix:        how the temporary file's name begins, for whoever removes those of killed processes
    raises:        OSError where the folder is missing or cannot be written, or a folder, pipe or device is
                   at `path`; what was there stays
    """
    # A rename would put a file in place of a device or pipe.
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
            # Before the rename: after a power failure the name must not lead to an empty file.
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

    raises: OSError where it cannot be read, or is a pipe or device, which might never end
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
    """Makes the names of new files durable, where the system lets a folder be opened."""
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
