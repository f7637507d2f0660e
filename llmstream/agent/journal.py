"""What a run does, written down as it does it, so that a crash leaves a record: JSON lines, synced."""

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
"""Lines: some hundred steps, and less than a second of reading."""


class Journal:
    """A file to which runs of agents write each call before it runs, and its result after.

    Each line is on the disk (fsync) before the run goes on. The file is its owner's alone (mode
    0600) and holds the whole conversation; it is for one process at a time, which holds a lock on it
    from the first line until `close`, and any number of runs in it. It is created when the first line
    is written. Journals of one path in one process share the file.

    Every so many lines it is written anew, in one step, without what nobody will ask for: runs
    that came to their end, but for the last of each agent, and of the others what their
    conversation says by then. Runs that were cut off stay until the file is deleted.

    compact_after: the number of lines; None for never
    raises:        InvalidRequest for less than one
    """

    def __init__(self, path: str | os.PathLike[str], *, compact_after: int | None = COMPACT_AFTER) -> None:
        if compact_after is not None and compact_after < 1:
            raise InvalidRequest(f"compact_after is a number of lines, at least 1; got {compact_after}")
        self._compact_after = compact_after
        self.path = os.fspath(path)
        self._file = JournalFile.at(self.path)

    def __repr__(self) -> str:
        return f"Journal({self.path!r})"

    def close(self) -> None:
        """Closes the file and lets other processes have it; the next line opens it again."""
        self._file.close()

    async def write(self, line: Line) -> None:
        """Writes a line; it is on the disk when this returns.

        raises: OSError where that cannot be done; then no part of the line is left, or is taken off
                before the next line is written; JournalInUse where another process has the file
        """
        # In a thread that is not abandoned: it is written also where its writer is cancelled.
        await anyio.to_thread.run_sync(self._file.write, line, self._compact_after)

    def leave(self, run: str) -> None:
        """Nothing more will be written of this run, which has no end: it was cancelled."""
        self._file.left.add(run)


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


# A run that a crash ended, as a history: what a journal says of its calls.


def recovered(journal: Journal | str | os.PathLike[str], agent: str) -> list[Message]:
    """The history of the agent's last run in the journal, every call with its result.

    raises: InvalidRequest where it holds no run of that agent; DecodeError where it is damaged in
            other ways than by a crash; OSError where it cannot be read
    """
    path = journal.path if isinstance(journal, Journal) else os.fspath(journal)
    lines = list(read_lines(path))
    run = next((line.run for line in reversed(lines) if line.type == "run" and line.agent == agent), None)
    if run is None:
        raise InvalidRequest(f"the journal {path} holds no run of the agent {agent!r}")
    record = RunRecord()
    for line in lines:
        if line.run == run:
            record.read(line)
    return record.history()
