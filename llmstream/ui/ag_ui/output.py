"""The output shared by all agents of a run: AG-UI frames, and the transcript of the client's messages."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from llmstream.chats.content import OWN_KEY
from llmstream.errors import ErrorInfo, Unsupported
from llmstream.events import File, Metadata, ReasoningFile, Usage
from llmstream.unique_ids import UniqueIds

__all__ = [
    "WIDEST_FRAME",
    "Output",
    "Settings",
    "Transcript",
    "Waiting",
    "builtins",
    "frame",
    "interrupt_of",
    "packed",
    "present",
    "unpacked",
]


# The buffer of the client's parser: a larger frame ends its reading (`transform/sse.ts` of 1.0.0).
WIDEST_FRAME: Final = 10 * 1024 * 1024

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a `Writer` that concern single events.

    reasoning:  whether reasoning is written
    raw:        whether wire events of the vendor are
    error_text: the message that a visitor sees
    file_url:   the address of a file that the model made, instead of a data URL
    sub_agents: whether what sub-agents do is; clients before 1.0 end the run at its events
    """

    run_id: str
    reasoning: bool
    raw: bool
    error_text: Callable[[ErrorInfo], str]
    file_url: Callable[[File | ReasoningFile], str] | None
    sub_agents: bool


class Output:
    """Collects frames until `take`.

    ids:       the ids of sub-agents in use
    usage:     of completed steps, by model
    wrote_any: whether a frame was ever written
    """

    def __init__(self, settings: Settings, messages: Iterable[Mapping[str, Any]] | None) -> None:
        self.settings = settings
        self.ids = UniqueIds("#")
        self.usage: dict[str | None, Usage] = {}
        earlier = [_in_form(message) for message in messages or () if isinstance(message.get("id"), str)]
        self.transcript = Transcript(earlier)
        self.wrote_any = False
        self._knows_history = messages is not None
        # In order, for the newest of an id; as a set for the check of each new call.
        self._earlier_calls = [call["id"] for message in earlier for call in message.get("toolCalls", ())]
        self._earlier_ids = frozenset(self._earlier_calls)
        self._frames: list[bytes] = []

    def take(self) -> bytes:
        """Returns the frames since the last call."""
        frames = b"".join(self._frames)
        self._frames.clear()
        return frames

    def write(self, kind: str, /, **fields: Any) -> None:
        """Writes an event. Fields without a value have to be left out: the client refuses null."""
        if self._is_hidden(fields):
            return
        event = {"type": kind, **fields}
        self.transcript.apply(event)
        self._frames.append(frame(event))
        self.wrote_any = True

    def fragments(self, kind: str, **fields: Any) -> Callable[[str], None]:
        """Returns a function that writes fragments, the most frequent event.

        fields: of each event, but its delta; the message or call has begun
        """
        if self._is_hidden(fields):
            return _ignore
        pieces = self.transcript.fragments(fields)
        # Encoded once, and open for the delta: it is the same for all fragments of a message.
        head = b'data: %s,"delta":' % _encode({"type": kind, **fields})[:-1]
        frames = self._frames

        def write(delta: str) -> None:
            # Clients up to 0.0.48 refuse a text without characters.
            if not delta:
                return
            pieces.append(delta)
            frames.append(b"%s%s}\n\n" % (head, _encode(delta)))

        return write

    def _is_hidden(self, fields: Mapping[str, Any]) -> bool:
        """Whether the event with these fields is one of a sub-agent, and none of those are written."""
        return not self.settings.sub_agents and "subagentRunId" in fields

    def free_call_id(self, call_id: str) -> str:
        """Returns the id of a new call; another one if an earlier call of the thread has it.

        The client would append the new arguments to the old call. Servers that count calls repeat ids.
        """
        return f"{call_id}@{self.settings.run_id}" if call_id in self._earlier_ids else call_id

    def earlier_call_id(self, call_id: str) -> str:
        """Returns the client's id for a call of an earlier run, which has its result now."""
        renamed = [found for found in self._earlier_calls if found.startswith(f"{call_id}@")]
        # The newest: a server that counts calls gives one id again and again.
        return renamed[-1] if renamed else call_id

    def take_back(self, ids: set[str], owners: set[str]) -> None:
        """Removes messages from the client: those with these ids, and all of these sub-agents.

        raises: Unsupported if the client's earlier messages are unknown: they would be lost
        """
        some = self.transcript.discard(
            lambda message: message["id"] in ids or message.get("subagentRunId") in owners
        )
        if not some:
            return
        if not self._knows_history:
            raise Unsupported(
                "a retry takes back what the page shows, which needs the messages that the page has: pass "
                "ag_ui.Writer(messages=...) or use RunInput.writer(), or do without fallback(restart=True)"
            )
        self.write("MESSAGES_SNAPSHOT", messages=self.transcript.messages)


def frame(event: Mapping[str, Any]) -> bytes:
    """Returns an event as a frame of SSE. Lines end in LF: the client's parser breaks on CRLF."""
    return b"data: %s\n\n" % _encode(event)


def _ignore(delta: str) -> None:
    """Writes nothing."""


def _in_form(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as a snapshot may have it: some pages write null for what they do not have."""
    fields = present(**message)
    calls = fields.get("toolCalls", ())
    return {**fields, "toolCalls": [present(**call) for call in calls]} if calls else fields


def present(**fields: Any) -> dict[str, Any]:
    """Returns the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def builtins(value: Any) -> Any:
    """Returns a Struct as JSON values."""
    return msgspec.to_builtins(value)


# `encryptedValue`: the slot in which the client carries what a vendor wants back verbatim.


def packed(metadata: Metadata | list[tuple[int, Metadata | None]]) -> str:
    """Returns metadata as an `encryptedValue`: of one block, or of a text's blocks with their lengths."""
    return _encode({OWN_KEY: metadata}).decode()


def unpacked(value: object) -> Any:
    """Reverses `packed`, with lists for tuples; returns None for other values."""
    if not isinstance(value, str) or not value.startswith(f'{{"{OWN_KEY}":'):
        return None
    try:
        # Not msgspec: what the client sends back may have lone surrogates, which msgspec refuses.
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found.get(OWN_KEY) if isinstance(found, dict) else None


# Interrupts: the questions about calls that wait for a person's decision.


_DECISION_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "Whether the call may run."},
        "reason": {"type": "string", "description": "For the model, of a call that may not run."},
        "editedArgs": {"type": "object", "description": "Arguments to run it with, instead of the model's."},
    },
    "required": ["approved"],
}


class Waiting(msgspec.Struct, frozen=True):
    """A call that waits for a person's decision.

    call_id: as the client has it
    name:    of the tool; "" if the call was made in an earlier run
    input:   JSON text of the arguments, if the client does not have those that will run
    owner:   the sub-agent that made it
    """

    approval_id: str
    call_id: str
    name: str
    input: str | None = None
    owner: str | None = None


def interrupt_of(waiting: Waiting, expires_at_s: float | None = None) -> dict[str, Any]:
    """Returns the interrupt of a call: with the arguments, if the page shows others than will run.

    expires_at_s: Unix time
    """
    message, metadata = None, None
    if waiting.name:
        message = f"May {waiting.name} run?"
    if waiting.input is not None:
        message = f"May {waiting.name} run with {waiting.input}?"
        metadata = {OWN_KEY: {"toolName": waiting.name, "input": waiting.input}}
    return {
        "id": waiting.approval_id,
        "reason": "tool_call",
        "toolCallId": waiting.call_id,
        "responseSchema": _DECISION_SCHEMA,
        **present(
            message=message,
            metadata=metadata,
            subagentRunId=waiting.owner,
            expiresAt=None if expires_at_s is None else _moment(expires_at_s),
        ),
    }


def _moment(time_s: float) -> str:
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# The messages that an AG-UI client has: built from the sent events, as the client does.
#
# A `MESSAGES_SNAPSHOT` must contain every message that stays, so retracting text needs all of them.
#
# source: `apply/default.ts` of npm `@ag-ui/client` 1.0.0


class Transcript:
    """The messages of a thread, without activities: those are the client's own and are never sent back.

    messages: what the client had before the run
    """

    def __init__(self, messages: Iterable[Mapping[str, Any]] = ()) -> None:
        self._messages: list[dict[str, Any]] = []
        self._by_id: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._owners: dict[str, dict[str, Any]] = {}  # the message of a call, by the call's id
        self._fragments: dict[tuple[str, str], list[str]] = {}  # text of a message, arguments of a call
        for message in messages:
            self.add(dict(message))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, in the client's order and form."""
        for (kind, name), pieces in self._fragments.items():
            # In place, so that the next access does not join the same fragments again.
            if len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
            if kind == "arguments":
                self._calls[name]["function"]["arguments"] = "".join(pieces)
            else:
                self._by_id[name]["content"] = "".join(pieces)
        return list(self._messages)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Applies one event; ignores those that do not affect messages."""
        change = _CHANGES.get(event["type"])
        if change is not None:
            change(self, event)

    def fragments(self, event: Mapping[str, Any]) -> list[str]:
        """Returns the list of fragments of an event's message or call, to which callers append."""
        if "messageId" in event:
            return self._fragments["content", event["messageId"]]
        return self._fragments["arguments", event["toolCallId"]]

    def discard(self, is_discarded: Callable[[Mapping[str, Any]], bool]) -> bool:
        """Removes messages, so that a snapshot of the others removes them; returns whether there were any.

        A snapshot without reasoning leaves the client's as it is. So an empty one is kept if no other
        remains.
        """
        gone = [message for message in self._messages if is_discarded(message)]
        thoughts = [message for message in gone if message["role"] == "reasoning"]
        stays: dict[str, Any] | None = None
        if thoughts and sum(message["role"] == "reasoning" for message in self._messages) == len(thoughts):
            stays = thoughts[0]
        self._messages = [one for one in self._messages if one is stays or not is_discarded(one)]
        for message in gone:
            self._forget(message)
        if stays is not None:
            emptied = {"id": stays["id"], "role": "reasoning", "content": "", **_owner(stays)}
            stays.clear()
            stays.update(emptied)
            self._by_id[stays["id"]] = stays
        return bool(gone)

    def _forget(self, message: Mapping[str, Any]) -> None:
        self._by_id.pop(message["id"], None)
        self._fragments.pop(("content", message["id"]), None)
        for call in message.get("toolCalls", ()):
            self._calls.pop(call["id"], None)
            self._owners.pop(call["id"], None)
            self._fragments.pop(("arguments", call["id"]), None)

    def replace_content(self, message_id: str, content: list[dict[str, Any]]) -> None:
        """Gives a message other content than the events of ours can say: files of a result."""
        self._by_id[message_id]["content"] = content

    def add(self, message: dict[str, Any], at: int | None = None) -> None:
        """Adds a message, at the end or at a place."""
        self._messages.insert(len(self._messages) if at is None else at, message)
        self._by_id[message["id"]] = message
        for call in message.get("toolCalls") or ():
            self._calls[call["id"]] = call
            self._owners[call["id"]] = message

    def _text_start(self, event: Mapping[str, Any]) -> None:
        role = "reasoning" if event["type"] == "REASONING_MESSAGE_START" else event["role"]
        self.add({"id": event["messageId"], "role": role, "content": "", **_owner(event)})
        self._fragments["content", event["messageId"]] = []

    def _text_end(self, event: Mapping[str, Any]) -> None:
        message = self._by_id[event["messageId"]]
        message["content"] = "".join(self._fragments.pop(("content", event["messageId"])))
        _merge(message, event)

    def _call_start(self, event: Mapping[str, Any]) -> None:
        parent = self._by_id.get(event["parentMessageId"])
        if parent is None:
            parent = {"id": event["parentMessageId"], "role": "assistant", **_owner(event)}
            self.add(parent)
        name = {"name": event["toolCallName"], "arguments": ""}
        call: dict[str, Any] = {"id": event["toolCallId"], "type": "function", "function": name}
        parent.setdefault("toolCalls", []).append(call)
        self._calls[call["id"]], self._owners[call["id"]] = call, parent
        self._fragments["arguments", call["id"]] = []
        _merge(call, event)

    def _call_more(self, event: Mapping[str, Any]) -> None:
        call = self._calls[event["toolCallId"]]
        if event["type"] == "TOOL_CALL_END":
            call["function"]["arguments"] = "".join(self._fragments.pop(("arguments", event["toolCallId"])))
        _merge(call, event)

    def _result(self, event: Mapping[str, Any]) -> None:
        """Placed after its call and the results of that message's other calls, regardless of later text."""
        result = {"id": event["messageId"], "toolCallId": event["toolCallId"], "role": "tool"}
        result = {**result, "content": event["content"], **_owner(event)}
        _merge(result, event)
        self.add(result, self._place_of(self._owners.get(event["toolCallId"])))

    def _place_of(self, owner: Mapping[str, Any] | None) -> int | None:
        if owner is None:
            return None
        # Backwards: the message is nearly always one of the last.
        place = len(self._messages) - 1
        while self._messages[place] is not owner:
            place -= 1
        place += 1
        while place < len(self._messages) and self._messages[place]["role"] == "tool":
            place += 1
        return place

    def _encrypted(self, event: Mapping[str, Any]) -> None:
        entities = self._calls if event["subtype"] == "tool-call" else self._by_id
        entities[event["entityId"]]["encryptedValue"] = event["encryptedValue"]


_CHANGES: Final[Mapping[str, Callable[[Transcript, Mapping[str, Any]], None]]] = {
    "TEXT_MESSAGE_START": Transcript._text_start,
    "TEXT_MESSAGE_END": Transcript._text_end,
    "REASONING_MESSAGE_START": Transcript._text_start,
    "REASONING_MESSAGE_END": Transcript._text_end,
    "REASONING_ENCRYPTED_VALUE": Transcript._encrypted,
    "TOOL_CALL_START": Transcript._call_start,
    "TOOL_CALL_ARGS": Transcript._call_more,
    "TOOL_CALL_END": Transcript._call_more,
    "TOOL_CALL_RESULT": Transcript._result,
}


def _owner(event: Mapping[str, Any]) -> dict[str, str]:
    owner = event.get("subagentRunId")
    return {} if owner is None else {"subagentRunId": owner}


def _merge(entity: dict[str, Any], event: Mapping[str, Any]) -> None:
    """Key by key, the last one wins: the metadata of an entity is that of all its events."""
    if "metadata" in event:
        entity["metadata"] = {**entity.get("metadata", {}), **event["metadata"]}
