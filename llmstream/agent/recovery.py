"""A run that a crash ended, as a history: what a journal says of its calls."""

from __future__ import annotations

import os

from llmstream.agent.journal import Journal
from llmstream.agent.journal_lines import RunRecord, read_lines
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest

__all__ = ["recovered"]


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
