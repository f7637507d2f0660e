"""The output file of a map, its checkpoint: one line for each result; and a file that identifies the run.

A line is written in one step when its answer is there, so that a killed process loses no answer it
has paid for and read. `answers.jsonl.run` holds model and settings: another run into the same file
is refused.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from llmstream.errors import DecodeError, InvalidRequest, LLMStreamError
from llmstream.files import is_at, lock, replace_file
from llmstream.first_use import prepared
from llmstream.mapping.lines import Line, Lines, records
from llmstream.mapping.places import NOWHERE, Places
from llmstream.mapping.result import MapProgress
from llmstream.usage import Usage

__all__ = ["Identity", "Keep", "KeepFailed"]

_FORMAT: Final = "llmstream.map"
_VERSION: Final = 1
# Of the file that replaces the output. One name, since only who holds the lock of the output makes it.
_REPLACEMENT: Final = ".run.tmp"


class KeepFailed(LLMStreamError, OSError, code="keep-failed"):
    """A result cannot be written: the disk is full, or a limit is reached. An OSError too."""


class Identity(msgspec.Struct):
    """The identity of a run: its model, settings and template.

    asked: the request's settings, without the prompt
    """

    model: str
    prompt: str
    asked: dict[str, Any]
    format: str = _FORMAT
    version: int = _VERSION

    def differences(self, other: Identity) -> list[str]:
        """The names of what differs."""
        found = [name for name in ("model", "prompt") if getattr(self, name) != getattr(other, name)]
        names = sorted({*self.asked, *other.asked})
        return found + [name for name in names if self.asked.get(name) != other.asked.get(name)]


class Keep:
    """An open output file, locked against other processes.

    path:     of the file; the identity is in `path + ".run"`
    lines:    its format
    raises:   InvalidRequest for a file of another run, or of anything else; KeepFailed
    """

    def __init__(self, path: str | os.PathLike[str], lines: Lines, identity: Identity) -> None:
        self.path = os.fspath(path)
        self.lines = lines
        self.earlier = MapProgress()
        self.left_over = 0  # lines of items that this run has not met
        self._stored = Places()  # of lines by key, until their items are met
        self._repeated: dict[int, list[int]] = {}  # further lines of a key, the last first
        self._failed: set[int] = set()  # places of stored lines with an error
        self._order = array("Q")  # places of lines, in the order of the items
        self._file = _opened(self.path)
        try:
            with suppress(FileNotFoundError):  # of a process that was killed while it put lines in order
                os.unlink(os.path.realpath(self.path) + _REPLACEMENT)
            self._end = self._begin(identity)
        except OSError as error:
            os.close(self._file)
            raise _failed(self.path, error) from error
        except BaseException:
            os.close(self._file)
            raise

    def _begin(self, identity: Identity) -> int:
        """Checks the identity, reads the stored lines, and truncates an incomplete one."""
        if os.fstat(self._file).st_size == 0:
            replace_file(self.path + ".run", msgspec.json.format(msgspec.json.encode(identity)))
            head = self.lines.head()
            _write(self._file, head, 0)
            return len(head)
        self._check(identity)
        end = self._read_all()
        os.ftruncate(self._file, end)
        return end

    def _check(self, identity: Identity) -> None:
        """raises: InvalidRequest if the file belongs to another run"""
        try:
            with open(self.path + ".run", "rb") as file:
                found = msgspec.json.decode(file.read(), type=prepared(Identity))
        except FileNotFoundError:
            raise InvalidRequest(
                f"{self.path} exists but {self.path}.run does not, so the inputs of its answers are unknown. "
                f"Choose another output, or remove {self.path}."
            ) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"{self.path}.run is damaged: {error}. Choose another output.") from None
        if (found.format, found.version) != (_FORMAT, _VERSION):
            raise InvalidRequest(
                f"{self.path}.run has the version {found.version}, which this llmstream does not know. "
                "Upgrade llmstream, or choose another output."
            )
        if different := found.differences(identity):
            raise InvalidRequest(
                f"{self.path} is the output of a run with another {_listed(different)}. Choose another "
                f"output, use the earlier one, or remove {self.path} to start again."
            )

    def _read_all(self) -> int:
        """Reads the lines; returns the end of the last complete one."""
        at = 0
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            head = self.lines.head()
            for number, (record, complete) in enumerate(records(file, quoted=self.lines.quoted), 1):
                if not complete:
                    break
                if at == 0 and head:
                    self._check_head(record, head)
                else:
                    self._count(self._line(record, number), at)
                at += len(record)
        if at == 0:  # even the head was not completed
            _write(self._file, head, 0)
            at = len(head)
        for places in self._repeated.values():
            places.reverse()
        self.left_over = self.earlier.done
        return at

    def _check_head(self, record: bytes, head: bytes) -> None:
        if record != head:
            raise InvalidRequest(
                f"{self.path} has other columns than this run would write. Choose another output, or "
                f"remove {self.path} to start again."
            )

    def _line(self, record: bytes, number: int) -> Line:
        try:
            return self.lines.read(record)
        except DecodeError as error:
            raise InvalidRequest(
                f"{self.path}: record {number} was not written by llmstream map: {error.message}. Remove "
                "that record to send its item again."
            ) from None

    def _count(self, line: Line, at: int) -> None:
        earlier, key = self.earlier, int(line.key, 16)
        if self._stored.get(key) is None:
            self._stored.add(key, at)
        else:
            self._repeated.setdefault(key, []).append(at)
        earlier.done += 1
        earlier.stored += 1
        earlier.usage += line.usage or Usage()
        if line.cost is not None:
            earlier.cost = (earlier.cost or 0.0) + line.cost
        if line.error is not None:
            earlier.failed[line.error.code] += 1
            self._failed.add(at)

    def take(self, key: int) -> int | None:
        """The position of the stored line of an item, once for each line; None if it must be requested."""
        found = self._stored.take(key)
        if found is None and self._repeated.get(key):
            found = self._repeated[key].pop()
        if found is not None:
            self.left_over -= 1
        return found

    def failed_at(self, at: int) -> bool:
        """Whether the stored line at a place has an error."""
        return at in self._failed

    def append(self, line: bytes) -> int:
        """Writes a line; returns its place.

        raises: KeepFailed; then nothing of the line is in the file
        """
        at = self._end
        try:
            _write(self._file, line, at)
        except OSError as error:
            os.ftruncate(self._file, at)
            raise _failed(self.path, error) from error
        self._end += len(line)
        return at

    def put(self, index: int, at: int) -> None:
        """Notes that the item of an index has its line at a place, for `sort`."""
        missing = index + 1 - len(self._order)
        if missing > 0:
            self._order.extend([NOWHERE] * missing)
        self._order[index] = at

    def read(self, at: int) -> bytes:
        """The line at a place."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(at)
            return next(records(file, quoted=self.lines.quoted))[0]

    def drop_failed(self) -> int:
        """Removes the lines of failed items, so that they are requested again; returns how many.

        raises: KeepFailed; then the file is as it was
        """
        if not self.earlier.failed:
            return 0
        dropped = self.earlier.failed.total()
        kept = (record for record, line in self._lines_from(len(self.lines.head())) if line.error is None)
        self._replace(kept)
        self.earlier, self._stored, self._repeated, self._failed = MapProgress(), Places(), {}, set()
        self._read_all()
        return dropped

    def _lines_from(self, at: int) -> Iterator[tuple[bytes, Line]]:
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(at)
            for number, (record, _) in enumerate(records(file, quoted=self.lines.quoted)):
                yield record, self._line(record, number)

    def sort(self) -> None:
        """Puts the lines in the order of the items; those of other items come last.

        raises: KeepFailed; then the file is as it was
        """
        if all(first <= second for first, second in itertools.pairwise(self._met())):
            return
        rest = sorted(itertools.chain(self._stored, *self._repeated.values()))

        def ordered() -> Iterator[bytes]:
            with os.fdopen(os.dup(self._file), "rb") as file:
                for at in itertools.chain(self._met(), rest):
                    file.seek(at)
                    yield next(records(file, quoted=self.lines.quoted))[0]

        self._replace(ordered())

    def _met(self) -> Iterator[int]:
        """The places of the lines of the items, in the order of the items."""
        return (at for at in self._order if at != NOWHERE)

    def _replace(self, lines: Iterator[bytes]) -> None:
        """Replaces the file in one step by one with the head and these lines.

        raises: KeepFailed; then the file is as it was
        """
        path = os.path.realpath(self.path)  # not the link to it
        try:
            new, end = self._put_at(path, lines)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path + _REPLACEMENT)
            raise _failed(self.path, error) from error
        os.close(self._file)
        self._file, self._end = new, end

    def _put_at(self, path: str, lines: Iterator[bytes]) -> tuple[int, int]:
        """Writes a new file and moves it to a path; returns its descriptor, locked, and its size."""
        temporary = path + _REPLACEMENT
        mode = stat.S_IMODE(os.fstat(self._file).st_mode)
        new = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        try:
            lock(new)
            with os.fdopen(os.dup(new), "wb") as file:
                file.write(self.lines.head())
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
                end = file.tell()
            os.replace(temporary, path)
            return new, end
        except BaseException:
            os.close(new)
            raise

    def close(self) -> None:
        """Closes and unlocks the file; a new one without any result is removed. Idempotent."""
        if self._file >= 0:
            if self._end == len(self.lines.head()) and is_at(self._file, self.path):
                with suppress(OSError):
                    os.unlink(self.path)
                    os.unlink(self.path + ".run")
            os.close(self._file)
            self._file = -1


def _opened(path: str) -> int:
    """Opens and locks the file.

    raises: InvalidRequest for a file that cannot be a checkpoint, or is in use
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidRequest(f"{path} is not a regular file, so it cannot record what is done.")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        file = os.open(path, flags, 0o666)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}. Check the path.") from None
    try:
        lock(file)
        # Its last writer may have replaced it between these two calls.
        busy = not is_at(file, os.path.realpath(path))
    except BlockingIOError:
        busy = True
    if busy:
        os.close(file)
        raise InvalidRequest(
            f"another process is writing {path}. Wait for it, or choose another output."
        ) from None
    return file


def _write(file: int, data: bytes, at: int) -> None:
    os.lseek(file, at, os.SEEK_SET)
    while data:
        data = data[os.write(file, data) :]


def _failed(path: str, error: OSError) -> KeepFailed:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = (
        "Make room and run it again: it continues where it stopped"
        if full
        else "Run it again when that is repaired"
    )
    return KeepFailed(f"cannot write {path}: {error.strerror or error}. {remedy}.")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if names[:-1] else "") + names[-1]
