"""Conversations as the messages of a page that loads.

Each response of the model is replayed through the writer, so that a page has the same messages after it was
reloaded, and `read` finds the same conversation in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from llmstream.agent.nested import shown_ids
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import (
    Audio,
    Document,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    data_url,
)
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.events import ToolResult as ToolResultEvent
from llmstream.ui.ag_ui.agent_events import AgentEvents
from llmstream.ui.ag_ui.messages import response_of
from llmstream.ui.ag_ui.output import Output, Settings, Waiting, interrupt_of
from llmstream.unique_ids import StepIds, UniqueIds

__all__ = ["dump", "interrupts"]

_KINDS: Final = {Image: "image", Audio: "audio", Document: "document"}


def dump(messages: Iterable[Message], suspension: Suspension | None = None) -> list[dict[str, Any]]:
    """Returns messages of AG-UI: what `new HttpAgent({initialMessages})` starts with.

    The id of a message is "id" in its metadata, which `read` sets, or else counted. Omits system messages,
    which belong to the server, and sources and files of the model, which are not messages in AG-UI.

    messages:   as `run.messages()` returns them
    suspension: of the last run, if it waits; its calls have no results yet. See `interrupts`
    raises:     InvalidRequest for a role that AG-UI does not have
    """
    history = list(messages)
    page = _Page(history, suspension)
    for number, message in enumerate(history):
        match message.role:
            case Role.SYSTEM:
                continue
            case Role.USER:
                page.asked(number, message)
            case Role.ASSISTANT:
                page.responded(number, message)
            case Role.TOOL:
                page.settled(number, message)
            case role:
                raise InvalidRequest(
                    f"AG-UI has no role {role!r}; remove message {number}, or change its role"
                )
    return page.output.transcript.messages


def interrupts(suspension: Suspension) -> list[dict[str, Any]]:
    """Returns the interrupts of a suspended run, for a page that loads: its `agent.pendingInterrupts`.

    Those of sub-agents have the arguments with them, since `dump` does not show their calls.
    """
    page = _Page(suspension.messages, suspension)
    for number, message in enumerate(suspension.messages):
        if message.role == Role.USER:
            page.calls.begin_turn()
        elif message.role == Role.ASSISTANT:
            page.take_calls(number, message)
    found = []
    for pending in suspension.pending:
        if pending.approval_id:
            # A slash is in the ids of sub-agents' calls alone: the calls above them, joined by it.
            arguments = pending.arguments if pending.agent and "/" in pending.call_id else None
            call_id = page.calls.newest(pending.call_id)
            waiting = Waiting(pending.approval_id, call_id, pending.name, arguments)
            found.append(interrupt_of(waiting, suspension.expires_at_s))
    return found


class _CallIds:
    """The ids that a page has of calls. Some servers repeat them, and a client treats calls with equal ids as
    one.

    They are those of the writer, which a resumed run looks for: "1/call_0" for a further step of a turn that
    repeats an id, and "call_0@RUN" for a further run.

    waiting: ids in the events of the run, of the calls that wait
    """

    def __init__(self, waiting: dict[str, str]) -> None:
        self._waiting = waiting
        self._newest: dict[str, str] = {}
        self._taken = UniqueIds("#")
        self.begin_turn()

    def begin_turn(self) -> None:
        """A message of the user begins a turn."""
        self._steps, self._step = StepIds(), -1

    def begin_step(self) -> None:
        """A response of the model begins a step."""
        self._step += 1

    def take(self, call_id: str, run: str, *, may_wait: bool) -> str:
        """Returns the id of a call of the step."""
        shown = self._steps.shown(call_id, self._step)
        if may_wait:
            shown = self._waiting.get(call_id, shown)
        shown = self._taken.fresh(f"{shown}@{run}" if shown in self._taken else shown)
        self._newest[call_id] = shown
        return shown

    def newest(self, call_id: str) -> str:
        """Returns the id of the last call that has this one; results follow their calls."""
        return self._newest.get(call_id) or self._waiting.get(call_id, call_id)


class _Page:
    """The messages of a page, built from those of a conversation."""

    def __init__(self, history: list[Message], suspension: Suspension | None) -> None:
        self._waiting: set[str] = set()
        if suspension is not None:
            self._waiting = {pending.call_id for pending in suspension.pending} | suspension.inner.keys()
        # Only the last response has calls that wait; an earlier one may have used their ids.
        roles = [message.role for message in history]
        self._last = max((n for n, role in enumerate(roles) if role == Role.ASSISTANT), default=-1)
        self.calls = _CallIds({} if suspension is None else shown_ids(suspension))
        settings = Settings("history", True, False, lambda error: error.public_message, None, True)
        self.output = Output(settings, [])
        self._agent = AgentEvents(self.output, prefix="history-")
        self._names = UniqueIds("#")  # of the user's messages
        self._responses = set[tuple[str, int]]()

    def asked(self, number: int, message: Message) -> None:
        """A message of the user."""
        self.calls.begin_turn()
        name = self._names.fresh(_id(message) or f"history-{number}")
        self.output.transcript.add(_user(message, name))

    def responded(self, number: int, message: Message) -> None:
        """A response of the model; results that come after it belong to it."""
        # The ids that the writer gave them, so that a page that reloads has the same messages.
        name = _id(message)
        response = response_of(name)
        if response is None or response in self._responses:
            response = f"{name or 'history'}-", number
        self._responses.add(response)
        prefix, step = response
        self._agent = AgentEvents(self.output, prefix=prefix)
        self._agent.feed(StepStart(step))
        shown = iter(self.take_calls(number, message))
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                self._settle(part)
            call_id = next(shown) if isinstance(part, ToolCall) else ""
            for event in _events(part, str(place), call_id):
                self._agent.feed(event)
        self._agent.close(failed=False)

    def take_calls(self, number: int, message: Message) -> list[str]:
        """Returns the ids of a response's calls."""
        response = response_of(_id(message))
        run = f"history-{number}" if response is None else response[0].removesuffix("-")
        self.calls.begin_step()
        may_wait = number == self._last
        return [self.calls.take(call.id, run, may_wait=may_wait) for call in message.tool_calls]

    def settled(self, number: int, message: Message) -> None:
        """Results of the calls of the last response."""
        for result in message.tool_results:
            # A placeholder for the result of a waiting call.
            if number < self._last or result.tool_call_id not in self._waiting:
                self._settle(result)

    def _settle(self, result: ToolResult) -> None:
        # The vendor may have given null; an empty text with no value is a result that was text.
        by_value = result.provider_executed and (result.result is not None or result.content in ("", "null"))
        call_id = self.calls.newest(result.tool_call_id)
        event = ToolResultEvent(
            result.result if by_value else result.content,
            call_id,
            result.name,
            is_error=result.is_error,
            provider_executed=result.provider_executed,
            provider_metadata=result.metadata,
        )
        self._agent.feed(event)
        if result.parts:
            text = [{"type": "text", "text": result.content}] if result.content else []
            shown = self._agent.result_id(call_id)
            self.output.transcript.replace_content(shown, [*text, *[_file(part) for part in result.parts]])


def _id(message: Message) -> str:
    """The id in the metadata; "" without one."""
    given = (message.metadata or {}).get("id")
    return given if isinstance(given, str) else ""


def _events(part: Part, block: str, shown: str) -> Iterator[Event]:
    match part:
        case Text(text, metadata):
            yield from (TextStart(block), TextDelta(text, block), TextEnd(block, False, metadata))
        case Reasoning(text, metadata):
            yield from (ReasoningStart(block), ReasoningDelta(text, block))
            yield ReasoningEnd(block, False, metadata)
        case ToolCall(_, name, arguments, by_provider, metadata):
            yield ToolCallEvent(name, arguments or "{}", shown, by_provider, provider_metadata=metadata)


def _user(message: Message, name: str) -> dict[str, Any]:
    shown = {"id": name, "role": "user", **({"name": message.sender} if message.sender else {})}
    if all(isinstance(part, Text) for part in message.parts):
        return {**shown, "content": message.text}
    return {**shown, "content": [content for part in message.parts for content in _contents(part)]}


def _contents(part: Part) -> Iterator[dict[str, Any]]:
    if isinstance(part, Text):
        yield {"type": "text", "text": part.text}
    elif isinstance(part, Image | Audio | Document):
        yield _file(part)


def _file(part: Image | Audio | Document) -> dict[str, Any]:
    source = {"type": "url", "value": part.url}
    if not part.url:
        data = data_url(part.data, part.media_type).partition(",")[2]
        source = {"type": "data", "value": data}
    # Of a file at an address the server that has it knows the type; data has no other source for it.
    media_type = part.media_type or ("" if part.url else "application/octet-stream")
    return {"type": _KINDS[type(part)], "source": source | ({"mimeType": media_type} if media_type else {})}
