"""A message: a sender, a role, parts and metadata; what of it is shared, and what is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from enum import StrEnum
from itertools import chain, compress, count, islice, repeat
from operator import attrgetter, is_, is_not, methodcaller, ne
from types import NoneType
from typing import Any, Final, TypeVar, overload

import msgspec

from llmstream.chats.content import (
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
    UnknownPart,
)
from llmstream.errors import InvalidRequest
from llmstream.exchange import shown_address
from llmstream.other_sdks import MESSAGE, suggests
from llmstream.short_forms import counted, quoted

__all__ = [
    "LateCopies",
    "Message",
    "RepeatedCopies",
    "Role",
    "as_role",
    "copy_message",
    "copy_messages",
    "is_valid_role",
    "noted",
    "unchanged",
]

# Who speaks: system, user, assistant or tool.


class Role(StrEnum):
    """The four roles. A message may hold another string: what others invent is preserved."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    @staticmethod
    def valid(role: str) -> bool:
        """Whether it is one of the four; a message may hold another."""
        return role in ROLES


ROLES: Final = frozenset(role.value for role in Role)


def is_valid_role(role: str) -> bool:
    """Whether it is one of the four."""
    return role in ROLES


def as_role(role: str) -> str:
    """The `Role` of that name, as a message that is made has it; what others invent stays as it is."""
    return Role(role) if role in ROLES else role


# A message may have hundreds, of which a repr shows the beginning.
_REPR_PARTS: Final = 8


@suggests(MESSAGE)
class Message(msgspec.Struct):
    """One message of a conversation; the one mutable type of the model besides `Chat`. str() is its text.

    sender:   who wrote it, such as an agent's name; "" where that does not matter
    role:     a `Role`, or any string that another system uses
    parts:    content in order; parts themselves are frozen
    metadata: the application's own; None until something is set
    """

    sender: str
    role: str
    parts: tuple[Part, ...] = ()
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        # The sender comes first, so what other libraries write for a role and a text would be neither.
        # Only without parts: with them the order was meant.
        mistaken = not self.parts and self.sender in ROLES and self.role not in ROLES
        if mistaken or isinstance(self.parts, str):
            given = f"got the sender {self.sender[:40]!r}, the role {self.role[:40]!r}"
            raise InvalidRequest(
                "a Message is Message(sender, role, parts). For a role and a text write Message.user(text), "
                f".assistant(text) or .system(text); {given}"
            )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        """One line: role and parts, with long text cut and files as their size. `parts` has all of it."""
        parts = [_short_form(part) for part in self.parts[:_REPR_PARTS]]
        if len(self.parts) > _REPR_PARTS:
            parts.append(f"… {counted(len(self.parts) - _REPR_PARTS, 'more part')}")
        sender = [f"sender={quoted(self.sender)}"] if self.sender else []
        return f"Message({', '.join([str(self.role), *parts, *sender])})"

    def _repr_markdown_(self) -> str | None:
        """The message as Markdown, for notebooks; None if there is nothing to show."""
        from llmstream.chats.markdown import parts_markdown  # loaded by those who have a notebook

        return parts_markdown(self.parts) or None

    @classmethod
    def new(cls, sender: str, role: str, *parts: Part) -> Message:
        """A message of any parts, or of none."""
        return cls(sender, role, parts)

    @classmethod
    def new_text(cls, sender: str, role: str, text: str) -> Message:
        """A message of one text."""
        return cls(sender, role, (Text(text),))

    @classmethod
    def system(cls, text: str) -> Message:
        """A system message of one text."""
        return cls("", Role.SYSTEM, (Text(text),))

    @classmethod
    def user(cls, *parts: str | Part) -> Message:
        """A user's message; strings become text parts.

        raises: InvalidRequest for bytes, whose kind is unknown
        """
        return cls("", Role.USER, tuple([_part(part) for part in parts]))

    @classmethod
    def assistant(cls, *parts: str | Part) -> Message:
        """An assistant's message; strings become text parts.

        raises: InvalidRequest for bytes, whose kind is unknown
        """
        return cls("", Role.ASSISTANT, tuple([_part(part) for part in parts]))

    @classmethod
    def tool(cls, results: Iterable[ToolResult]) -> Message:
        """The results of one turn's calls, in call order."""
        return cls("", Role.TOOL, tuple(results))

    @property
    def text(self) -> str:
        """The text parts, joined without a separator."""
        return "".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def text_content(self) -> str:
        """`text`, by the name it has in the data model of `chats`."""
        return self.text

    @property
    def reasoning(self) -> str:
        """The text of the reasoning parts, joined without a separator."""
        return "".join(p.text for p in self.parts if isinstance(p, Reasoning))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls, in order."""
        return [p for p in self.parts if isinstance(p, ToolCall)]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The tool results, in order."""
        return [p for p in self.parts if isinstance(p, ToolResult)]

    def set_meta(self, key: str, value: Any) -> None:
        """Set one key of the metadata, in place."""
        if self.metadata is None:
            self.metadata = {}
        self.metadata[key] = value

    def get_meta(self, key: str) -> tuple[Any, bool]:
        """The value and whether it is there: a stored None is not a missing key."""
        if self.metadata is None or key not in self.metadata:
            return None, False
        return self.metadata[key], True

    def with_meta(self, key: str, value: Any) -> Message:
        """A copy with one key of the metadata set."""
        return msgspec.structs.replace(self, metadata={**(self.metadata or {}), key: value})


def _part(part: str | Part) -> Part:
    if isinstance(part, str):
        return Text(part)
    if isinstance(part, bytes | bytearray | memoryview):
        raise InvalidRequest(
            "bytes have no media type. Write Image(data=..., media_type='image/png'), "
            "Audio(...) or Document(...)."
        )
    return part


def _short_form(part: Part) -> str:
    """A part for `repr`: its text, cut, or its kind and size."""
    name = type(part).__name__
    match part:
        case Text(text) | Reasoning(text):
            shown = quoted(text)
        case ToolCall():
            shown = f"{quoted(part.name)}, {quoted(part.arguments)}"
        case ToolResult():
            failure = "failed: " if part.is_error else ""
            shown = f"{quoted(part.name or part.tool_call_id)}, {failure}{quoted(part.content)}"
        case Image() | Audio() | Document() | File():
            size = counted(len(part.data), "byte") if part.data else shown_address(part.url)
            shown = ", ".join(filter(None, [part.media_type, size]))
        case Source():
            shown = shown_address(part.url) if part.url else quoted(part.title or part.filename or part.id)
        case Custom(kind):
            shown = quoted(kind)
        case UIPart(page_part):
            shown = quoted(str(page_part.get("type")))
        case UnknownPart(kind, raw):
            shown = f"{quoted(kind)}, {counted(len(raw), 'byte')}"
        case _:
            shown = "…"
    return f"{name}({shown})"


# Which parts of a message may be shared and which are copied: the same rule for one message and for many.
#
# A part is frozen; it is shared where all that it holds is unchanging. Metadata and whatever else can change
# is copied. Inside the library messages are passed on as they are and never changed in place; copies are made
# where callers give messages or get them.

T = TypeVar("T")

_UNCHANGING: Final = (str, bytes, int, float, bool, NoneType)
_UNCHANGING_TYPES: Final = frozenset(_UNCHANGING)

_parts = attrgetter("parts")
_metadata = attrgetter("metadata")
_shallow = methodcaller("__copy__")


def copy_messages(messages: Iterable[Message]) -> list[Message]:
    """Messages of their own, each as by `copy_message`.

    Where no value of any part can change, as in most conversations, no Python runs for a message
    without metadata: an agent's history is copied again and again.

    raises: InvalidRequest as `copy_message`
    """
    found = list(messages)
    # In C, because a run copies its conversation at each step.
    if not _have_unchanging_parts(found):
        return [copy_message(message) for message in found]
    copies: list[Message] = list(map(_shallow, found))
    for copied in compress(copies, map(is_not, map(_metadata, copies), repeat(None))):
        copied.metadata = _copy_metadata(copied.metadata)
    return copies


class LateCopies(Sequence[Message]):
    """Copies of the current messages, made on first access: most tools never access them."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._given = tuple(messages)
        self._copies: tuple[Message, ...] | None = None

    def __len__(self) -> int:
        return len(self._given)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if self._copies is None:
            self._copies = tuple(copy_messages(self._given))
        return self._copies[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(self[:])


def unchanged(known: Sequence[T], now: Iterable[T], differ: Callable[[T, T], bool] = ne) -> int:
    """How many values at the beginning are equal: compared in C, and mostly by identity."""
    current = list(islice(now, len(known)))
    if differ is ne and known == current:  # as nearly always; a sixth of the time of the search
        return len(current)
    return next(compress(count(), map(differ, known, current)), len(current))


def noted(messages: Iterable[Message]) -> list[Message]:
    """Messages as they are now, for `unchanged` to compare them with later: their own fields only.

    Two messages are compared in C, in 20 ns where their fields are the same objects. Tuples of the fields,
    made for each comparison, take five times as long, and an agent compares its history several times a step.
    """
    return list(map(_shallow, messages))


class RepeatedCopies:
    """Copies of a conversation that grows, made again and again for readers who may change them.

    A copy that is still what its message is, is given again: both are compared in C.
    """

    def __init__(self) -> None:
        self._known: list[Message] = []
        self._copies: list[Message] = []

    def of(self, messages: Iterable[Message]) -> list[Message]:
        """The messages, each as by `copy_message`.

        raises: InvalidRequest as `copy_message`
        """
        found = list(messages)
        # Subclasses have fields that a comparison by four fields does not see.
        if set(map(type, found)) - {Message}:
            return copy_messages(found)
        known = self._known
        same = min(unchanged(known, found), unchanged(known, self._copies))
        del known[same:], self._copies[same:]
        added = found[same:]
        self._copies += copy_messages(added)
        known.extend(noted(added))
        # The copies are given again, the list is the reader's.
        return list(self._copies)


def copy_message(message: Message) -> Message:
    """A message of its own: changing one, however deep, never changes the other.

    A frozen part that holds nothing mutable is shared; one with metadata is copied completely.

    raises: InvalidRequest where it is no message, or holds a value that cannot be copied
    """
    if not isinstance(message, Message):
        raise InvalidRequest(
            f"a chat is made of Messages, not of {type(message).__name__}. "
            "Write Message.user(text), or unpack a list: Chat(*messages)."
        )
    if type(message) is not Message:
        return _deep(message)
    copied: Message = _shallow(message)  # nothing is checked again: a loaded message may have any role
    copied.parts, copied.metadata = tuple(map(_copy_part, message.parts)), _copy_metadata(message.metadata)
    return copied


def _deep(value: T) -> T:
    try:
        return deepcopy(value)
    except Exception as error:  # a value's own __deepcopy__ may raise anything
        raise InvalidRequest(
            f"a message cannot be copied: {type(error).__name__}: {error}. "
            "Keep parts and metadata to plain values; handles and locks belong elsewhere."
        ) from error


def _copy_metadata(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Every answer has a few texts about its origin, for which a deep copy would be slow."""
    if metadata is None or type(metadata) is not dict:
        # A subclass of dict may have additional state.
        return _deep(metadata)
    return {
        name: value.copy()
        if type(value) is dict and _UNCHANGING_TYPES.issuperset(map(type, value.values()))
        else _deep(value)
        for name, value in metadata.items()
    }


def _copy_part(part: Part) -> Part:
    if not _is_frozen(type(part)):
        return _deep(part)
    names: tuple[str, ...] = getattr(part, "__struct_fields__", ())
    return part if all(_is_unchanging(getattr(part, name)) for name in names) else _deep(part)


def _is_frozen(kind: type) -> bool:
    config = getattr(kind, "__struct_config__", None)
    return config is not None and config.frozen


def _is_unchanging(value: object) -> bool:
    return isinstance(value, _UNCHANGING) or (type(value) is tuple and all(map(_is_unchanging, value)))


def _have_unchanging_parts(messages: list[Message]) -> bool:
    """Whether no part of any message can change: by sets of types, without a loop in Python."""
    # Subclasses may have additional fields, so each is copied by its own rule.
    if set(map(type, messages)) - {Message}:
        return False
    if set(map(type, map(_parts, messages))) - {tuple}:
        return False
    parts = list(chain.from_iterable(map(_parts, messages)))
    return all(_holds_unchanging(kind, parts) for kind in set(map(type, parts)))


def _holds_unchanging(kind: type, parts: list[Any]) -> bool:
    """Whether the parts of a kind hold only plain values and empty tuples."""
    if not _is_frozen(kind):
        return False
    own = list(compress(parts, map(is_, map(type, parts), repeat(kind))))
    for name in kind.__struct_fields__:  # type: ignore[attr-defined]  # a Struct's, which are looked at by type
        values = list(map(attrgetter(name), own))
        types = set(map(type, values)) - _UNCHANGING_TYPES
        if types and (types != {tuple} or any(compress(values, map(is_, map(type, values), repeat(tuple))))):
            return False
    return True
