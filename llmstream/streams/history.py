"""What of a conversation is kept, and how: always copies, always something a vendor accepts."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import msgspec

from llmstream.accumulate.blocks import OWN_KEY
from llmstream.chats.content import Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.events import OtherWarning

__all__ = ["copied", "is_plain", "kept_of_a_broken_turn", "mended"]

_NO_RESULT = "No result of this call was recorded."


def copied(messages: Iterable[Message]) -> list[Message]:
    """Independent copies; parts are frozen, their metadata is not."""
    return [_copy(message) for message in messages]


def _copy(message: Message) -> Message:
    """A deep copy takes 20 us, so messages of which little can change, as is so of nearly all, have none."""
    metadata = message.metadata
    if not _is_frozen(message):
        return copy.deepcopy(message)
    if metadata is None:
        return copy.copy(message)
    own = metadata.get(OWN_KEY)
    if len(metadata) == 1 and type(own) is dict and all(type(value) is str for value in own.values()):
        return msgspec.structs.replace(message, metadata={OWN_KEY: own.copy()})  # whose answer it is
    return copy.deepcopy(message)


def _is_frozen(message: Message) -> bool:
    """Whether nothing in the message's parts can change."""
    parts = message.parts
    return all(isinstance(part, Text | Reasoning | ToolCall) and part.metadata is None for part in parts)


def kept_of_a_broken_turn(partial: Message) -> list[Message]:
    """The text of a turn that broke off, or nothing.

    Calls are left out: without results no vendor takes the history back. Reasoning stays
    only beside text, since a turn of nothing else cannot be sent.
    """
    parts = tuple(p for p in partial.parts if isinstance(p, Text | Reasoning))
    if not any(isinstance(p, Text) for p in parts):
        return []
    return [Message(partial.sender, partial.role, parts, partial.metadata)]


def is_plain(messages: Sequence[Message]) -> bool:
    """Whether all of it is text, as of most conversations: there is nothing to mend, and no file."""
    for message in messages:
        if not message.parts:
            return False
        for part in message.parts:
            if type(part) is not Text or not part.text:
                return False
    return True


def mended(messages: Sequence[Message]) -> tuple[list[Message], list[OtherWarning]]:
    """The conversation as every vendor demands it, and what had to be changed for that.

    - Each call of a client's tool has one result, in the message right behind it, in the order
      of the calls; one that has none gets an error that says so.
    - A second result of a call, and a result without a call before it, are left out.
    - An id that names several calls names the first; the others, with their results, get their own.
    - Neighbouring tool messages are one, and empty messages are none.

    Calls and results of the vendor's own tools stay as they are. Nothing that is passed in is
    altered; messages that need no mending come back themselves.
    """
    return _Mender(messages).mend()


class _Mender:
    """One pass over a conversation: finds the result of every call, then writes it anew."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._results: dict[str, list[tuple[int, ToolResult]]] = {}
        self._ids: set[str] = set()
        self._out: list[Message] = []
        self._warnings: list[OtherWarning] = []
        for place, message in enumerate(messages):
            for part in message.parts:
                if _is_result(part):
                    self._results.setdefault(part.tool_call_id, []).append((place, part))

    def mend(self) -> tuple[list[Message], list[OtherWarning]]:
        """The messages and the warnings."""
        answers = self._answers()
        self._note_strays()
        for place, message in enumerate(self._messages):
            parts = tuple(part for part in message.parts if not _is_result(part))
            calls = answers.get(place, [])
            if calls:
                renamed = iter([call for call, _, _ in calls])
                parts = tuple(next(renamed) if _is_call(part) else part for part in parts)
            self._add(_with_parts(message, parts))
            if calls:
                self._add(self._answer_to(calls))
        return self._out, self._warnings

    def _answers(self) -> dict[int, list[tuple[ToolCall, ToolResult, int | None]]]:
        """By the place of a message with calls: each call, its result, and where that stood."""
        calls = [
            (place, part)
            for place, message in enumerate(self._messages)
            if message.role == Role.ASSISTANT
            for part in message.parts
            if _is_call(part)
        ]
        ends = _ends(calls, len(self._messages))
        self._ids = {call.id for _, call in calls}
        named: set[str] = set()
        answers: dict[int, list[tuple[ToolCall, ToolResult, int | None]]] = {}
        for (place, call), end in zip(calls, ends, strict=True):
            result, origin = self._take(call, place, end)
            if call.id in named:
                call_id = self._new_id(call.id)
                call = msgspec.structs.replace(call, id=call_id)
                result = msgspec.structs.replace(result, tool_call_id=call_id)
            named.add(call.id)
            answers.setdefault(place, []).append((call, result, origin))
        return answers

    def _take(self, call: ToolCall, place: int, end: int) -> tuple[ToolResult, int | None]:
        """The first result between a call and the next of its id; one that says so where there is none."""
        waiting = self._results.get(call.id, [])
        for index, (at, result) in enumerate(waiting):
            if place <= at < end:
                del waiting[index]
                return result, at
        self._warn(f"the call {call.id!r} of {call.name} had no result; it was sent as failed")
        return ToolResult(call.id, _NO_RESULT, is_error=True, name=call.name), None

    def _new_id(self, taken: str) -> str:
        number = 2
        while f"{taken}_{number}" in self._ids:
            number += 1
        self._ids.add(f"{taken}_{number}")
        return f"{taken}_{number}"

    def _note_strays(self) -> None:
        for call_id, left in self._results.items():
            if left:
                self._warn(f"a result of {call_id!r} was left out: no call before it waits for one")

    def _answer_to(self, calls: Sequence[tuple[ToolCall, ToolResult, int | None]]) -> Message:
        results = tuple(result for _, result, _ in calls)
        origin = next((at for _, _, at in calls if at is not None), None)
        if origin is None or self._messages[origin].role != Role.TOOL:
            return Message.tool(results)
        first = self._messages[origin]
        if results == first.parts:
            return first
        return Message(first.sender, first.role, results, first.metadata)

    def _add(self, message: Message) -> None:
        if _is_empty(message):
            return
        last = self._out[-1] if self._out else None
        if last is not None and last.role == message.role == Role.TOOL:
            self._out[-1] = msgspec.structs.replace(last, parts=last.parts + message.parts)
        else:
            self._out.append(message)

    def _warn(self, words: str) -> None:
        self._warnings.append(OtherWarning(words))


def _is_call(part: Part) -> TypeGuard[ToolCall]:
    return isinstance(part, ToolCall) and not part.provider_executed


def _is_result(part: Part) -> TypeGuard[ToolResult]:
    return isinstance(part, ToolResult) and not part.provider_executed


def _is_empty(message: Message) -> bool:
    """Whether it says nothing: no parts, or an assistant's text without a character or metadata."""
    said_nothing = message.role == Role.ASSISTANT and all(
        isinstance(part, Text) and not part.text and not part.metadata for part in message.parts
    )
    return not message.parts or said_nothing


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    """The message with these parts; itself where they are what it has."""
    if len(parts) == len(message.parts) and all(a is b for a, b in zip(parts, message.parts, strict=True)):
        return message
    return msgspec.structs.replace(message, parts=parts)


def _ends(calls: Sequence[tuple[int, ToolCall]], end: int) -> list[int]:
    """For each call the place of the next message with a call of its id: its results stand before."""
    ends: list[int] = []
    later: dict[str, tuple[int, int]] = {}
    for place, call in reversed(calls):
        at, after = later.get(call.id, (end, end))
        if at != place:
            later[call.id] = at, after = place, at
        ends.append(after)
    return ends[::-1]
