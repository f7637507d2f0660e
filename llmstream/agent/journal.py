"""The journal of runs: each call is written to disk before it runs, so that a crash leaves a record.

`JournalFile` locks the file, appends, repairs it after a failed write, and compacts it. One run writes its
calls by `RunJournal`, or its steps by `JournalSteps`. The format of the lines is in `journal_lines`.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import is_not
from typing import ClassVar
from weakref import WeakValueDictionary

import anyio.to_thread

from llmstream.agent.durable_steps import Do
from llmstream.agent.journal_lines import Line, RunRecord, compacted, encode_line, read_lines, sum_of
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages
from llmstream.errors import DecodeError, Interrupted, InvalidRequest, Lost
from llmstream.files import is_at, lock, replace_file, sync_folder

__all__ = [
    "Journal",
    "JournalFile",
    "JournalInUse",
    "JournalSteps",
    "RunJournal",
    "recovered",
]

COMPACT_AFTER = 1000
"""Lines: a few hundred steps, which take less than a second to read."""


class Journal:
    """A file of JSON lines: runs of agents write each call before it runs, and its result afterwards.

    Each line is on disk (fsync) before the run continues. The file has mode 0600 and contains the
    complete conversation. One process at a time uses it, for any number of runs, and holds a lock on
    it from the first line until `close`. The first line creates the file. Journals with the same path
    in one process share the file.

    After a number of lines the file is compacted, atomically: of completed runs it keeps the last of
    each agent, and superseded lines of the other runs are removed. Interrupted runs stay until the
    file is deleted, and recorded steps (`steps`) until they are forgotten.

    compact_after: the number of lines; None for never
    raises:        InvalidRequest for less than one
    """

    def __init__(self, path: str | os.PathLike[str], *, compact_after: int | None = COMPACT_AFTER) -> None:
        if compact_after is not None and compact_after < 1:
            raise InvalidRequest(f"compact_after must be at least 1 line, got {compact_after}")
        self._compact_after = compact_after
        self.path = os.fspath(path)
        self._file = JournalFile.at(self.path)

    def __repr__(self) -> str:
        return f"Journal({self.path!r})"

    def close(self) -> None:
        """Closes and unlocks the file; the next line opens it again."""
        self._file.close()

    async def write(self, line: Line) -> None:
        """Writes a line; it is on disk when this returns.

        raises: OSError if that fails; then no part of the line is left, or it is removed before the
                next line is written; JournalInUse if another process uses the file
        """
        # The thread is not abandoned, so a cancelled writer still completes the line.
        await anyio.to_thread.run_sync(self._file.write, line, self._compact_after)

    async def steps(self, run: str) -> JournalSteps:
        """Where a run records its steps, for `Agent.stream(prompt, steps=)`; the same id continues it.

        They stay in the file until `forget`, also those of a run that is over.

        run:    id of the run, as the application chooses it
        raises: DecodeError if the file is damaged; OSError, JournalInUse as `write`
        """
        # Opening the steps of a run invalidates earlier instances: two would run each call twice.
        owner = object()

        async def write(line: Line) -> None:
            await anyio.to_thread.run_sync(self._file.write, line, self._compact_after, owner)

        await write(Line("steps", run))
        return JournalSteps(run, await anyio.to_thread.run_sync(_lines_of, self.path, run), write)

    async def forget(self, run: str) -> None:
        """Forgets the steps of a run; the next compaction removes them.

        raises: OSError, JournalInUse as `write`
        """
        await self.write(Line("forget", run))

    def leave(self, run: str) -> None:
        """Reports a cancelled run: no more lines and no end will be written for it."""
        self._file.left.add(run)


class RunJournal:
    """Writes the lines of one run; without a journal it does nothing."""

    def __init__(self, journal: Journal | None, agent: str) -> None:
        self._journal = journal
        self._agent = agent
        # Runs of one file interleave, also those of one agent.
        self._run = secrets.token_hex(8)
        self._written: list[Message] | None = None
        self._ended = False

    async def messages(self, step: int, conversation: Sequence[Message]) -> None:
        """Writes the messages that are new or changed since the last call."""
        if self._journal is None:
            return
        # Written with the first messages: a run that ends before them leaves no lines.
        if self._written is None:
            await self._journal.write(Line("run", self._run, agent=self._agent))
            self._written = []
        differs = list(map(is_not, self._written, conversation))  # in C: runs at each step
        at = differs.index(True) if True in differs else len(differs)
        if at == len(self._written) == len(conversation):
            return
        added = dump_messages(conversation[at:]).decode()
        await self._journal.write(Line("messages", self._run, step=step, at=at, messages=added))
        # A separate list, because the conversation grows.
        self._written = list(conversation)

    async def call(self, step: int, call: ToolCall, *, repeatable: bool) -> None:
        """Writes a call that is about to run."""
        if self._journal is not None:
            await self._journal.write(Line("call", self._run, step=step, call=call, repeatable=repeatable))

    async def result(self, step: int, call: ToolCall | None, result: ToolResult) -> None:
        """Writes the result of a call that finished, or was settled without running."""
        if self._journal is not None:
            await self._journal.write(Line("result", self._run, step=step, call=call, result=result))

    async def end(self) -> None:
        """Writes the end of the run; none of its calls is open."""
        if self._journal is not None and self._written is not None:
            self._ended = True
            await self._journal.write(Line("end", self._run))

    def leave(self) -> None:
        """Reports that the run is over; call it with or without an end."""
        if self._journal is not None and self._written is not None and not self._ended:
            self._journal.leave(self._run)

    async def discard(self, step: int) -> None:
        """Discards the calls of the step so far: their response failed."""
        if self._journal is not None and self._written is not None:
            await self._journal.write(Line("discard", self._run, step=step))


class JournalSteps:
    """The recorded steps of one run, for `Agent.stream(steps=)`: `Steps` in a file. `Journal.steps` makes it.

    `step` also raises OSError if its line cannot be written; then the run ends. `wait` does not wait: while
    one process has the file, no other can record anything. A run that waits for a decision is suspended.

    lines: those of the run
    write: writes a line of the run, which is then on disk; raises Lost once its steps were opened again
    """

    def __init__(self, run: str, lines: Iterable[Line], write: Callable[[Line], Awaitable[None]]) -> None:
        self.run = run
        self._write = write
        self._done: dict[str, bytes] = {}
        self._begun: set[str] = set()
        self._broken: Exception | None = None
        self._inbox = asyncio.Lock()
        for line in lines:
            if line.type == "begin":
                self._begun.add(line.key)
            elif line.type == "done":
                self._done[line.key] = line.data.encode()

    async def step(self, key: str, do: Do, *, again: bool) -> bytes:
        """As in `Steps`."""
        if key.startswith("inbox/"):
            # The next number goes to the first to write it: the sender of a message, or the run at its end.
            async with self._inbox:
                return await self._step(key, do, again=again)
        return await self._step(key, do, again=again)

    async def _step(self, key: str, do: Do, *, again: bool) -> bytes:
        # Before the check for failures: recorded results stay valid.
        if key in self._done:
            return self._done[key]
        if self._broken is not None:
            raise self._broken
        # A repeatable step needs no begin record: no reader depends on it.
        if not again:
            if key in self._begun:
                raise Interrupted(
                    f"{key} was started by a process that died; it is not repeated.", reason=key
                )
            await self._written(Line("begin", self.run, key=key))
        data = await do()
        # It may be the failure to write a step of a sub-agent, which is no result of the call.
        if self._broken is not None:
            raise self._broken
        await self._written(Line("done", self.run, key=key, data=data.decode()))
        self._done[key] = data
        return data

    async def _written(self, line: Line) -> None:
        try:
            await self._write(line)
        except Exception as error:
            self._broken = error
            raise

    async def send(self, message: str | Message) -> None:
        """Sends a user message to the run, before its next step; it is on disk when this returns.

        raises: InvalidRequest if the run is over, or ends now; OSError, Lost as `step`
        """
        if not isinstance(message, str | Message):
            raise InvalidRequest(f"send() takes a str or a Message, got {message!r}")
        data = dump_messages([Message.user(message) if isinstance(message, str) else message])
        recorded = False

        async def do() -> bytes:
            nonlocal recorded
            recorded = True
            return data

        number = 0
        while await self.step(f"inbox/{number}", do, again=True) and not recorded:
            number += 1
        if not recorded:
            raise InvalidRequest(
                f"run {self.run!r} has ended or is ending. Start a new run with its messages(), "
                "followed by this message."
            )

    async def wait(self, key: str, timeout_s: float | None) -> bytes | None:
        """What is recorded under the key; it returns at once."""
        return self._done.get(key)


def _lines_of(path: str, run: str) -> list[Line]:
    """The lines of one run since it was last forgotten."""
    found: list[Line] = []
    for line in read_lines(path):
        if line.run == run:
            # An id may be used again after it was forgotten.
            if line.type == "forget":
                found.clear()
            found.append(line)
    return found


def recovered(journal: Journal | str | os.PathLike[str], agent: str) -> list[Message]:
    """The history of the agent's last run in the journal, with a result for every call.

    raises: InvalidRequest if it has no run of that agent; DecodeError if it is damaged otherwise than
            by a crash; OSError if it cannot be read
    """
    path = journal.path if isinstance(journal, Journal) else os.fspath(journal)
    lines = list(read_lines(path))
    run = next((line.run for line in reversed(lines) if line.type == "run" and line.agent == agent), None)
    if run is None:
        raise InvalidRequest(f"the journal {path} contains no run of the agent {agent!r}")
    # Only this run's lines: runs in one file interleave.
    record = RunRecord()
    for line in lines:
        if line.run == run:
            record.read(line)
    return record.history()


# The file: locked, appended to, repaired, compacted.

_log = logging.getLogger("llmstream.journal")

# Writing a copy takes less time, so an older copy belongs to a process that was killed.
_OLD_COPY_S = 60.0

# Bytes at the start of a line that include its checksum.
_HEAD_BYTES = 64


class JournalInUse(InvalidRequest, OSError):
    """Another process has this journal open."""


class JournalFile:
    """The file that all journals of one path in this process share.

    left: ids of runs that have no end and get no more lines
    """

    # Weak references: when the last journal of a path is freed, the file is closed and unlocked.
    _by_path: ClassVar[WeakValueDictionary[str, JournalFile]] = WeakValueDictionary()
    _finding: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: str) -> None:
        self._file: int | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._path = path
        self._lines: int | None = None  # since the last compaction; None before it is opened
        self._end: int | None = None  # end of the last complete line, if a write after it failed
        self._sum = 0  # checksum of the last line
        self.left: set[str] = set()
        self._owners: dict[str, object] = {}  # of opened runs: the id of the current writer

    @classmethod
    def at(cls, path: str) -> JournalFile:
        """The instance for a path: two for one file would not notice each other's compaction."""
        folder, name = os.path.split(os.path.abspath(path))
        path = os.path.join(os.path.realpath(folder), name)
        with cls._finding:
            # The folder is resolved and the file is not: a journal that is a symbolic link is refused when it
            # is opened.
            found = cls._by_path.get(path)
            if found is None:
                found = cls._by_path[path] = cls(path)
            return found

    def close(self) -> None:
        """Closes and unlocks the file; the next line opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __del__(self) -> None:
        self.close()

    def write(self, line: Line, compact_after: int | None, owner: object = None) -> None:
        """Appends a line and syncs it to disk; compacts the file after `compact_after` lines.

        owner:  of the steps of a run, who writes them; a line "steps" makes it the only one
        raises: OSError, JournalInUse; Lost for an owner that is not the last one
        """
        # Lines are written from several threads.
        with self._lock:
            if owner is not None and line.type != "steps" and self._owners.get(line.run) is not owner:
                raise Lost(
                    f"the steps of run {line.run!r} were opened again or deleted, so this object is no "
                    "longer valid. Use the steps that were opened last."
                )
            self._append(line)
            # Becomes the owner only once its line is on disk: after a failure the previous owner stays.
            if line.type == "steps":
                self._owners[line.run] = owner
            elif line.type == "forget":
                self._owners.pop(line.run, None)
            if compact_after is not None and (self._lines or 0) >= compact_after:
                self._compact()

    def _append(self, line: Line) -> None:
        if self._file is not None and self._process != os.getpid():
            os.close(self._file)  # this process is a fork: the lock belongs to its parent
            self._file = None
        if self._file is not None and not is_at(self._file, self._path):
            os.close(self._file)
            self._file = self._lines = None
            if line.type not in (
                "run",
                "steps",
            ):  # the run's earlier lines are lost; a partial record would mislead
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
            # A write may be short, for example when a disk is nearly full.
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            # If a power failure removed its line, a call would run a second time after recovery.
            os.fsync(self._file)
        except OSError:
            self._truncate(self._file, end)
            raise
        self._sum = sum_of(data)
        self._lines += 1

    def _truncate(self, file: int, end: int) -> None:
        """Removes the rest of a failed write, now or when the file is opened next."""
        self._file = self._lines = None
        self._end = end
        try:
            os.ftruncate(file, end)
        except OSError as error:
            # Truncated when the file is next opened; until then readers ignore an incomplete line.
            _log.warning("the incomplete last line of the journal %s was not removed: %s", self._path, error)
        finally:
            try:
                os.close(file)
            except OSError:  # the descriptor is closed in any case
                pass

    def _compact(self) -> None:
        """Writes a shorter file. If that fails, the old one stays valid."""
        # Also reset on failure: the next attempt comes after as many lines, not at each line.
        self._lines = 0
        try:
            data = compacted(self._path, self.left)
            old, self._file = self._file, None
            if os.name == "nt" and old is not None:  # Windows replaces no open file
                os.close(old)
                old = None
            try:
                replace_file(self._path, data, prefix=_copy_prefix(self._path))
                self._file = _open(self._path)  # locked before the old one is unlocked
                self._sum = _last_sum(self._file)
            finally:
                if old is not None:
                    os.close(old)
        except (OSError, DecodeError) as error:
            # Every line is on disk: failing to compact the file does not fail the run.
            _log.warning("the journal %s could not be compacted: %s", self._path, error)
        else:
            self.left.clear()


def _opened(path: str, known_end: int | None) -> int:
    """Opens the file for appending, and removes a line that a crash or failed write left incomplete.

    known_end: the end of the acknowledged lines, if known
    """
    file = _open(path)
    try:
        _remove_old_copies(path)
        if hasattr(os, "fchmod"):
            os.fchmod(file, 0o600)  # an existing file may be readable by others
        size = os.fstat(file).st_size
        end = _complete_lines_end(file)
        # A failed write may have left a complete but unacknowledged line.
        if known_end is not None and known_end < end:
            end = known_end
        if end != size:
            file = _cut(path, file, end)
        # fsync of a new file does not make its name durable; source: fsync(2).
        sync_folder(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        os.close(file)
        raise
    return file


def _open(path: str) -> int:
    """Opens and locks the file.

    raises: OSError, JournalInUse
    """
    # Not through a symbolic link: anyone with write access to the folder could redirect the conversation.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        file = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):  # do not change the mode of a pipe or device
                raise OSError(errno.EINVAL, "not a regular file", path)
            lock(file)
            # Between open and lock another process may have put a compacted file in its place; a lock on the
            # old one protects nothing.
            if is_at(file, path):
                return file
        except BlockingIOError:
            os.close(file)
            raise JournalInUse(
                f"another process writes to the journal {path}. Only one process at a time can use a "
                "journal: use another path, or stop the other process first."
            ) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # another process replaced the file meanwhile


def _cut(path: str, file: int, end: int) -> int:
    """Truncates the file at `end`; replaces it by a copy if it cannot be truncated."""
    try:
        os.ftruncate(file, end)
    except OSError:
        with open(path, "rb") as source:
            replace_file(path, source.read(end), prefix=_copy_prefix(path))
        renewed = _open(path)
        os.close(file)
        return renewed
    return file


def _copy_prefix(path: str) -> str:
    """Prefix of the names of temporary copies; a hash, because file names have a length limit."""
    return f".journal-{hashlib.sha256(os.path.basename(path).encode()).hexdigest()[:16]}-"


def _remove_old_copies(path: str) -> None:
    """Removes copies of killed processes, because they contain conversations."""
    folder, prefix = os.path.dirname(os.path.abspath(path)), _copy_prefix(path)
    try:
        for name in os.listdir(folder):
            if name.startswith(prefix) and name.endswith(".tmp"):
                copy = os.path.join(folder, name)
                if time.time() - os.stat(copy).st_mtime > _OLD_COPY_S:
                    os.unlink(copy)
    except OSError:  # the folder is not readable, or another process removed the copy first
        pass


def _count_lines(path: str) -> int:
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def _last_sum(file: int) -> int:
    """The checksum of the last line of a file that ends in a complete line; 0 without one."""
    end = os.fstat(file).st_size
    os.lseek(file, _complete_lines_end(file, end - 1), os.SEEK_SET)
    return sum_of(os.read(file, _HEAD_BYTES))


def _complete_lines_end(file: int, before: int | None = None) -> int:
    """The end of the last complete line, of the file or of its part before an offset."""
    at = os.lseek(file, 0, os.SEEK_END) if before is None else before
    while at > 0:
        # Read from the end: a journal may have megabytes, and only the last line may be incomplete.
        start = max(0, at - 65536)
        os.lseek(file, start, os.SEEK_SET)
        found = os.read(file, at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0
