"""Blocks for wires that do not mark them: opened by their first fragment, closed by the next kind."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from llmstream.dialects.decoder import PayloadDecoder, held_size
from llmstream.dialects.json_text import encodable_value
from llmstream.events import (
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.events.types import merge_metadata

__all__ = ["LOGPROBS", "LazyBlocks", "Logprobs", "logprobs_of"]


# Log probabilities of an answer's tokens, as metadata under one name on every wire.
#
# A delta has those of its own tokens, the end of its block all of them again, so that they become
# the part's: `{PROVIDER: {"logprobs": [...]}}`. The entries are the vendor's own. Those of OpenAI,
# Mistral and Ollama have the same shape, `{token, logprob, bytes, top_logprobs}`, and are written back.

LOGPROBS: Final = "logprobs"


class Logprobs:
    """Those of one answer: they wait for the delta that they belong to, then for its block's end.

    What comes without text, as with the tokens of a call, waits for the next delta, or the finish.

    key:  of the metadata
    held: what they take since the last block, in bytes
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._waiting: list[Any] = []
        self._whole: list[Any] = []
        self.held = 0

    def add(self, found: object) -> int:
        """Those of the tokens that come next, in any of their forms; gives what they take, in bytes."""
        entries = _entries(found)
        self._waiting.extend(entries)
        size = sum(map(held_size, entries))
        self.held += size
        return size

    def of_delta(self) -> Metadata | None:
        """The metadata of the delta that is given now."""
        found, self._waiting = self._waiting, []
        self._whole.extend(found)
        return self._metadata(found)

    def of_block(self) -> Metadata | None:
        """The metadata of the end of the open block."""
        found, self._whole = self._whole, []
        self.held = 0
        return self._metadata(found)

    def of_rest(self) -> Metadata | None:
        """The metadata of the finish: what belongs to no text."""
        found, self._waiting = self._waiting, []
        return self._metadata(found)

    def _metadata(self, found: list[Any]) -> Metadata | None:
        return {self._key: {LOGPROBS: found}} if found else None


def logprobs_of(metadata: Metadata | None) -> list[Any]:
    """The entries that any vendor gave, where they have the usual shape."""
    for own in (metadata or {}).values():
        found = own.get(LOGPROBS)
        if isinstance(found, list) and all(isinstance(entry, dict) and "token" in entry for entry in found):
            return found
    return []


def _entries(found: object) -> list[Any]:
    """A list of tokens; OpenAI and Mistral have one for content and one for a refusal."""
    if isinstance(found, dict) and (found.keys() & {"content", "refusal"}):
        lists = [found.get(name) for name in ("content", "refusal")]
        return [entry for entries in lists if isinstance(entries, list) for entry in entries]
    if isinstance(found, list):
        return found
    return [found] if found else []


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
