"""Prepares a conversation for sending: repairs incomplete turns, and replaces URLs of files by bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from operator import is_not
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import msgspec

from llmstream.chats.content import Audio, Document, File, Image, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role, noted, unchanged
from llmstream.dialects.base import Dialect
from llmstream.events import OtherWarning
from llmstream.request import Request
from llmstream.unique_ids import UniqueIds

if TYPE_CHECKING:
    from llmstream.dialects.written import Written
    from llmstream.transport.download import DownloadLimits

__all__ = ["Growing", "Inliner", "Repairs", "is_plain", "remains_of_broken_turn", "repaired"]

_KINDS = {Image: "image", Audio: "audio", Document: "document", File: "document"}

# Files may have tens of megabytes each, and all are in memory before the request is sent.
_AT_ONCE = 4

_NO_RESULT = "No result of this call was recorded."


def remains_of_broken_turn(partial: Message) -> list[Message]:
    """The usable part of an interrupted turn: its text, or nothing.

    Calls are left out: without results no vendor accepts the history. Reasoning stays only with text,
    because a turn of reasoning alone cannot be sent.
    """
    parts = tuple(p for p in partial.parts if isinstance(p, Text | Reasoning))
    if not any(isinstance(p, Text) for p in parts):
        return []
    return [Message(partial.sender, partial.role, parts, partial.metadata)]


def is_plain(messages: Sequence[Message]) -> bool:
    """Whether the message has only text, as most do: nothing to repair, and no files."""
    for message in messages:
        if not message.parts:
            return False
        for part in message.parts:
            if type(part) is not Text or not part.text:
                return False
    return True


def repaired(messages: Sequence[Message]) -> tuple[list[Message], list[OtherWarning]]:
    """The conversation in the form that vendors require, and warnings about the changes.

    - Each call of a client's tool has one result, in the next message, in the order of the calls; a
      call without a result gets an error result.
    - A second result of a call, and a result without a call before it, are left out.
    - An id of several calls stays with the first; the others, with their results, get new ids.
    - Adjacent tool messages are merged, and empty messages are removed.

    Calls and results of the vendor's own tools do not change. The arguments are not altered; messages
    without changes are returned themselves. In a conversation that is repaired at each turn, only new
    messages are examined.
    """
    repairs = messages.repairs if isinstance(messages, Growing) else Repairs()
    return repairs.repair(messages)


class Repairs:
    """Repairs a conversation at each turn without examining earlier messages again.

    Earlier messages are compared with the current ones, in C and mostly by identity. After one was
    replaced or changed, or a result came for a call that had none, the repair starts again: before the
    messages that were added last, if nothing before them has changed, as when an effect shortens the
    results of each step.
    """

    def __init__(self) -> None:
        self.written: Written | None = None
        self._requests = 0
        self._known: list[Message] = []
        self._given: list[Message] = []
        self._before_last: tuple[int, _Repairer] | None = None
        self._without_urls: list[Message] | None = None

    # Created at the first repair: a conversation of plain messages never needs one, and its stream would hold
    # 2.4 KB of empty collections.
    @cached_property
    def _repairer(self) -> _Repairer:
        return _Repairer()

    def begin(self) -> None:
        """Counts a request. From the second one on, what was found out about its messages is cached."""
        self._requests += 1
        if self._requests == 2:  # most conversations have a single request, which would not benefit
            from llmstream.dialects.written import Written  # already imported by the first request

            self.written = Written()
            self._without_urls = []

    def growing(self, messages: Iterable[Message]) -> Growing:
        """The messages of a request of this conversation."""
        return Growing.of(messages, self)

    def repair(self, messages: Sequence[Message]) -> tuple[list[Message], list[OtherWarning]]:
        """As `repaired`."""
        known = self._known
        same = unchanged(known, messages)
        if same < len(known):
            # A message that was changed and then removed may still be in the examined part.
            same = unchanged(self._given[:same], messages, is_not)
            assert self._before_last is not None  # set when the known messages were read
            start, repairer = self._before_last
            self._repairer = repairer if same >= start else _Repairer()
            self._forget(start if same >= start else 0)
            # Examined separately, so that the next change of this kind starts here.
            while same > len(known) and messages[same - 1].tool_calls:
                same -= 1  # the changed part contained its results
            self._read(messages, same)
        self._read(messages, len(messages))
        return self._repairer.messages[:], self._repairer.warnings[:]

    def without_urls(self, messages: Sequence[Message]) -> int:
        """The number of leading messages without a file URL, which are not searched at each turn."""
        known = self._without_urls
        if known is None:
            return 0
        del known[unchanged(known, messages) :]
        added = takewhile(
            lambda message: not any(part.url for part in _media_of(message)), messages[len(known) :]
        )
        known += noted(added)
        return len(known)

    def _read(self, messages: Sequence[Message], end: int) -> None:
        start = len(self._known)
        # A late result: the repaired form has an error result in its place, so it is rebuilt.
        if self._repairer.missed_a_result_in(messages[start:end]):
            self._repairer, start = _Repairer(), 0
            self._forget(0)
        if start < end:
            # The latest messages change most often, as when an effect shortens the results of each step.
            self._before_last = (start, self._repairer.copy())
            self._repairer.read(messages[start:end])
            self._known.extend(noted(messages[start:end]))
            self._given.extend(messages[start:end])

    def _forget(self, start: int) -> None:
        del self._known[start:], self._given[start:]


class Growing(tuple[Message, ...]):
    """The messages of a request, with the `Repairs` of their conversation.

    Code that replaces the messages uses a plain tuple, which is repaired separately.
    """

    repairs: Repairs

    @property
    def written(self) -> Written | None:
        """The cached encoded form of its messages."""
        return self.repairs.written

    @classmethod
    def of(cls, messages: Iterable[Message], repairs: Repairs) -> Growing:
        """Creates it from messages of a conversation and its repairs."""
        growing = cls(messages)
        growing.repairs = repairs
        return growing


class _Repairer:
    """Examines a conversation in one or several parts and builds its repaired form.

    messages, warnings: for all parts so far
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.warnings: list[OtherWarning] = []
        self._ids = UniqueIds("_")
        self._named: set[str] = set()
        self._unanswered: set[str] = set()
        self._neighbours: list[Part] = []
        self._batch: Sequence[Message] = ()
        self._results: dict[str, deque[tuple[int, ToolResult]]] = {}
        self._strays: set[str] = set()
        self._noted: set[str] = set()  # ids of omitted results

    def copy(self) -> _Repairer:
        """Its state between two parts."""
        made = _Repairer()
        made.messages, made.warnings, made._ids = self.messages[:], self.warnings[:], self._ids.copy()
        made._named, made._unanswered, made._noted = set(self._named), set(self._unanswered), set(self._noted)
        return made

    def missed_a_result_in(self, messages: Iterable[Message]) -> bool:
        """Whether the messages have a result for a call that had none when examined."""
        return bool(self._unanswered) and any(
            part.tool_call_id in self._unanswered
            for message in messages
            for part in message.parts
            if _is_result(part)
        )

    def read(self, messages: Sequence[Message]) -> None:
        """Examines the next part of the conversation."""
        self._batch, self._results, self._strays = messages, {}, set()
        for place, message in enumerate(messages):
            for part in message.parts:
                if _is_result(part):
                    self._results.setdefault(part.tool_call_id, deque()).append((place, part))
        answers = self._answers()
        self._note_strays()
        for place, message in enumerate(messages):
            parts = tuple(part for part in message.parts if not _is_result(part))
            calls = answers.get(place, [])
            if calls:
                renamed = iter([call for call, _, _ in calls])
                parts = tuple(next(renamed) if _is_call(part) else part for part in parts)
            self._add(_with_parts(message, parts))
            if calls:
                self._add(self._answer_to(calls))
        self._join()
        self._batch, self._results = (), {}

    def _answers(self) -> dict[int, list[tuple[ToolCall, ToolResult, int | None]]]:
        """For each message with calls, by index: the calls, their results, and the indexes of these."""
        calls = [
            (place, part)
            for place, message in enumerate(self._batch)
            if message.role == Role.ASSISTANT
            for part in message.parts
            if _is_call(part)
        ]
        ends = _ends(calls, len(self._batch))
        # Reserve all ids of the batch before replacing one: a new id could otherwise equal that of a later
        # call.
        for _, call in calls:
            self._ids.add(call.id)
        named = self._named
        answers: dict[int, list[tuple[ToolCall, ToolResult, int | None]]] = {}
        for (place, call), end in zip(calls, ends, strict=True):
            result, origin = self._take(call, place, end)
            if call.id in named:
                # Some servers restart the numbers of calls in each response, and strict vendors reject a
                # second call of an id.
                call_id = self._ids.fresh(call.id)
                call = msgspec.structs.replace(call, id=call_id)
                result = msgspec.structs.replace(result, tool_call_id=call_id)
            named.add(call.id)
            answers.setdefault(place, []).append((call, result, origin))
        return answers

    def _take(self, call: ToolCall, place: int, end: int) -> tuple[ToolResult, int | None]:
        """The first result between a call and the next one with its id; an error result if there is none."""
        waiting = self._results.get(call.id)
        # Vendors reject a result that comes before its call.
        while waiting and waiting[0][0] < place:  # before this call and all later ones
            waiting.popleft()
            self._strays.add(call.id)
        if waiting and waiting[0][0] < end:
            at, result = waiting.popleft()
            return result, at
        self._unanswered.add(call.id)
        # Anthropic, OpenAI and others reject a call without a result; an interrupted run leaves such calls.
        self._warn(f"the call {call.id!r} of {call.name} had no result; it was sent as failed")
        return ToolResult(call.id, _NO_RESULT, is_error=True, name=call.name), None

    def _note_strays(self) -> None:
        for call_id, left in self._results.items():
            if (left or call_id in self._strays) and call_id not in self._noted:
                self._noted.add(call_id)
                self._warn(f"a result of {call_id!r} was left out: no call before it waits for one")

    def _answer_to(self, calls: Sequence[tuple[ToolCall, ToolResult, int | None]]) -> Message:
        results = tuple(result for _, result, _ in calls)
        origin = next((at for _, _, at in calls if at is not None), None)
        if origin is None or self._batch[origin].role != Role.TOOL:
            return Message.tool(results)
        first = self._batch[origin]
        # Returns the same object if nothing was repaired: the next repair compares by identity.
        if results == first.parts:
            return first
        return Message(first.sender, first.role, results, first.metadata)

    def _add(self, message: Message) -> None:
        if _is_empty(message):
            return
        last = self.messages[-1] if self.messages else None
        # Anthropic and Gemini take the results of all parallel calls in one message.
        if last is not None and last.role == message.role == Role.TOOL:
            self._neighbours = self._neighbours or list(last.parts)
            self._neighbours += message.parts
        else:
            self._join()
            self.messages.append(message)

    def _join(self) -> None:
        """Merges adjacent tool messages into the first of them."""
        if self._neighbours:
            self.messages[-1] = msgspec.structs.replace(self.messages[-1], parts=tuple(self._neighbours))
            self._neighbours = []

    def _warn(self, text: str) -> None:
        self.warnings.append(OtherWarning(text))


def _is_call(part: Part) -> TypeGuard[ToolCall]:
    return isinstance(part, ToolCall) and not part.provider_executed


def _is_result(part: Part) -> TypeGuard[ToolResult]:
    return isinstance(part, ToolResult) and not part.provider_executed


def _is_empty(message: Message) -> bool:
    """Whether it has no parts, or is an assistant message with only empty text without metadata."""
    no_content = message.role == Role.ASSISTANT and all(
        isinstance(part, Text) and not part.text and not part.metadata for part in message.parts
    )
    return not message.parts or no_content


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    """The message with these parts; the same object if they are equal."""
    if len(parts) == len(message.parts) and all(a is b for a, b in zip(parts, message.parts, strict=True)):
        return message
    return msgspec.structs.replace(message, parts=parts)


def _ends(calls: Sequence[tuple[int, ToolCall]], end: int) -> list[int]:
    """For each call the index of the next message with a call of the same id: its results come before."""
    ends: list[int] = []
    later: dict[str, tuple[int, int]] = {}
    for place, call in reversed(calls):
        at, after = later.get(call.id, (end, end))
        if at != place:
            later[call.id] = at, after = place, at
        ends.append(after)
    return ends[::-1]


_Media: TypeAlias = Image | Audio | Document | File


class Inliner:
    """Replaces file URLs by bytes for one call; its attempts share the downloads.

    downloads: the limits; None downloads nothing and only decodes data URLs, so that the dialect
               refuses URLs that its vendor does not accept
    """

    def __init__(self, dialect: Dialect, downloads: DownloadLimits | None) -> None:
        self._dialect = dialect
        self._downloads = downloads
        self._held: dict[tuple[str, str], tuple[bytes, str]] = {}

    async def inline(self, request: Request) -> Request:
        """The request with bytes instead of URLs that the vendor does not accept.

        Applies to user messages and tool results; the originals are not changed.

        raises: as `transport.download.download`
        """
        # A dict preserves the order and removes duplicates: one file may be in many messages.
        given = request.messages
        start = given.repairs.without_urls(given) if isinstance(given, Growing) else 0
        found = (part for message in given[start:] for part in _media_of(message))
        wanted = {_key(part): None for part in found if self._is_wanted(part)}
        if not wanted:
            return request
        await self._fetch([key for key in wanted if key not in self._held])
        messages = tuple(self._message(message) for message in request.messages)
        return msgspec.structs.replace(request, messages=messages)

    def _is_wanted(self, part: _Media) -> bool:
        if part.data or not part.url:
            return False
        schemes = ("data:",) if self._downloads is None else ("data:", "https:", "http:")
        return part.url.lower().startswith(schemes) and not self._dialect.accepts_url(part)

    async def _fetch(self, keys: list[tuple[str, str]]) -> None:
        from llmstream.transport.download import DownloadLimits, download  # imports aiohttp

        limits = self._downloads or DownloadLimits()
        few = asyncio.Semaphore(_AT_ONCE)

        async def fetch(key: tuple[str, str]) -> None:
            async with few:
                found = await download(key[1], limits=limits, kind=key[0])
            self._held[key] = (found.data, found.media_type)

        try:
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    group.create_task(fetch(key))
        except ExceptionGroup as failed:
            # The others failed with it or were cancelled by the group; callers expect one typed error.
            raise failed.exceptions[0] from None

    def _message(self, message: Message) -> Message:
        if not _is_searched(message):
            return message
        return msgspec.structs.replace(message, parts=tuple(self._part(part) for part in message.parts))

    def _part(self, part: Part) -> Part:
        if isinstance(part, ToolResult):
            return msgspec.structs.replace(part, parts=tuple(self._bytes_of(file) for file in part.parts))
        return self._bytes_of(part) if isinstance(part, _Media) else part

    def _bytes_of(self, part: _Media) -> _Media:
        if not self._is_wanted(part):
            return part
        data, media_type = self._held[_key(part)]
        return msgspec.structs.replace(part, url="", data=data, media_type=part.media_type or media_type)


def _key(part: _Media) -> tuple[str, str]:
    return _KINDS[type(part)], part.url


def _is_searched(message: Message) -> bool:
    return message.role not in (Role.ASSISTANT, Role.SYSTEM, "developer")


def _media_of(message: Message) -> Iterator[_Media]:
    for part in message.parts if _is_searched(message) else ():
        if isinstance(part, _Media):
            yield part
        elif isinstance(part, ToolResult):
            yield from part.parts
