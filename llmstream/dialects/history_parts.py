"""Rules for writing a conversation in every dialect: roles, unsupported parts, results as text, ids of calls.

Wires without ids match calls and results by order. A generated id has its own prefix, so that it is never
sent to the vendor.
"""

from __future__ import annotations

import functools
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    OWN_KEY,
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UIPart,
    own_values,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.events import Event, Metadata, OtherWarning, ReasoningStart, Warning

__all__ = [
    "FOREIGN_REASONING",
    "MAX_MARKS",
    "MOVED_UP",
    "MessageVendors",
    "ShortCallIds",
    "failure_text",
    "is_foreign",
    "is_minted",
    "keep_last_marks",
    "mint_call_id",
    "own_parts",
    "result_or_failure_text",
    "result_text",
    "role_of",
    "system_text",
    "too_many_marks",
    "with_origin",
    "without_custom_parts",
]

_ROLES: Final = {**{role.value: role for role in Role}, "developer": Role.SYSTEM}


def role_of(message: Message) -> Role:
    """Returns the role of a message; "developer" means "system".

    raises: InvalidRequest for any other role
    """
    # No look-up: the hash of an enum's member is Python code.
    if type(message.role) is Role:
        return message.role
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidRequest(f"unknown role {message.role!r}. Use system, user, assistant or tool.")
    return role


def own_parts(message: Message, *, key: str, provider: str, warn: Callable[[str], object]) -> Sequence[Part]:
    """Returns the parts of a message, without reasoning of other vendors.

    key:  of the vendor's metadata
    warn: called where reasoning is left out
    """
    for part in message.parts:
        if isinstance(part, Reasoning):
            break
    else:
        # Most messages have none.
        return message.parts
    vendors = MessageVendors(message)
    out: list[Part] = []
    for part in message.parts:
        if isinstance(part, Reasoning) and is_foreign(part, vendors, key, provider):
            warn(FOREIGN_REASONING)
        else:
            out.append(part)
    return out


def system_text(part: Part, *, moved: bool, warn: Callable[[str], object]) -> str:
    """Returns the text of a part of a system message; "" for any other part and for white space.

    moved: the API does not support system messages inside the conversation
    """
    if not isinstance(part, Text):
        warn(f"a {part_kind(part)} part in a system message was left out: the API takes only text there")
        return ""
    if moved:
        warn(MOVED_UP)
    return part.text if part.text.strip() else ""


MOVED_UP: Final = "a system message inside the conversation was moved to the top: the API has no other place"


_REPORTS_FAILURE: Final = re.compile(
    r"(?:\b|_)(?:\w*error|\w*exception|fail(?:ed|s|ure)?|no result|not run|denied|refused|rejected|cancell?ed"
    r"|timed out|ended while|invalid)\b",
    re.IGNORECASE,
)
# The word "error" further down may be about anything, such as a log that the tool read.
_BEGINNING: Final = 100


def result_text(part: ToolResult) -> str:
    """Returns the text of a result, or its value as JSON if it has no text."""
    if part.content or part.result is None:
        return part.content
    return msgspec.json.encode(part.result).decode()


def result_or_failure_text(part: ToolResult) -> str:
    """Returns the text of a result; that of a failure starts with "Error" or names the failure."""
    text = result_text(part)
    return failure_text(text) if part.is_error else text


def failure_text(content: str) -> str:
    """Returns a text that can be recognized as a failure."""
    if not content:
        return "Error"
    return content if _REPORTS_FAILURE.search(content[:_BEGINNING]) else f"Error: {content}"


# Parts without a form on the wire: kinds that an application has added, and `Custom`.

_CONTENT = (Text, Reasoning, Image, Audio, Document, File, ToolCall, ToolResult, Source)

# Parts left to the dialect: a `Custom` of a response may be the vendor's own.
_OF_ANSWERS = (*_CONTENT, Custom)


def without_custom_parts(messages: Iterable[Message], warn: Callable[[str], object]) -> Iterator[Message]:
    """Yields the messages without parts that no dialect can send, and without those that become empty.

    warn: called for each part that is left out
    """
    for message in messages:
        known = _OF_ANSWERS if message.role == Role.ASSISTANT else _CONTENT
        parts = tuple([part for part in message.parts if isinstance(part, known)])
        if len(parts) == len(message.parts):
            yield message
            continue
        for part in message.parts:
            # Parts of a page were never meant for the model.
            if not isinstance(part, (*known, UIPart)):
                warn(_left_out(part))
        if parts:
            yield msgspec.structs.replace(message, parts=parts)


def _left_out(part: object) -> str:
    named = f"type {part.type!r}" if isinstance(part, Custom) else f"kind {part_kind(part)!r}"
    return f"a part of {named} was left out: the API does not support it"


# Marks of the prompt cache: vendors accept four in a request and reject a fifth.
#
# source: "Prompt caching" in the documents of Anthropic, Amazon Bedrock and Alibaba Cloud

MAX_MARKS: Final = 4


def keep_last_marks(blocks: Iterable[Any], warnings: list[Warning], name: str = "cache_control") -> None:
    """Removes all but the last four marks, which cover the longest prompts.

    blocks: in the order of the prompt, including those within tool results
    """
    marked = [block for block in blocks if isinstance(block, dict) and name in block]
    for block in marked[:-MAX_MARKS]:
        del block[name]
    if len(marked) > MAX_MARKS:
        warnings.append(too_many_marks(len(marked)))


def too_many_marks(count: int) -> Warning:
    """Returns the warning about marks that were left out."""
    words = f"only the last {MAX_MARKS} of {count} cache marks were sent: the API takes no more"
    return OtherWarning(words)


_PREFIX: Final = "minted-"


def mint_call_id() -> str:
    """Returns a new id, unique across responses."""
    return f"{_PREFIX}{secrets.token_hex(10)}"


def is_minted(call_id: str) -> bool:
    """Whether `mint_call_id` made the id."""
    return call_id.startswith(_PREFIX)


# Call ids for Mistral's models: nine letters and digits.
#
# An id of this form is not changed. Any other is replaced, the same way for the call and its result, and
# never by an id that is used elsewhere in the request.

_FITS: Final = re.compile(r"[a-zA-Z0-9]{9}")
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# source: mistral-common: "Tool call id was ... but must be a-z, A-Z, 0-9, with a length of 9"
_LENGTH: Final = 9


class ShortCallIds:
    """Maps the call ids of a conversation; equal conversations get equal ids."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._wire: dict[str, str] = {}
        self._taken: set[str] = set()
        self.add(messages)

    def add(self, messages: Iterable[Message]) -> bool:
        """Adds the ids of more messages; False if one of them was made up for another before."""
        parts = (part for message in messages for part in message.parts)
        found = [name for part in parts if (name := _id_of(part)) is not None and name not in self._wire]
        fitting = [name for name in found if _FITS.fullmatch(name)]
        if not self._taken.isdisjoint(fitting):
            return False
        self._wire.update(zip(fitting, fitting, strict=True))
        self._taken.update(fitting)
        for name in found:
            if name not in self._wire:
                self._wire[name] = _replacement(name, self._taken)
                self._taken.add(self._wire[name])
        return True

    def copy(self) -> ShortCallIds:
        """The same ids, to which others may be added."""
        made = ShortCallIds()
        made._wire, made._taken = self._wire.copy(), self._taken.copy()
        return made

    def __getitem__(self, call_id: str) -> str:
        """Returns the id to send to the vendor."""
        return self._wire[call_id]


def _id_of(part: object) -> str | None:
    if isinstance(part, ToolCall):
        return part.id
    return part.tool_call_id if isinstance(part, ToolResult) else None


def _replacement(name: str, taken: set[str]) -> str:
    # A digest stays the same while the conversation grows.
    attempt = 0
    while True:
        seed = f"{attempt}:{name}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.sha256(seed).digest()[:8], "big")
        wire = ""
        for _ in range(_LENGTH):
            number, place = divmod(number, len(_LETTERS))
            wire += _LETTERS[place]
        if wire not in taken:
            return wire
        attempt += 1


# The vendor of reasoning, derived from the metadata of its message.
#
# An API that accepts unsigned reasoning would also accept another vendor's, and present it to the model
# as its own. Reasoning is foreign if its metadata, or that of its message, names other vendors only, or
# if the origin mark does. Reasoning of unknown origin is sent.

FOREIGN_REASONING: Final = "another vendor's reasoning was left out: the API takes only its own"

_ORIGIN: Final = "origin"


def with_origin(events: list[Event], provider: str) -> list[Event]:
    """Returns the events; reasoning without metadata of its vendor starts with the provider's name.

    The mark is `{"llmstream": {"origin": PROVIDER}}`. Like all metadata it is saved with the part.
    """
    return [
        ReasoningStart(event.id, _mark(provider))
        if type(event) is ReasoningStart and event.provider_metadata is None
        else event
        for event in events
    ]


class MessageVendors:
    """The vendors that the metadata of a message names, computed once."""

    def __init__(self, message: Message) -> None:
        self._message = message

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Keys of the metadata of the message and its parts."""
        named = [_vendors(getattr(part, "metadata", None)) for part in self._message.parts]
        return frozenset().union(*named, _vendors(own_values(self._message.metadata)))


def is_foreign(part: Reasoning, message: MessageVendors, key: str, provider: str = "") -> bool:
    """Whether reasoning is known to come from another vendor than the one of the request.

    message:  the message with the reasoning
    key:      of the vendor's metadata
    provider: name of the request's provider, if it differs from the key
    """
    vendors: set[str] | frozenset[str] = _vendors(part.metadata)
    origin = _origin(part.metadata)
    if not vendors and origin is not None:
        return origin not in (key, provider)
    if not vendors:
        vendors = message.names
    return bool(vendors) and key not in vendors


def _mark(provider: str) -> Metadata:
    return {OWN_KEY: {_ORIGIN: provider}}


def _origin(metadata: object) -> str | None:
    origin = own_values(metadata).get(_ORIGIN)
    return origin if isinstance(origin, str) else None


def _vendors(metadata: object) -> set[str]:
    if not isinstance(metadata, dict):
        return set()
    own: dict[str, Any] = metadata
    return {name for name, value in own.items() if isinstance(value, dict) and name != OWN_KEY}
