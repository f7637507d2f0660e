"""The file of a journal: opened under a lock, added to, repaired after a failed write, written anew."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
import threading
import time
from typing import ClassVar
from weakref import WeakValueDictionary

from llmstream.agent.file_lock import is_at, lock
from llmstream.agent.journal_lines import Line, compacted, encode_line, sum_of
from llmstream.chats.content import write_whole
from llmstream.errors import DecodeError, InvalidRequest

__all__ = ["JournalFile", "JournalInUse"]

_log = logging.getLogger("llmstream.journal")

_OLD_COPY_S = 60.0
"""Writing a copy takes less: one that is older was left behind."""

_HEAD_BYTES = 64
"""Of a line; its checksum is among them."""


class JournalInUse(InvalidRequest, OSError):
    """A journal that another process has open."""


class JournalFile:
    """What the journals of one path in this process share.

    left: ids of runs that have no end in it and that nothing will be added to
    """

    _by_path: ClassVar[WeakValueDictionary[str, JournalFile]] = WeakValueDictionary()
    _finding: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: str) -> None:
        self._file: int | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._path = path
        self._lines: int | None = None  # since the file was last written anew; None before it is opened
        self._end: int | None = None  # of the last line that is whole, where a write failed behind it
        self._sum = 0  # of the last line
        self.left: set[str] = set()

    @classmethod
    def at(cls, path: str) -> JournalFile:
        """The one of a path; two of one file would not see that the other wrote it anew."""
        folder, name = os.path.split(os.path.abspath(path))
        path = os.path.join(os.path.realpath(folder), name)
        with cls._finding:
            found = cls._by_path.get(path)
            if found is None:
                found = cls._by_path[path] = cls(path)
            return found

    def close(self) -> None:
        """Closes the file, which unlocks it; the next line opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __del__(self) -> None:
        self.close()

    def write(self, line: Line, compact_after: int | None) -> None:
        """Adds a line, and waits until it is on the disk; past so many lines the file is written anew.

        raises: OSError, JournalInUse
        """
        with self._lock:
            self._append(line)
            if compact_after is not None and (self._lines or 0) >= compact_after:
                self._compact()

    def _append(self, line: Line) -> None:
        if self._file is not None and self._process != os.getpid():
            os.close(self._file)  # a fork of the process that has it: the lock is not this one's
            self._file = None
        if self._file is not None and not is_at(self._file, self._path):
            os.close(self._file)
            self._file = self._lines = None
            if line.type != "run":  # what the run did so far is gone; it must not seem to be written down
                raise FileNotFoundError(
                    errno.ENOENT, "the journal was moved or deleted while a run wrote to it", self._path
                )
        if self._file is None:
            self._file = _opened(self._path, self._end)
            self._process, self._end = os.getpid(), None
            self._sum = _last_sum(self._file)
        if self._lines is None:
            self._lines = _count_lines(self._path)
        end = os.fstat(self._file).st_size
        data = encode_line(line, self._sum)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError:
            self._take_back(self._file, end)
            raise
        self._sum = sum_of(data)
        self._lines += 1

    def _take_back(self, file: int, end: int) -> None:
        """Takes off what a failed write left, now or when the file is opened for the next one."""
        self._file = self._lines = None
        self._end = end
        try:
            os.ftruncate(file, end)
        except OSError as error:
            _log.warning("the journal %s ends in a line that could not be taken off: %s", self._path, error)
        finally:
            try:
                os.close(file)
            except OSError:  # it is closed all the same
                pass

    def _compact(self) -> None:
        """Writes the file anew. Where that cannot be done the old one is as good, only longer."""
        self._lines = 0
        try:
            data = compacted(self._path, self.left)
            old, self._file = self._file, None
            if os.name == "nt" and old is not None:  # Windows replaces no open file
                os.close(old)
                old = None
            try:
                write_whole(self._path, data, prefix=_copy_prefix(self._path))
                self._file = _open(self._path)  # before the old one is unlocked
                self._sum = _last_sum(self._file)
            finally:
                if old is not None:
                    os.close(old)
        except (OSError, DecodeError) as error:
            _log.warning("the journal %s could not be compacted: %s", self._path, error)
        else:
            self.left.clear()


def _opened(path: str, known_end: int | None) -> int:
    """The file, open at its end; a line that a crash or a failed write tore is taken off.

    known_end: where the lines end that are acknowledged, if that is known
    """
    file = _open(path)
    try:
        _remove_old_copies(path)
        if hasattr(os, "fchmod"):
            os.fchmod(file, 0o600)  # it may have been there, for others to read
        size = os.fstat(file).st_size
        end = _whole_lines_end(file)
        if known_end is not None and known_end < end:
            end = known_end
        if end != size:
            file = _cut(path, file, end)
        _sync_folder(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        os.close(file)
        raise
    return file


def _open(path: str) -> int:
    """The file, locked.

    raises: OSError, JournalInUse
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        file = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):  # a pipe or device: its mode is not ours to change
                raise OSError(errno.EINVAL, "not a regular file", path)
            lock(file)
            if is_at(file, path):
                return file
        except BlockingIOError:
            os.close(file)
            raise JournalInUse(
                f"another process writes to the journal {path}. A journal is for one process at a time: "
                "give this one another path, or stop the other first."
            ) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # it was written anew by another process in between


def _cut(path: str, file: int, end: int) -> int:
    """The file without what stands behind `end`; written anew where it cannot be made shorter."""
    try:
        os.ftruncate(file, end)
    except OSError:
        with open(path, "rb") as source:
            write_whole(path, source.read(end), prefix=_copy_prefix(path))
        renewed = _open(path)
        os.close(file)
        return renewed
    return file


def _copy_prefix(path: str) -> str:
    """How the names of copies begin that are to take the journal's place; short, as names have a limit."""
    return f".journal-{hashlib.sha256(os.path.basename(path).encode()).hexdigest()[:16]}-"


def _remove_old_copies(path: str) -> None:
    """Removes copies that a process left when it was killed; they hold whole conversations."""
    folder, prefix = os.path.dirname(os.path.abspath(path)), _copy_prefix(path)
    try:
        for name in os.listdir(folder):
            if name.startswith(prefix) and name.endswith(".tmp"):
                copy = os.path.join(folder, name)
                if time.time() - os.stat(copy).st_mtime > _OLD_COPY_S:
                    os.unlink(copy)
    except OSError:  # a folder that may not be read, or somebody else was faster
        pass


def _count_lines(path: str) -> int:
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def _last_sum(file: int) -> int:
    """The checksum of the last line of a file that ends in a whole one; 0 where there is none."""
    end = os.fstat(file).st_size
    os.lseek(file, _whole_lines_end(file, end - 1), os.SEEK_SET)
    return sum_of(os.read(file, _HEAD_BYTES))


def _whole_lines_end(file: int, before: int | None = None) -> int:
    """Where the last whole line ends, of the file or of its beginning."""
    at = os.lseek(file, 0, os.SEEK_END) if before is None else before
    while at > 0:
        start = max(0, at - 65536)
        os.lseek(file, start, os.SEEK_SET)
        found = os.read(file, at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _sync_folder(folder: str) -> None:
    """Makes the file's name durable, where the system lets a folder be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems
        pass
    finally:
        os.close(descriptor)
