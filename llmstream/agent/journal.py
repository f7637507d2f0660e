"""The journal of runs: each call is written to disk before it runs, so that a crash leaves a record."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from operator import is_not

import anyio.to_thread

from llmstream.agent.journal_file import JournalFile
from llmstream.agent.journal_lines import Line, RunRecord, read_lines
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages
from llmstream.errors import InvalidRequest

__all__ = ["Journal", "RunJournal", "recovered"]


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
    file is deleted.

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

    def leave(self, run: str) -> None:
        """Reports a cancelled run: no more lines and no end will be written for it."""
        self._file.left.add(run)


class RunJournal:
    """Writes the lines of one run; without a journal it does nothing."""

    def __init__(self, journal: Journal | None, agent: str) -> None:
        self._journal = journal
        self._agent = agent
        self._run = secrets.token_hex(8)
        self._written: list[Message] | None = None
        self._ended = False

    async def messages(self, step: int, conversation: Sequence[Message]) -> None:
        """Writes the messages that are new or changed since the last call."""
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
    record = RunRecord()
    for line in lines:
        if line.run == run:
            record.read(line)
    return record.history()
