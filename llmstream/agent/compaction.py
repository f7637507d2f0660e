"""A journal without what nobody will ask for any more."""

from __future__ import annotations

from collections.abc import Container

from llmstream.agent.journal_lines import RunRecord, encode_line, read_lines, sum_of

__all__ = ["compacted"]


def compacted(path: str, left: Container[str]) -> bytes:
    """What a journal has to hold: of each run the conversation and the calls that are not in it.

    Runs that came to their end are dropped, but for the last of each agent, which `recover` may be
    asked for. Runs that were cut off stay, however old: somebody may have to look into them.

    left:   ids of runs that have no end in it and that nothing will be added to, such as cancelled ones
    raises: DecodeError where the file is damaged; OSError where it cannot be read
    """
    records: dict[str, RunRecord] = {}
    last: dict[str, str] = {}
    for line in read_lines(path):
        record = records.setdefault(line.run, RunRecord())
        record.read(line)
        if line.type == "run":
            last[line.agent] = line.run
    kept = [
        (run, record)
        for run, record in records.items()
        if last.get(record.agent) == run or not (record.ended or run in left)
    ]
    lines: list[bytes] = []
    after = 0
    for run, record in kept:
        for line in record.lines(run):
            lines.append(encode_line(line, after))
            after = sum_of(lines[-1])
    return b"".join(lines)
