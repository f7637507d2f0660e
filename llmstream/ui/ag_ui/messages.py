"""The messages of one agent in progress: texts, reasoning, and the message to which a call belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from llmstream.chats.content import OWN_KEY
from llmstream.events import (
    Event,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    merge_metadata,
)
from llmstream.ui.ag_ui.output import Output, packed
from llmstream.ui.numbers import whole_number

__all__ = ["Messages", "response_of"]


def response_of(message_id: str) -> tuple[str, int] | None:
    """Returns prefix and step of one of our ids, "PREFIX-STEP-NUMBER"; None for any other id.

    The messages of one response have both in common.
    """
    name, _, number = message_id.rpartition("-")
    prefix, _, step = name.rpartition("-")
    at = whole_number(step)
    if not prefix or at is None or whole_number(number) is None:
        return None
    return f"{prefix}-", at


class Messages:
    """Writes the texts and the reasoning of one agent.

    prefix: what the ids of its messages begin with
    owner:  its `subagentRunId`; None for the run's own agent

    minted: the ids of messages of the response in progress, for a retry to retract
    """

    def __init__(self, output: Output, prefix: str, owner: str | None) -> None:
        self.minted: set[str] = set()
        self._out = output
        self._prefix = prefix
        self._tag: dict[str, Any] = {} if owner is None else {"subagentRunId": owner}
        self._step = self._count = 0
        self._current: str | None = None
        self._texts: dict[str, tuple[_Message, _Block]] = {}
        self._ending: _Message | None = None  # its text has ended, unless another one follows
        self._thoughts: dict[str, _Message] = {}

    def feed(self, event: Event) -> bool:
        """Writes an event of a text or of reasoning; returns whether it was one."""
        write = _WRITE.get(type(event))
        if write is not None:
            write(self, event)
        return write is not None

    def start_step(self, number: int) -> None:
        """Starts another response."""
        self._step, self._count = number, 0
        self.minted.clear()
        self.part()

    def part(self) -> None:
        """Ends the current message: what follows belongs to another."""
        self.end_text()
        self._current = None

    def take(self) -> set[str]:
        """Returns and clears the ids of the response's messages."""
        minted, self.minted = self.minted, set()
        self.part()
        return minted

    def for_call(self) -> str:
        """Returns the id of the message for a new call."""
        self.end_text()
        if self._current is None:
            self._current = self._mint()
        return self._current

    def encrypted(self, subtype: str, entity: str, value: str) -> None:
        """Writes the data that a vendor wants back with a message or a call."""
        fields = {"subtype": subtype, "entityId": entity, "encryptedValue": value}
        self._out.write("REASONING_ENCRYPTED_VALUE", **fields, **self._tag)

    def end_text(self) -> None:
        """Ends a text that no further block continues."""
        message, self._ending = self._ending, None
        if message is None:
            return
        # One block without metadata is what a reader assumes anyway.
        if len(message.blocks) > 1 or message.blocks[0].metadata:
            blocks = [(block.chars, block.metadata) for block in message.blocks]
            self.encrypted("message", message.id, packed(blocks))
        self._out.write("TEXT_MESSAGE_END", messageId=message.id, **message.marks, **self._tag)

    def _text_start(self, event: TextStart) -> None:
        message, self._ending = self._ending, None
        if message is None:
            # Adjacent texts are one message: vendors begin a block for each citation.
            name = self._current = self._mint()
            self._out.write("TEXT_MESSAGE_START", messageId=name, role="assistant", **self._tag)
            message = _Message(name, self._out.fragments("TEXT_MESSAGE_CONTENT", messageId=name, **self._tag))
        block = _Block(event.provider_metadata)
        message.blocks.append(block)
        self._texts[event.id] = message, block

    def _text_delta(self, event: TextDelta) -> None:
        message, block = self._texts[event.id]
        block.chars += len(event.delta)
        if event.provider_metadata is not None:
            block.metadata = merge_metadata(block.metadata, event.provider_metadata)
        message.write(event.delta)

    def _text_end(self, event: TextEnd) -> None:
        message, block = self._texts.pop(event.id)
        block.metadata = merge_metadata(block.metadata, event.provider_metadata)
        message.incomplete |= event.incomplete
        self.end_text()
        self._ending = message

    def _reasoning_start(self, event: ReasoningStart) -> None:
        if not self._out.settings.reasoning:
            return
        self.part()
        name = self._mint()
        self._out.write("REASONING_START", messageId=name, **self._tag)
        self._out.write("REASONING_MESSAGE_START", messageId=name, role="reasoning", **self._tag)
        message = self._thoughts[event.id] = _Message(
            name, self._out.fragments("REASONING_MESSAGE_CONTENT", messageId=name, **self._tag)
        )
        message.blocks.append(_Block(event.provider_metadata))

    def _reasoning_delta(self, event: ReasoningDelta) -> None:
        message = self._thoughts.get(event.id)
        if message is None:
            return
        if event.provider_metadata is not None:
            block = message.blocks[0]
            block.metadata = merge_metadata(block.metadata, event.provider_metadata)
        message.write(event.delta)

    def _reasoning_end(self, event: ReasoningEnd) -> None:
        message = self._thoughts.pop(event.id, None)
        if message is None:
            return
        message.incomplete = event.incomplete
        metadata = merge_metadata(message.blocks[0].metadata, event.provider_metadata)
        if metadata:
            self.encrypted("message", message.id, packed(metadata))
        self._out.write("REASONING_MESSAGE_END", messageId=message.id, **message.marks, **self._tag)
        self._out.write("REASONING_END", messageId=message.id, **self._tag)

    def _mint(self) -> str:
        name = f"{self._prefix}{self._step}-{self._count}"
        self._count += 1
        self.minted.add(name)
        return name


_WRITE: Final[Mapping[type, Callable[[Messages, Any], None]]] = {
    TextStart: Messages._text_start,
    TextDelta: Messages._text_delta,
    TextEnd: Messages._text_end,
    ReasoningStart: Messages._reasoning_start,
    ReasoningDelta: Messages._reasoning_delta,
    ReasoningEnd: Messages._reasoning_end,
}


class _Block:
    """One of our blocks within a message: its length in characters, and its metadata."""

    __slots__ = ("chars", "metadata")

    def __init__(self, metadata: Metadata | None) -> None:
        self.chars = 0
        self.metadata = metadata


class _Message:
    """A message in progress; `write` writes a fragment."""

    __slots__ = ("blocks", "id", "incomplete", "write")

    def __init__(self, message_id: str, write: Callable[[str], None]) -> None:
        self.id = message_id
        self.write = write
        self.blocks: list[_Block] = []
        self.incomplete = False

    @property
    def marks(self) -> dict[str, Any]:
        return {"metadata": {OWN_KEY: {"incomplete": True}}} if self.incomplete else {}
