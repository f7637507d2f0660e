"""The saved form of a conversation: a JSON document with a version.

    {"format": "llmstream.chat", "version": 1, "messages": [
        {"sender": "", "role": "user", "parts": [{"kind": "text", "text": "Hi"}], "metadata": null}]}

A newer reader reads every older version: `_READERS` has an entry for each and loses none. A new
field in a message or part raises the version, so that an older reader raises instead of dropping
it. Part kinds are not versioned: an unknown one is stored and written back byte for byte. Metadata
comes back as JSON has it: tuples as lists, times and bytes as text, NaN as null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from llmstream.chats.content import Part, Text, ToolCall, ToolResult, decode_part, encode_part
from llmstream.chats.message import Message, Role, as_role
from llmstream.errors import DecodeError, InvalidRequest

__all__ = [
    "FORMAT",
    "VERSION",
    "dump_messages",
    "load_messages",
    "message_from_json",
    "message_to_json",
]

FORMAT = "llmstream.chat"
# Grows when older releases could not read what this one writes; new optional fields need no new version.
VERSION = 1


class _SavedMessage(msgspec.Struct):
    sender: str
    role: str
    parts: list[msgspec.Raw]
    metadata: dict[str, Any] | None = None


class _SavedChat(msgspec.Struct, kw_only=True):
    format: str = FORMAT
    version: int = VERSION
    messages: list[_SavedMessage]


class _Envelope(msgspec.Struct):
    format: str
    version: int


_encoder = msgspec.json.Encoder()
_message_decoder = msgspec.json.Decoder(_SavedMessage)
_chat_decoder = msgspec.json.Decoder(_SavedChat)
_envelope_decoder = msgspec.json.Decoder(_Envelope)

# Beside msgspec's own, what it lets through: bad UTF-8 (a ValueError) and nesting past the stack.
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_UNWRITABLE = (*_UNREADABLE, TypeError, OverflowError)


def dump_messages(messages: Iterable[Message]) -> bytes:
    """The saved form of a conversation, in the version of today.

    raises: InvalidRequest where JSON cannot hold a value, or a part could not be read again
    """
    saved = [_checked(message, f"message {i}") for i, message in enumerate(messages)]
    return _encoder.encode(_SavedChat(messages=saved))


def load_messages(data: bytes | str) -> list[Message]:
    """The conversation that a saved form of any version describes.

    raises: DecodeError where it is damaged, something else, or of a newer version
    """
    try:
        # A str with a lone surrogate fails here, and is damage as bad UTF-8 is.
        raw = data.encode() if isinstance(data, str) else bytes(data)
        version = _version(raw)
        reader = _READERS.get(version)
        if reader is None:
            raise DecodeError(_no_reader(version))
        return reader(raw)
    except _UNREADABLE as error:
        raise DecodeError(
            f"not a saved chat: {error}. The file is damaged or was written by another program; "
            "a copy made with Chat.save or to_json can be read."
        ) from None


def message_to_json(message: Message) -> bytes:
    """One message as it stands in a saved chat, without a version.

    raises: InvalidRequest as `dump_messages`
    """
    return _encoder.encode(_checked(message, "the message"))


def message_from_json(data: bytes | str) -> Message:
    """The message that `message_to_json` wrote.

    raises: DecodeError where it is damaged or something else
    """
    try:
        return _message(_message_decoder.decode(data), "the message")
    except _UNREADABLE as error:
        raise DecodeError(
            f"not a saved message: {error}. Only what message_to_json wrote can be read."
        ) from None


def _checked(message: Message, where: str) -> _SavedMessage:
    """A message in saved form, read back once: what cannot be read again must not be saved."""
    try:
        parts = [encode_part(part) for part in message.parts]
        saved = _SavedMessage(message.sender, message.role, parts, message.metadata)
        # A Struct does not check the types of its fields: a wrong one would be written, but not read again.
        _message(_message_decoder.decode(_encoder.encode(saved)), where)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where} cannot be saved: {error.message}") from None
    except DecodeError as error:
        raise InvalidRequest(
            f"{error.message}. It could not be read again and so is not saved; "
            "give each field of the part a value of its declared type."
        ) from None
    except _UNWRITABLE as error:
        raise InvalidRequest(
            f"{where} cannot be saved: {error}. Keep metadata to what JSON can hold: "
            "text, numbers, booleans, None, lists and dicts with text as keys."
        ) from None
    return saved


def _version(raw: bytes) -> int:
    # The list of messages of mods; all later forms are an object.
    if raw.lstrip().startswith(b"["):
        return 0
    envelope = _envelope_decoder.decode(raw)
    # Another program's JSON may have a version too.
    if envelope.format != FORMAT:
        raise DecodeError(f'not a saved chat: its format is "{envelope.format}", not "{FORMAT}"')
    if envelope.version < 1:
        raise DecodeError(f"not a saved chat: its version {envelope.version} is unknown")
    return envelope.version


def _no_reader(version: int) -> str:
    return (
        f"this chat was saved in version {version} and this llmstream reads up to {VERSION}. "
        "Upgrade llmstream to read it."
    )


def _read_version_1(raw: bytes) -> list[Message]:
    saved = _chat_decoder.decode(raw).messages
    return [_message(message, f"message {i}") for i, message in enumerate(saved)]


def _message(saved: _SavedMessage, where: str) -> Message:
    parts: list[Part] = []
    for raw in saved.parts:
        try:
            parts.append(decode_part(raw))
        except DecodeError as error:
            raise DecodeError(f"{where}, part {len(parts)}: {error.message}") from None
    # With a role that passes the check; the saved one follows.
    message = Message(saved.sender, Role.USER, tuple(parts), saved.metadata)
    message.role = as_role(saved.role)  # not checked: what was saved is read, whatever it is
    return message


# Reads the oldest saved form: the list of messages that mods keeps in its cache.
#
#     [{"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "date", "arguments": "{}"}]},
#      {"role": "tool", "content": "Friday", "tool_call_id": "c1"}]
#
# Calls without an id, as the first of these caches have them, get one (`call_0_0`: message, call),
# and results without one answer the open calls in order.


class _Call(msgspec.Struct):
    name: str
    arguments: str = ""
    id: str | None = None
    is_error: bool = False


class _Message(msgspec.Struct):
    role: str
    content: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[_Call] | None = None


_decoder = msgspec.json.Decoder(list[_Message])


def read_mods_cache(raw: bytes) -> list[Message]:
    """The conversation in such a list.

    raises: what msgspec raises; `load_messages` puts it into words
    """
    open_calls: dict[str, str] = {}  # id to name, in call order
    messages = []
    for index, cached in enumerate(_decoder.decode(raw)):
        if cached.role == Role.TOOL:
            parts: list[Part] = [_result(cached, open_calls)]
        else:
            parts = [Text(cached.content)] if cached.content else []
            for position, call in enumerate(cached.tool_calls or ()):
                call_id = call.id or f"call_{index}_{position}"
                open_calls[call_id] = call.name
                parts.append(ToolCall(call_id, call.name, call.arguments))
        messages.append(Message("", as_role(cached.role), tuple(parts)))
    return messages


def _result(cached: _Message, open_calls: dict[str, str]) -> ToolResult:
    """A tool's message; some caches repeat the call in it, with its id and whether it failed."""
    call = cached.tool_calls[0] if cached.tool_calls else _Call("")
    call_id = cached.tool_call_id or call.id or next(iter(open_calls), "")
    name = open_calls.pop(call_id, call.name)
    return ToolResult(call_id, cached.content or "", is_error=call.is_error, name=name)


_READERS: dict[int, Callable[[bytes], list[Message]]] = {
    0: read_mods_cache,
    1: _read_version_1,
}
