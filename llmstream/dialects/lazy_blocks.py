"""Blocks for wires that do not mark them: opened by their first fragment, closed by the next kind."""

from __future__ import annotations

from typing import TypeVar

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.events import (
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
)

__all__ = ["LazyBlocks"]

T = TypeVar("T")


class LazyBlocks(PayloadDecoder[T]):
    """A decoder whose text and reasoning open as they come; reasoning closes before text.

    Block ids count from "0" in the order of opening.
    """

    _text_id: str | None = None
    _reasoning_id: str | None = None
    _blocks = 0

    def text(self, delta: str) -> None:
        """A fragment of text; "" says nothing."""
        if not delta:
            return
        if self._text_id is None:
            self.end_reasoning()
            self._text_id = self.next_id()
            self.out.append(TextStart(self._text_id))
        self.out.append(TextDelta(delta, self._text_id))

    def reasoning(self, delta: str) -> None:
        """A fragment of reasoning; "" says nothing."""
        if not delta:
            return
        if self._reasoning_id is None:
            self.end_text()
            self._reasoning_id = self.next_id()
            self.out.append(ReasoningStart(self._reasoning_id))
        self.out.append(ReasoningDelta(delta, self._reasoning_id))

    def end_text(self) -> None:
        """Closes the open text, if there is one."""
        if self._text_id is not None:
            self.out.append(TextEnd(self._text_id))
            self._text_id = None

    def end_reasoning(self, metadata: Metadata | None = None) -> None:
        """Closes the open reasoning, if there is one, with what the vendor wants back."""
        if self._reasoning_id is not None:
            self.out.append(ReasoningEnd(self._reasoning_id, provider_metadata=metadata))
            self._reasoning_id = None

    def next_id(self) -> str:
        """The next block id."""
        number = self._blocks
        self._blocks += 1
        return str(number)
