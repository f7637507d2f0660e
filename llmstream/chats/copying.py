"""Copies of messages that share nothing that can change."""

from __future__ import annotations

from copy import copy, deepcopy
from types import NoneType

from llmstream.chats.content import Part
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest

__all__ = ["copy_message"]

_UNCHANGING = (str, bytes, int, float, bool, NoneType)


def copy_message(message: Message) -> Message:
    """A message of its own: changing one, however deep, never changes the other.

    A frozen part that holds nothing mutable is shared; one with metadata is copied whole.

    raises: InvalidRequest where it is no message, or holds a value that cannot be copied
    """
    if not isinstance(message, Message):
        raise InvalidRequest(
            f"a chat is made of Messages, not of {type(message).__name__}. "
            "Write Message.user(text), or unpack a list: Chat(*messages)."
        )
    try:
        if type(message) is not Message:
            return deepcopy(message)
        metadata = message.metadata if message.metadata is None else deepcopy(message.metadata)
        copied = copy(message)  # nothing is checked anew: a loaded message may have any role
        copied.parts, copied.metadata = tuple(map(_copy_part, message.parts)), metadata
        return copied
    except Exception as error:  # a value's own __deepcopy__ may raise anything
        raise InvalidRequest(
            f"a message cannot be copied: {type(error).__name__}: {error}. "
            "Keep parts and metadata to plain values; handles and locks belong elsewhere."
        ) from error


def _copy_part(part: Part) -> Part:
    config = getattr(type(part), "__struct_config__", None)
    if config is None or not config.frozen:
        return deepcopy(part)
    names: tuple[str, ...] = getattr(part, "__struct_fields__", ())
    return part if all(_is_unchanging(getattr(part, name)) for name in names) else deepcopy(part)


def _is_unchanging(value: object) -> bool:
    return isinstance(value, _UNCHANGING) or (type(value) is tuple and all(map(_is_unchanging, value)))
