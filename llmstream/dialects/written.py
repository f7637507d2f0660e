"""What the messages of a conversation became on a wire, so that its next request encodes only the new ones.

A conversation goes out again with each step of an agent. Without this the last of 300 steps would encode
600 messages, and an image of several megabytes 300 times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from llmstream.chats.content import Audio, Document, Image, Part, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role

__all__ = ["Form", "HasWritten", "Written", "written_of"]

_KNOWN: Final = ("role", "tool_call_id")


class Form(NamedTuple):
    """The JSON of one message of the wire; `known`: its fields by which others are put in order."""

    known: dict[str, Any]
    json: msgspec.Raw


class Written:
    """The forms of one conversation's messages. There are as many as the last request had messages.

    A message is known again by its parts: one that got others is encoded anew. So are parts with metadata or
    values of any shape, which a caller may change in place, at each request.
    """

    def __init__(self) -> None:
        self._wire: tuple[object, ...] = ()
        self._forms: dict[int, tuple[tuple[Part, ...], str, list[Form]]] = {}
        self._next: dict[int, tuple[tuple[Part, ...], str, list[Form]]] = {}

    def begin(self, *wire: object) -> None:
        """Begins a request; `wire` has all that the form of a message depends on, by identity or as text."""
        same = len(wire) == len(self._wire) and all(
            new is old or (isinstance(new, str) and new == old)
            for new, old in zip(wire, self._wire, strict=True)
        )
        # What the last request did not have has left the conversation.
        self._wire, self._forms, self._next = wire, self._next if same else {}, {}

    def find(self, message: Message) -> list[Form] | None:
        """The forms of a message of the last request, if it has not changed."""
        found = self._forms.get(id(message.parts))
        if found is None or found[0] is not message.parts or found[1] != message.role:
            return None
        self._next[id(message.parts)] = found
        return found[2]

    def add(self, message: Message, made: Iterable[dict[str, Any]]) -> list[Form] | None:
        """Encodes the wire's messages for one of the conversation; None if it may change in place."""
        if not all(_may_be_kept(part, message.role) for part in message.parts):
            return None
        forms = [Form(_known(each), msgspec.Raw(msgspec.json.encode(each))) for each in made]
        # The parts are held, so that no other object gets their id.
        self._next[id(message.parts)] = (message.parts, message.role, forms)
        return forms


@runtime_checkable
class HasWritten(Protocol):
    """Messages of a request that belongs to a conversation with earlier and later requests."""

    @property
    def written(self) -> Written | None:
        """What the messages became before; None for the first request, which may be the only one."""
        ...


def written_of(messages: Iterable[Message]) -> Written | None:
    """What the messages of a request became before, if there is anything to gain."""
    return messages.written if isinstance(messages, HasWritten) else None


def _known(message: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {name: message[name] for name in _KNOWN if name in message}
    if calls := message.get("tool_calls"):
        known["tool_calls"] = [{"id": call["id"]} for call in calls]
    return known


def _may_be_kept(part: Part, role: str) -> bool:
    """Whether a part cannot change in place, and gives no warning, which each request has to repeat."""
    match part:
        case Text(metadata=None):
            return True
        case ToolCall(metadata=None, provider_executed=False):
            return True
        case ToolResult(metadata=None, provider_executed=False, result=None, parts=()):
            return True
        case Image(metadata=None) | Audio(metadata=None) | Document(metadata=None):
            # The assistant's own files cannot go back; a bytearray or a memoryview may be filled anew.
            return role != Role.ASSISTANT and type(part.data) is bytes
    return False
