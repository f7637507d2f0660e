"""The history of a run, in which every call has exactly one result, and its content for readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from llmstream.chats.content import Reasoning, Source, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role, noted, unchanged
from llmstream.tools.outcome import cancelled_results

if TYPE_CHECKING:
    from llmstream.chats.chat import ChatTurn
    from llmstream.events import Event

__all__ = ["ChatHistory", "SettledPart", "is_empty", "open_calls", "own_view", "settled", "shared_message"]


class SettledPart:
    """The beginning of a growing history in which every call is known to have a result.

    A run looks for open calls at each step; without this it would scan all earlier steps again. The known
    messages are compared with the current ones, in C and mostly by identity: after a message was replaced
    or changed, the history is scanned from there on.
    """

    def __init__(self) -> None:
        self._known: list[Message] = []
        self._complete: list[int] = []  # lengths before which every call has its result

    def length(self, messages: Sequence[Message]) -> int:
        """The number of leading messages that need no scan."""
        same = unchanged(self._known, messages)
        return next((length for length in reversed(self._complete) if length <= same), 0)

    def settle(self, messages: list[Message], results: Mapping[str, ToolResult]) -> None:
        """Adds missing results, in place; see `settled`."""
        start = self.length(messages)
        # Only after the settled part: a run may have thousands of steps.
        messages[start:] = settled(messages[start:], results)
        self._known[start:] = noted(messages[start:])
        while self._complete and self._complete[-1] > start:
            self._complete.pop()
        self._complete += _complete_lengths(messages, start)

    def open_calls(self, messages: list[Message]) -> list[ToolCall]:
        """The calls without a result, in order."""
        found = open_calls(messages[self.length(messages) :])
        return [call for _, calls in found for call in calls]


class ChatHistory:
    """Adds to a chat the messages that a run adds to its history.

    Messages with which a context effect replaces earlier ones are not added: the chat has the earlier ones.

    turn:    of the chat
    prompt:  added to the chat first
    history: at the start of the run, the prompt included
    """

    def __init__(self, turn: ChatTurn, prompt: list[Message], history: list[Message]) -> None:
        self._turn = turn
        self._prompt = prompt
        self._known = list(history)

    def begin(self) -> None:
        """Adds the prompt; an exception ends the run."""
        self._turn.begin(self._prompt)

    def feed(self, events: Sequence[Event]) -> None:
        """Passes events to the chat before the reader gets them."""
        self._turn.feed(events)

    def add(self, history: list[Message]) -> None:
        """Adds the new messages at the end of the history."""
        # By identity: equal messages may follow each other. An effect replaces the beginning of the history,
        # so new messages follow the last known one.
        known = set(map(id, self._known))
        new = list(takewhile(lambda message: id(message) not in known, reversed(history)))[::-1]
        self._known = list(history)
        self._turn.add(new)


def _complete_lengths(messages: Sequence[Message], start: int) -> list[int]:
    """The lengths after `start` of a settled history at which each call before has its result before."""
    found: list[int] = []
    waiting: set[str] = set()
    for length, message in enumerate(messages[start:], start + 1):
        # Calls that the vendor ran have their results in the same message, or need none.
        waiting.update(call.id for call in message.tool_calls if not call.provider_executed)
        waiting.difference_update(r.tool_call_id for r in message.tool_results if not r.provider_executed)
        if not waiting:
            found.append(length)
    return found


def settled(messages: Iterable[Message], results: Mapping[str, ToolResult] | None = None) -> list[Message]:
    """The conversation with a result for each call, in call order in the message after it.

    results: for calls of the last message that has any; a call without a result gets a "cancelled"
             one. Existing results stay.
    """
    history = list(messages)
    # Backwards: an inserted message must not shift indexes that are still needed.
    for at, calls in reversed(open_calls(history)):
        known = results or {}
        given = [known[call.id] for call in calls if call.id in known]
        by_id = {r.tool_call_id: r for r in [*given, *cancelled_results(calls, given)]}
        added = [by_id[call.id] for call in calls]
        after = history[at + 1] if at + 1 < len(history) else None
        if after is not None and after.role == Role.TOOL:
            # An existing result takes precedence over one created here.
            found = {r.tool_call_id: r for r in [*after.tool_results, *added]}
            ordered = [found.pop(call.id) for call in history[at].tool_calls if call.id in found]
            others = [part for part in after.parts if not isinstance(part, ToolResult)]
            parts = (*ordered, *found.values(), *others)
            history[at + 1] = Message(after.sender, after.role, parts, after.metadata)
        else:
            history.insert(at + 1, Message.tool(added))
        results = None  # the given ones belong to the last message with open calls
    return history


def open_calls(messages: list[Message]) -> list[tuple[int, list[ToolCall]]]:
    """The calls without a result: the index of each message that has such calls, and its calls in order."""
    found: list[tuple[int, list[ToolCall]]] = []
    settled_ids: set[str] = set()
    # Backwards, because ids may repeat from step to step: a result belongs to the nearest call before it.
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        settled_ids |= {r.tool_call_id for r in message.tool_results if not r.provider_executed}
        own_calls: dict[str, ToolCall] = {}
        for call in message.tool_calls:
            if not call.provider_executed:
                own_calls.setdefault(call.id, call)
        waiting = [call for call in own_calls.values() if call.id not in settled_ids]
        settled_ids.difference_update(own_calls)  # an earlier step may use the same id
        if waiting:
            found.append((at, waiting))
    return found[::-1]


# The content of a message for the reader of an answer, and for the other agents of a chat.

# Parts without content for the reader of an answer.
_NO_ANSWER: Final = (Reasoning, ToolCall, ToolResult, Source)


def is_empty(message: Message) -> bool:
    """Whether a message has no content for its reader: reasoning, calls and sources are no answer."""
    return all(
        not part.text.strip() if isinstance(part, Text) else isinstance(part, _NO_ANSWER)
        for part in message.parts
    )


def own_view(messages: Iterable[Message], name: str) -> list[Message]:
    """The chat as sent to the agent of this name.

    A model treats assistant messages as its own. So messages of other agents become user messages with
    the sender's name in front; their tool calls and results are left out.
    """
    seen: list[Message] = []
    foreign: set[str] = set()
    for message in messages:
        if message.role == Role.TOOL:
            own = [part for part in message.tool_results if part.tool_call_id not in foreign]
            if own:
                seen.append(Message(message.sender, message.role, tuple(own), message.metadata))
        elif message.role != Role.ASSISTANT or message.sender == name:
            # The same id may be used by a call of this agent later; its results are its own again.
            foreign -= {call.id for call in message.tool_calls}
            seen.append(message)
        else:
            foreign |= {call.id for call in message.tool_calls}
            text = message.text
            # Other agents get only its text, without calls and reasoning.
            if text:
                seen.append(
                    Message(message.sender, Role.USER, (Text(f"{message.sender or 'assistant'}: {text}"),))
                )
    return seen


def shared_message(message: Message, name: str) -> Message:
    """The answer for the chat, without calls, because their results are not in the chat."""
    parts = tuple([part for part in message.parts if not isinstance(part, ToolCall | ToolResult)])
    return Message(name, Role.ASSISTANT, parts, message.metadata)
