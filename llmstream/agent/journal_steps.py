"""The port `Steps` in the file of a journal: runs that go on in the next process, without a database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from llmstream.agent.durable_steps import Do
from llmstream.agent.journal_lines import Line
from llmstream.errors import Interrupted

__all__ = ["JournalSteps", "Write"]

Write: TypeAlias = Callable[[Line], Awaitable[None]]
"""Writes a line; it is on disk when this returns."""


class JournalSteps:
    """The recorded steps of one run, for `Agent.stream(steps=)`; see `Steps`. `Journal.steps` makes it.

    `step` also raises OSError if its line cannot be written; then the run ends. `wait` does not wait: while
    one process has the file, no other can record anything. A run that waits for a decision is suspended.

    lines: those of the run
    write: for lines of the run; raises Lost once its steps were opened again
    """

    def __init__(self, run: str, lines: Iterable[Line], write: Write) -> None:
        self.run = run
        self._write = write
        self._done: dict[str, bytes] = {}
        self._begun: set[str] = set()
        self._broken: Exception | None = None
        for line in lines:
            if line.type == "begin":
                self._begun.add(line.key)
            elif line.type == "done":
                self._done[line.key] = line.data.encode()

    async def step(self, key: str, do: Do, *, again: bool) -> bytes:
        """As in `Steps`."""
        if key in self._done:
            return self._done[key]
        if self._broken is not None:
            raise self._broken
        if not again:
            if key in self._begun:
                raise Interrupted(
                    f"{key} had begun in a process that died; it is not done again.", reason=key
                )
            await self._written(Line("begin", self.run, key=key))
        data = await do()
        # It may be the failure of a sub-agent whose own step could not be written, and no result of the call.
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

    async def wait(self, key: str, timeout_s: float | None) -> bytes | None:
        """What is recorded under the key; it returns at once."""
        return self._done.get(key)
