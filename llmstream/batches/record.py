"""The file of a batch: its submitted jobs, their names, and their results.

It is written before and after each submission, so that a process that continues after a crash knows which
jobs to look for at the vendor. Results are next to it, one file per job: `job.json.0.results`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.files import lock, replace_file
from llmstream.first_use import prepared

__all__ = ["Part", "Record", "ids_of"]

_FORMAT: Final = "llmstream.batch"
_VERSION: Final = 1
# 64 bits: in a batch of 100,000 requests, two with the same id have a chance of one in three billion.
_ID_CHARS: Final = 16


class Part(msgspec.Struct, omit_defaults=True):
    """One job at the vendor.

    name:     by which it is found there; each result's id begins with it
    endpoint: path of its requests, as the dialect has it
    ids:      of its requests, 16 hexadecimal digits each, joined
    at:       Unix time in seconds when its submission began
    state:    planned: it may or may not exist; submitted: `job` is its id; collected: its results are stored
    file:     id of the uploaded file
    round:    0 for the first submission of its requests, 1 for the repetition of those without an answer
    problem:  why all of it failed
    counts:   whether its requests have used up one of their rounds
    """

    name: str
    endpoint: str
    ids: str
    at: float
    round: int = 0
    state: Literal["planned", "submitted", "collected"] = "planned"
    file: str = ""
    job: str = ""
    finished: int = 0
    problem: str = ""
    counts: bool = True

    @property
    def size(self) -> int:
        """How many requests it has."""
        return len(self.ids) // _ID_CHARS


def ids_of(part: Part) -> Iterator[str]:
    """The ids of the requests of a part."""
    return (part.ids[at : at + _ID_CHARS] for at in range(0, len(part.ids), _ID_CHARS))


class _File(msgspec.Struct):
    model: str
    asked: dict[str, Any]
    name: str
    parts: list[Part]
    format: str = _FORMAT
    version: int = _VERSION


class Record:
    """The open record of a batch, locked against other processes.

    raises: InvalidRequest for the file of another batch, or one in use
    """

    def __init__(self, path: str | os.PathLike[str], model: str, asked: dict[str, Any]) -> None:
        self.path = os.fspath(path)
        self._lock = _locked(self.path)
        try:
            self._file = self._read(model, asked)
        except BaseException:
            self.close()
            raise

    @property
    def parts(self) -> list[Part]:
        """The jobs, in the order of their submission."""
        return self._file.parts

    def _read(self, model: str, asked: dict[str, Any]) -> _File:
        asked = msgspec.json.decode(msgspec.json.encode(asked))  # as decoded from the file
        try:
            with open(self.path, "rb") as file:
                found = msgspec.json.decode(file.read(), type=prepared(_File))
        except FileNotFoundError:
            # Random, since it is the name at the vendor: two records of one account must not find each
            # other's jobs.
            return _File(model, asked, os.urandom(6).hex(), [])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequest(
                f"{self.path} is not the record of a batch: {error}. Choose another file."
            ) from None
        if (found.format, found.version) != (_FORMAT, _VERSION):
            raise InvalidRequest(
                f"{self.path} is not a record that this llmstream knows. Choose another file."
            )
        # Its answers would be mistaken for those to other requests.
        if (found.model, found.asked) != (model, asked):
            raise InvalidRequest(
                f"{self.path} is the record of a batch of another model, or with other options. Choose "
                "another file, or use the earlier model and options."
            )
        return found

    def begin(self, endpoint: str, ids: list[str], at: float, number: int) -> Part:
        """Adds a part before it is submitted, and writes that down.

        raises: OSError
        """
        numbers = [int(part.name.rpartition("-")[2]) for part in self.parts]
        name = f"{self._file.name}-{max(numbers, default=-1) + 1}"
        part = Part(name, endpoint, "".join(ids), at, number)
        self.parts.append(part)
        self.write()
        return part

    def write(self) -> None:
        """Writes the record in one step.

        raises: OSError
        """
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(self._file), indent=1))

    def results_path(self, part: Part) -> str:
        """Where the results of a part are stored."""
        return f"{self.path}.{part.name.rpartition('-')[2]}.results"

    def close(self) -> None:
        """Unlocks the record. Idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _locked(path: str) -> int:
    """raises: InvalidRequest"""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    try:
        # A separate file, because each write replaces the record.
        file = os.open(path + ".lock", flags, 0o600)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}. Check the path.") from None
    try:
        lock(file)
    except BlockingIOError:
        os.close(file)
        raise InvalidRequest(f"another process uses {path}. Wait for it, or choose another file.") from None
    return file
