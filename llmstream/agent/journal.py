"""What a run does, written down as it does it, so that a crash leaves a record: JSON lines, synced."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Sequence

import anyio.to_thread
import msgspec

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages

__all__ = ["Journal", "Line", "RunJournal"]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a journal.

    type:         "run", "messages", "call", "result" or "discard"
    run:          the id of the run
    agent:        with "run": the agent's name
    step:         the number of the step
    at:           with "messages": how many messages of the conversation before them stay
    messages:     their saved form
    call, result: as they ran, and what the model is to see of it
    repeatable:   with "call": whether the tool may run again without harm
    """

    type: str
    run: str
    agent: str = ""
    step: int = 0
    at: int = 0
    messages: str = ""
    call: ToolCall | None = None
    result: ToolResult | None = None
    repeatable: bool = False


class Journal:
    """A file to which runs of agents write each call before it runs, and its result after.

    Each line is on the disk (fsync) before the run goes on. The file is its owner's alone (mode
    0600) and holds the whole conversation; it is for one process at a time, and any number of
    runs in it. It is created when the first line is written; delete it when nothing in it is
    wanted any more.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file: int | None = None
        self._lock = threading.Lock()
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

        raises: OSError where that cannot be done; then no part of the line is left
        """
        data = msgspec.json.encode(line) + b"\n"
        await anyio.to_thread.run_sync(self._write, data)  # written also where its writer is cancelled

    def _write(self, data: bytes) -> None:
        with self._lock:
            if self._file is None:
                self._file = _opened(self.path)
            end = os.fstat(self._file).st_size
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, end)
                raise


class RunJournal:
    """The lines of one run; without a journal, none."""

    def __init__(self, journal: Journal | None, agent: str) -> None:
        self._journal = journal
        self._agent = agent
        self._run = secrets.token_hex(8)
        self._written: list[Message] | None = None

    async def messages(self, step: int, conversation: Sequence[Message]) -> None:
        """What is new in the conversation since this was last told."""
        if self._journal is None:
            return
        if self._written is None:
            await self._journal.write(Line("run", self._run, agent=self._agent))
            self._written = []
        pairs = zip(self._written, conversation, strict=False)
        same = next((at for at, (a, b) in enumerate(pairs) if a is not b), None)
        at = min(len(self._written), len(conversation)) if same is None else same
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

    async def discard(self, step: int) -> None:
        """The calls of the step so far belong to an answer that failed."""
        if self._journal is not None and self._written is not None:
            await self._journal.write(Line("discard", self._run, step=step))


def _opened(path: str) -> int:
    """The file, open at its end; a line that a crash tore is taken off."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(file, 0o600)  # it may have been there, for others to read
        end = _whole_lines_end(file)
        if end != os.fstat(file).st_size:
            os.ftruncate(file, end)
        _sync_folder(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        os.close(file)
        raise
    return file


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
