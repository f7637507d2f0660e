"""The lines of a journal: their format, and the history of a run reconstructed from them."""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterator
from typing import Final

import msgspec

from llmstream.agent.history import open_calls, settled
from llmstream.chats.content import ToolCall, ToolResult, outcome_mark
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import DecodeError
from llmstream.first_use import prepared

__all__ = ["Line", "RunRecord", "compacted", "encode_line", "read_lines", "sum_of"]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a journal.

    type:         "run", "messages", "call", "result", "discard" or "end"; of a run whose steps are recorded,
                  "steps" each time that it is opened, "begin", "done", and "forget"
    run:          the id of the run
    agent:        with "run": the agent's name
    step:         the number of the step
    at:           with "messages": how many earlier messages stay before them
    messages:     their saved form
    call, result: the call as it ran, and the result for the model
    repeatable:   with "call": whether the tool may run again without harm
    key, data:    with "begin" and "done": the key of the step, and what is recorded under it
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
    key: str = ""
    data: str = ""


# The form of a line in the file, and its checksum.

# Start of a line. Its checksum continues that of the line before, so a missing, doubled or moved line is
# detected. CRC-32 detects every burst error of up to 32 bits.
_CHAIN: Final = b'{"chain":"'

# Start of a line in older versions: a checksum of the line alone.
_SUM: Final = b'{"sum":"'

# Start of a line in the first version, without a checksum.
_PLAIN: Final = b'{"type":'


def encode_line(line: Line, after: int = 0) -> bytes:
    """Encodes a line: a JSON object whose first field is the checksum of the rest.

    after: the checksum of the line before it; 0 for the first line
    """
    body = msgspec.json.encode(line)
    return b'%s%08x",%s\n' % (_CHAIN, zlib.crc32(body, after), body[1:])


def sum_of(line: bytes) -> int:
    """The checksum in a line, or in its beginning; 0 without one."""
    for start in (_CHAIN, _SUM):
        if line.startswith(start):
            try:
                return int(line[len(start) : len(start) + 8], 16)
            except ValueError:
                return 0
    return 0


def read_lines(path: str) -> Iterator[Line]:
    """Reads the lines of a file, without a last line that a crash left incomplete.

    Lines of older versions have no checksum, or one of the line alone. After the first line with a newer
    kind, older kinds are damage.

    raises: DecodeError if a line is damaged; OSError if the file cannot be read
    """
    # A file may begin in an older version and continue in this one, but not the other way round.
    after, least = 0, 0
    with open(path, "rb") as file:
        for number, data in enumerate(file, 1):
            # Only the last line can be incomplete, after a crash, and it was never acknowledged.
            if not data.endswith(b"\n"):
                return
            try:
                kind = _kind(data)
                if kind < least:
                    raise ValueError("it has no checksum")
                body = _checked(data, kind, after)
                after, least = sum_of(data), kind
                yield msgspec.json.decode(body, type=prepared(Line))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise DecodeError(f"line {number} of the journal {path} is damaged: {error}") from None


def _kind(data: bytes) -> int:
    """The scope of a line's checksum: 0 nothing, 1 the line, 2 also the lines before it.

    raises: ValueError if it does not start like a line of a journal
    """
    for kind, start in enumerate((_PLAIN, _SUM, _CHAIN)):
        if data.startswith(start):
            return kind
    raise ValueError("it does not start like a line of a journal")


def _checked(data: bytes, kind: int, after: int) -> bytes:
    """A line without its checksum.

    raises: ValueError if the checksum is wrong
    """
    if kind == 0:
        return data
    start = (_PLAIN, _SUM, _CHAIN)[kind]
    at = len(start) + 8
    body = b"{" + data[at + 2 : -1]
    # Compared as text, so that a flipped bit in the checksum itself is also detected.
    if data[len(start) : at + 2] != b'%08x",' % zlib.crc32(body, after if kind == 2 else 0):
        raise ValueError("its checksum is wrong: a line was altered, removed, duplicated or moved")
    return body


# The lines of one run, combined.

# Results that `recover` adds for calls without one; the model reads them.
_MAY_HAVE_RUN = (
    "The process ended while the call ran. It may have had effects; find out before it is called again."
)
_REPEATABLE = "The process ended while the call ran. It is safe to repeat: call it again."
_NEVER_BEGAN = "The process ended before the call began. It has not run."


class RunRecord:
    """One run, as recorded by its lines so far.

    agent: the name of its agent
    ended: whether it reached its end, successful or not, and was not interrupted
    """

    def __init__(self) -> None:
        self.agent = ""
        self.ended = False
        self._messages: list[Message] = []
        self._step = 0
        self._begun: dict[tuple[int, str], Line] = {}
        self._results: dict[tuple[int, str], ToolResult] = {}
        self._calls: dict[tuple[int, str], ToolCall] = {}
        self._steps: dict[str, Line] = {}

    def read(self, line: Line) -> None:
        """Adds a line.

        raises: DecodeError if messages before it are missing
        """
        match line:
            case Line(type="run"):
                self.agent = line.agent
            case Line(type="messages"):
                # In a file without checksums, only this detects a missing line.
                if line.at > len(self._messages):
                    raise DecodeError("the journal is damaged: messages are missing")
                self._messages[line.at :] = load_messages(line.messages)
                self._step = line.step
            case Line(type="call", call=ToolCall() as call):
                key = line.step, call.id
                self._begun[key], self._calls[key] = line, call
                # The call runs again, so an earlier result is void until the new one is recorded.
                self._results.pop(key, None)
            case Line(type="result", result=ToolResult() as result):
                key = line.step, result.tool_call_id
                self._results[key] = result
                if line.call is not None:
                    self._calls[key] = line.call
            case Line(type="discard"):
                for found in (self._begun, self._results, self._calls):
                    for key in [key for key in found if key[0] == line.step]:
                        del found[key]
            case Line(type="end"):
                self.ended = True
            case Line(type="steps"):
                self._steps.setdefault("", line)  # the first one; its key is empty
                self.ended = False
            case Line(type="begin" | "done"):
                self._steps[line.key] = line
            case Line(type="forget"):
                self._steps.clear()
                self.ended = True

    def lines(self, run: str) -> Iterator[Line]:
        """The fewest equivalent lines: the conversation and calls that are not in it yet, or the steps."""
        if self._steps:
            yield from self._steps.values()
            return
        yield Line("run", run, agent=self.agent)
        if self._messages:
            saved = dump_messages(self._messages).decode()
            yield Line("messages", run, step=self._step, messages=saved)
        # Results of earlier steps are in the messages.
        for key in [key for key in {**self._calls, **self._results} if key[0] >= self._step]:
            if key in self._begun:
                yield self._begun[key]
            if key in self._results:
                yield Line("result", run, step=key[0], call=self._calls.get(key), result=self._results[key])
        if self.ended:
            yield Line("end", run)

    def history(self) -> list[Message]:
        """The conversation, with a result for every call of the last step."""
        found = open_calls(self._messages)
        if not found:
            return self._messages
        # Only the last step can have open calls: the ones before it were recorded with their results.
        place, calls = found[-1]
        self._messages[place] = self._as_run(self._messages[place])
        return settled(self._messages, {call.id: self._result(call) for call in calls})

    def _as_run(self, message: Message) -> Message:
        parts = list(message.parts)
        for at, part in enumerate(parts):
            ran = self._calls.get((self._step, part.id)) if isinstance(part, ToolCall) else None
            if isinstance(part, ToolCall) and ran is not None:
                parts[at] = msgspec.structs.replace(part, name=ran.name, arguments=ran.arguments)
        return msgspec.structs.replace(message, parts=tuple(parts))

    def _result(self, call: ToolCall) -> ToolResult:
        key = self._step, call.id
        if key in self._results:
            return self._results[key]
        begun = self._begun.get(key)
        text = _NEVER_BEGAN if begun is None else _REPEATABLE if begun.repeatable else _MAY_HAVE_RUN
        return ToolResult(call.id, text, True, call.name, metadata=outcome_mark("cancelled"))


def compacted(path: str, left: Container[str]) -> bytes:
    """The compacted content of a journal: of each run the conversation and the calls that are not in it.

    Completed runs are dropped, except the last of each agent, which `recover` may need. Interrupted
    runs stay, however old, because a person may have to examine them.

    left:   ids of runs without an end that get no more lines, such as cancelled ones
    raises: DecodeError if the file is damaged; OSError if it cannot be read
    """
    records: dict[str, RunRecord] = {}
    last: dict[str, str] = {}
    for line in read_lines(path):
        record = records.setdefault(line.run, RunRecord())
        record.read(line)
        if line.type == "run":
            last[line.agent] = line.run
    remaining = [
        (run, record)
        for run, record in records.items()
        # The run that `recover` would read.
        if last.get(record.agent) == run or not (record.ended or run in left)
    ]
    lines: list[bytes] = []
    after = 0
    for run, record in remaining:
        for line in record.lines(run):
            lines.append(encode_line(line, after))
            after = sum_of(lines[-1])
    return b"".join(lines)
