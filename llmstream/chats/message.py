"""A message: a sender, a role, parts and metadata."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

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

__all__ = ["Message", "Role", "as_role", "is_valid_role"]


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
            "bytes alone do not say what they are. Write Image(data=..., media_type='image/png'), "
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
