"""The messages that an AG-UI client has: folded from the events that it was sent, as it folds them.

A `MESSAGES_SNAPSHOT` has to name every message that stays, so whoever takes text back needs all of them.

source: `apply/default.ts` of npm `@ag-ui/client` 1.0.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

__all__ = ["Transcript"]


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
            # In place, so that the next look does not join the same fragments again.
            if len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
            if kind == "arguments":
                self._calls[name]["function"]["arguments"] = "".join(pieces)
            else:
                self._by_id[name]["content"] = "".join(pieces)
        return list(self._messages)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Folds one event; those that make no message change nothing."""
        change = _CHANGES.get(event["type"])
        if change is not None:
            change(self, event)

    def fragments(self, event: Mapping[str, Any]) -> list[str]:
        """Returns the fragments of the message or call of an event; whoever has more adds them."""
        if "messageId" in event:
            return self._fragments["content", event["messageId"]]
        return self._fragments["arguments", event["toolCallId"]]

    def discard(self, is_discarded: Callable[[Mapping[str, Any]], bool]) -> bool:
        """Removes messages, so that a snapshot of the others removes them; returns whether there were any.

        A snapshot without reasoning leaves the client's as it is. So one stays, empty, if no other does.
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
        """Stands behind its call and the results of the calls beside it, wherever the text is by now."""
        result = {"id": event["messageId"], "toolCallId": event["toolCallId"], "role": "tool"}
        result = {**result, "content": event["content"], **_owner(event)}
        _merge(result, event)
        self.add(result, self._place_of(self._owners.get(event["toolCallId"])))

    def _place_of(self, owner: Mapping[str, Any] | None) -> int | None:
        if owner is None:
            return None
        # From the end: the message is nearly always one of the last.
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
