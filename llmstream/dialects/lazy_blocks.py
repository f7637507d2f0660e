"""Blocks for wires that do not mark them: opened by their first fragment, closed by the next kind."""

from __future__ import annotations

from typing import TypeVar

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.logprobs import Logprobs
from llmstream.dialects.surrogates import encodable_value
from llmstream.events import (
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.events.base import merge_metadata

__all__ = ["LazyBlocks"]

T = TypeVar("T")


class LazyBlocks(PayloadDecoder[T]):
    """A decoder whose text and reasoning open as they come; reasoning closes before text.

    Block ids count from "0" in the order of opening.
    """

    _text_id: str | None = None
    _reasoning_id: str | None = None
    _blocks = 0
    _logprobs: Logprobs | None = None  # made when the first come, which for most answers is never

    def keep_logprobs(self, found: object, key: str) -> None:
        """Log probabilities of the fragment that comes next; `key` is that of the metadata."""
        if self._logprobs is None:
            self._logprobs = Logprobs(key)
        self.hold(self._logprobs.add(found if self._joiner is None else encodable_value(found)))

    def text(self, delta: str) -> None:
        """A fragment of text; "" says nothing."""
        if not delta:
            return
        if self._text_id is None:
            self.end_reasoning()
            self._text_id = self.next_id()
            self.out.append(TextStart(self._text_id))
        said = None if self._logprobs is None else self._logprobs.of_delta()
        self.out.append(TextDelta(delta, self._text_id, said))

    def reasoning(self, delta: str) -> None:
        """A fragment of reasoning; "" says nothing."""
        if not delta:
            return
        if self._reasoning_id is None:
            self.end_text()
            self._reasoning_id = self.next_id()
            self.out.append(ReasoningStart(self._reasoning_id))
        said = None if self._logprobs is None else self._logprobs.of_delta()
        self.out.append(ReasoningDelta(delta, self._reasoning_id, said))

    def end_text(self) -> None:
        """Closes the open text, if there is one."""
        if self._text_id is not None:
            said = None if self._logprobs is None else self._logprobs_of_block(self._logprobs)
            self.out.append(TextEnd(self._text_id, provider_metadata=said))
            self._text_id = None

    def end_reasoning(self, metadata: Metadata | None = None) -> None:
        """Closes the open reasoning, if there is one, with what the vendor wants back."""
        if self._reasoning_id is not None:
            if self._logprobs is not None:
                metadata = merge_metadata(metadata, self._logprobs_of_block(self._logprobs))
            self.out.append(ReasoningEnd(self._reasoning_id, provider_metadata=metadata))
            self._reasoning_id = None

    def _logprobs_of_block(self, logprobs: Logprobs) -> Metadata | None:
        self.let_go(logprobs.held)
        return logprobs.of_block()

    def next_id(self) -> str:
        """The next block id."""
        number = self._blocks
        self._blocks += 1
        return str(number)
