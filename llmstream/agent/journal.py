"""What a run does, written down as it does it, so that a crash leaves a record: JSON lines, synced."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Sequence
from operator import is_not

import anyio.to_thread

from llmstream.agent.compaction import compacted
from llmstream.agent.journal_lines import Line, encode_line
from llmstream.chats.content import ToolCall, ToolResult, write_whole
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages
from llmstream.errors import DecodeError, InvalidRequest

__all__ = ["Journal", "RunJournal"]


_log = logging.getLogger("llmstream.journal")

_OLD_COPY_S = 60.0
"""Writing a copy takes less: one that is older was left behind."""

COMPACT_AFTER = 1000
"""Lines: some hundred steps, and less than a second of reading."""


class Journal:
    """A file to which runs of agents write each call before it runs, and its result after.

    Each line is on the disk (fsync) before the run goes on. The file is its owner's alone (mode
    0600) and holds the whole conversation; it is for one process at a time, and any number of
    runs in it. It is created when the first line is written.

    Every so many lines it is written anew, in one step, without what nobody will ask for: runs
    that came to their end, but for the last of each agent, and of the others what their
    conversation says by then. Runs that were cut off stay until the file is deleted.

    compact_after: the number of lines; None for never
    raises:        InvalidRequest for less than one
    """

    def __init__(self, path: str | os.PathLike[str], *, compact_after: int | None = COMPACT_AFTER) -> None:
        self._file: int | None = None
        self._lock = threading.Lock()
        if compact_after is not None and compact_after < 1:
            raise InvalidRequest(f"compact_after is a number of lines, at least 1; got {compact_after}")
        self._lines: int | None = None  # since the file was last written anew; None before it is opened
        self._end: int | None = None  # of the last line that is whole, where a write failed behind it
        self._left: set[str] = set()
        self._compact_after = compact_after
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"Journal({self.path!r})"

    def close(self) -> None:
        """Closes the file; the next line opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __del__(self) -> None:
        self.close()

    async def write(self, line: Line) -> None:
        """Writes a line; it is on the disk when this returns.

        raises: OSError where that cannot be done; then no part of the line is left, or is taken off
                before the next line is written
        """
        data = encode_line(line)
        await anyio.to_thread.run_sync(self._write, data)  # written also where its writer is cancelled

    def leave(self, run: str) -> None:
        """Nothing more will be written of this run, which has no end: it was cancelled."""
        self._left.add(run)

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._append(data)
            if self._compact_after is not None and (self._lines or 0) >= self._compact_after:
                self._compact()

    def _append(self, data: bytes) -> None:
        if self._file is None:
            self._file = _opened(self.path, self._end)
            self._end = None
        if self._lines is None:
            self._lines = _count_lines(self.path)
        end = os.fstat(self._file).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError:
            self._take_back(self._file, end)
            raise
        self._lines += 1

    def _take_back(self, file: int, end: int) -> None:
        """Takes off what a failed write left, now or when the file is opened for the next one."""
        self._file = self._lines = None
        self._end = end
        try:
            os.ftruncate(file, end)
        except OSError as error:
            _log.warning("the journal %s ends in a line that could not be taken off: %s", self.path, error)
        finally:
            try:
                os.close(file)
            except OSError:  # it is closed all the same
                pass

    def _compact(self) -> None:
        """Writes the file anew. Where that cannot be done the old one is as good, only longer."""
        self._lines = 0
        try:
            data = compacted(self.path, self._left)
            if self._file is not None:
                os.close(self._file)
                self._file = None
            write_whole(self.path, data, prefix=_copy_prefix(self.path))
        except (OSError, DecodeError) as error:
            _log.warning("the journal %s could not be compacted: %s", self.path, error)
        else:
            self._left.clear()


class RunJournal:
    """The lines of one run; without a journal, none."""

    def __init__(self, journal: Journal | None, agent: str) -> None:
        self._journal = journal
        self._agent = agent
        self._run = secrets.token_hex(8)
        self._written: list[Message] | None = None
        self._ended = False

    async def messages(self, step: int, conversation: Sequence[Message]) -> None:
        """What is new in the conversation since this was last told."""
        if self._journal is None:
            return
        if self._written is None:
            await self._journal.write(Line("run", self._run, agent=self._agent))
            self._written = []
        differs = list(map(is_not, self._written, conversation))  # in C: it is done at each step
        at = differs.index(True) if True in differs else len(differs)
        if at == len(self._written) == len(conversation):
            return
        added = dump_messages(conversation[at:]).decode()
        await self._journal.write(Line("messages", self._run, step=step, at=at, messages=added))
        self._written = list(conversation)

    async def call(self, step: int, call: ToolCall, *, repeatable: bool) -> None:
        """A call that is about to run."""
        if self._journal is not None:
            await self._journal.write(Line("call", self._run, step=step, call=call, repeatable=repeatable))

    async def result(self, step: int, call: ToolCall | None, result: ToolResult) -> None:
        """A call that is done, or was settled without running."""
        if self._journal is not None:
            await self._journal.write(Line("result", self._run, step=step, call=call, result=result))

    async def end(self) -> None:
        """The run came to its end; nothing of it is open."""
        if self._journal is not None and self._written is not None:
            self._ended = True
            await self._journal.write(Line("end", self._run))

    def leave(self) -> None:
        """The run is over, by its end or without one."""
        if self._journal is not None and self._written is not None and not self._ended:
            self._journal.leave(self._run)

    async def discard(self, step: int) -> None:
        """The calls of the step so far belong to an answer that failed."""
        if self._journal is not None and self._written is not None:
            await self._journal.write(Line("discard", self._run, step=step))


def _opened(path: str, known_end: int | None) -> int:
    """The file, open at its end; a line that a crash or a failed write tore is taken off.

    known_end: where the lines end that are acknowledged, if that is known
    """
    _remove_old_copies(path)
    file = _open(path)
    try:
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
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)


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


def _whole_lines_end(file: int) -> int:
    """Where the last whole line ends."""
    at = os.lseek(file, 0, os.SEEK_END)
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
