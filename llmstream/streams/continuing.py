"""An answer that broke off, gone on with by another model: what it is asked, and how its events say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from llmstream.accumulate.blocks import OWN_KEY, merge_metadata
from llmstream.chats.content import Text
from llmstream.chats.message import Message, Role
from llmstream.events import Event, OtherWarning, StreamStart, TextStart

__all__ = ["CONTINUE_NOTE", "Continuation", "going_on"]

CONTINUE_NOTE: Final = (
    "Your last message was cut off. Go on exactly where it ends: begin with the next character, repeat "
    "nothing of it, and say nothing about the interruption."
)
"""What a model is told that takes no beginning of its own answer."""


def going_on(messages: Sequence[Message], *, takes_prefix: bool, note: str = CONTINUE_NOTE) -> list[Message]:
    """The conversation that asks for the rest of its last answer.

    Of that answer only the text stays: ids, signatures and reasoning are of the model that was cut off.

    takes_prefix: the model goes on with an answer that the conversation ends in; any other is told by
                  `note`, as the user
    """
    if not messages or messages[-1].role != Role.ASSISTANT:
        return list(messages)
    *before, last = messages
    begun = Message(last.sender, last.role, (Text(last.text_content),))
    return [*before, begun] if takes_prefix else [*before, begun, Message.user(note)]


class Continuation:
    """Marks the events of an answer that goes on with another.

    The first event says so in a warning; the first text carries `{"llmstream": {"continues": MODEL}}`,
    which becomes its part's metadata.

    model:  "provider:model" of the answer that broke off
    code:   of the error with which it did, or "left"
    length: characters of text that had come; 0 means that it is asked for anew
    """

    def __init__(self, model: str, code: str, length: int) -> None:
        self._model = model
        self._length = length
        self._words = (
            f"this goes on with an answer of {model} that broke off ({code}) after {length} characters"
            if length
            else f"this is asked anew: the answer of {model} broke off ({code}) before any text"
        )
        self.done = False

    def mark(self, events: list[Event]) -> list[Event]:
        """The same events, marked as far as that is still to be done."""
        return [event if self.done else self._marked(event) for event in events]

    def _marked(self, event: Event) -> Event:
        match event:
            case StreamStart(warnings):
                self.done = not self._length
                return StreamStart([OtherWarning(self._words), *warnings])
            case TextStart():
                self.done = True
                mark = {OWN_KEY: {"continues": self._model}}
                metadata = merge_metadata(event.provider_metadata, mark)
                return msgspec.structs.replace(event, provider_metadata=metadata)
            case _:
                return event
