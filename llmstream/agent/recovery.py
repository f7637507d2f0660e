"""A run that a crash ended, as a history: what a journal says of its calls."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from llmstream.agent.history import open_calls, settled
from llmstream.agent.journal import Journal, Line
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import load_messages
from llmstream.errors import DecodeError, InvalidRequest

__all__ = ["recovered"]

_MAY_HAVE_RUN = (
    "The process ended while the call ran. It may have had effects; find out before it is called again."
)
_REPEATABLE = "The process ended while the call ran. It is safe to repeat: call it again."
_NEVER_BEGAN = "The process ended before the call began. It has not run."


def recovered(journal: Journal | str | os.PathLike[str], agent: str) -> list[Message]:
    """The history of the agent's last run in the journal, every call with its result.

    raises: InvalidRequest where it holds no run of that agent; DecodeError where it is damaged in
            other ways than by a crash; OSError where it cannot be read
    """
    path = journal.path if isinstance(journal, Journal) else os.fspath(journal)
    lines = list(_lines(path))
    run = next((line.run for line in reversed(lines) if line.type == "run" and line.agent == agent), None)
    if run is None:
        raise InvalidRequest(f"the journal {path} holds no run of the agent {agent!r}")
    record = _Record()
    for line in lines:
        if line.run == run:
            record.read(line)
    return record.history()


class _Record:
    """What the lines of one run say, read one after the other."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._step = 0
        self._begun: dict[tuple[int, str], Line] = {}
        self._results: dict[tuple[int, str], ToolResult] = {}
        self._calls: dict[tuple[int, str], ToolCall] = {}

    def read(self, line: Line) -> None:
        """One line more."""
        match line:
            case Line(type="messages"):
                if line.at > len(self._messages):
                    raise DecodeError("the journal is damaged: messages are missing in it")
                self._messages[line.at :] = load_messages(line.messages)
                self._step = line.step
            case Line(type="call", call=ToolCall() as call):
                key = line.step, call.id
                self._begun[key], self._calls[key] = line, call
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

    def history(self) -> list[Message]:
        """The conversation, with results for the calls of the last step."""
        found = open_calls(self._messages)
        if not found:
            return self._messages
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
        if begun is None:
            return ToolResult(call.id, _NEVER_BEGAN, True, call.name)
        words = _REPEATABLE if begun.repeatable else _MAY_HAVE_RUN
        return ToolResult(call.id, words, True, call.name)


def _lines(path: str) -> Iterator[Line]:
    """The lines of a file; one without its end was torn by a crash and counts as not written."""
    with open(path, "rb") as file:
        for number, data in enumerate(file, 1):
            if not data.endswith(b"\n"):
                return
            try:
                yield msgspec.json.decode(data, type=Line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise DecodeError(f"line {number} of the journal {path} is damaged: {error}") from None
