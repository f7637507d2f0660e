"""The blocks of one answer as events: opened, grown and closed, whatever marks the wire has for them.

A decoder has `Blocks` and maps the events of its wire to them. The rules that hold on every wire are here:
ids, caps, which calls are complete, and how an answer ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec

from llmstream.dialects.decoder import PayloadDecoder, held_size
from llmstream.dialects.json_text import is_json
from llmstream.errors import LimitExceeded
from llmstream.events import (
    Finish,
    FinishReason,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.events.types import merge_metadata
from llmstream.grammar import TRUNCATING
from llmstream.unique_ids import UniqueIds

__all__ = ["LOGPROBS", "Block", "Blocks", "Logprobs", "logprobs_of"]

_SLOT_BYTES: Final = 8  # a place in a list
_NAME_BYTES: Final = 64  # a place in a set


class Block(msgspec.Struct, eq=False):
    """A block between its start and its end. A decoder that gathers more of it has a subclass.

    kind:     "text", "reasoning" or "tool"; any other is the vendor's own, without events of its own
    id:       of its events
    name:     of the tool that is called
    wire_id:  what the vendor calls a call, by which a result names it
    provider_executed, dynamic: of a call, as in `ToolCall`
    metadata: of the start, and of the call
    invalid:  of a call, where its input may be JSON and is known to be wrong
    parts:    fragments of a call's input; size: their length in bytes
    held:     bytes of memory that are counted for it
    """

    kind: str
    id: str = ""
    name: str = ""
    wire_id: str = ""
    provider_executed: bool = False
    dynamic: bool = False
    invalid: bool = False
    metadata: Metadata | None = None
    parts: list[str] = msgspec.field(default_factory=list)
    size: int = 0
    held: int = 0

    @property
    def input(self) -> str:
        """The input of a call so far."""
        return "".join(self.parts)


B = TypeVar("B", bound=Block)


class Blocks(Generic[B]):
    """The blocks of the answer that `reader` decodes; their events go to its `out`.

    key:     of the metadata that is made here
    make:    a block of a kind, where its first fragment opens it
    closing: is given each block as it closes; returns the metadata of its end, and emits what a block of
             the vendor's own kind becomes

    opened:        by the wire's index, in the order of opening
    count:         how many blocks have been opened
    client_called: whether the caller has calls to run
    text_id, reasoning_id: of the block of that kind that was opened last, while it is open; for hot loops
    """

    def __init__(
        self,
        reader: PayloadDecoder[Any],
        make: Callable[[str], B],
        *,
        key: str,
        closing: Callable[[B], Metadata | None] = lambda block: None,
    ) -> None:
        self.opened: dict[Hashable, B] = {}
        self.count = 0
        self.client_called = False
        self.text_id: str | None = None
        self.reasoning_id: str | None = None
        self.ids = UniqueIds(hold=reader.hold)
        self._reader = reader
        self._make = make
        self._key = key
        self._closing = closing
        self._prose: dict[str, dict[Hashable, None]] = {"text": {}, "reasoning": {}}  # open, by kind
        self._held_back: dict[Hashable, None] = {}
        self._tool_names: dict[str, str] = {}
        self._settled: set[str] = set()
        self._orphans: set[Hashable] = set()
        self._next_number = 0
        self._sources = 0
        self._logprobs: Logprobs | None = None  # made when the first come, which for most answers is never

    # Ids. No two things of one answer share an id, and a server that repeats one costs no search.

    def fresh_id(self, wanted: object) -> str:
        """An id that nothing else in the answer has, as near to the wanted one as can be."""
        return self.ids.fresh(str(wanted))

    def next_id(self) -> str:
        """The next free number, for a block on a wire that does not number them."""
        while True:
            number = str(self._next_number)
            self._next_number += 1
            if self.ids.take(number):
                return number

    def call_id(self, given: str | None, mint: Callable[[], str]) -> str:
        """The vendor's id where it tells the calls apart, else a minted one."""
        while not given or not self.ids.take(given):
            given = mint()
        return given

    def source_id(self) -> str:
        """The id of the next source."""
        while True:
            self._sources += 1
            name = f"source-{self._sources}"
            if self.ids.take(name):
                return name

    # From start to end.

    def open(self, index: Hashable, block: B, *, held: int = 0) -> bool:
        """Opens a block, which already has its id; what is open at the index ends.

        held:    bytes of memory that it takes from the beginning
        returns: False past the cap on blocks, where the stream ends, and once it has ended
        """
        if not self._admit():
            return False
        if index in self.opened:
            self.close(index)
        self.opened[index] = block
        if held:
            self.retain(block, held)
        out = self._reader.out
        if block.kind == "text":
            self._prose["text"][index] = None
            self.text_id = block.id
            out.append(TextStart(block.id, block.metadata))
        elif block.kind == "reasoning":
            self._prose["reasoning"][index] = None
            self.reasoning_id = block.id
            out.append(ReasoningStart(block.id, block.metadata))
        elif block.kind == "tool":
            self._start_input(block)
        return True

    def _admit(self) -> bool:
        """Whether one more block or call may come; the calls that were held back are over."""
        reader = self._reader
        if reader.done:  # one event of the wire may hold more than one block
            return False
        if self._held_back:
            self.release()
        self.count += 1
        if self.count > reader.limits.max_blocks:
            limit = reader.limits.max_blocks
            reader.fail(LimitExceeded(f"the answer has more than {limit} blocks and calls"))
            return False
        return True

    def _start_input(self, block: B) -> None:
        if not block.name:
            self._reader.defect(f"the tool call {block.id!r} has no name")
        if block.wire_id:
            self._tool_names.setdefault(block.wire_id, block.name)
        self._reader.out.append(
            ToolInputStart(
                block.name,
                block.id,
                block.provider_executed,
                block.dynamic,
                provider_metadata=block.metadata,
            )
        )

    def delta(self, block: B, text: str, metadata: Metadata | None = None) -> None:
        """A fragment of text or reasoning."""
        if self._logprobs is not None:
            metadata = merge_metadata(metadata, self._logprobs.of_delta())
        delta = TextDelta if block.kind == "text" else ReasoningDelta
        self._reader.out.append(delta(text, block.id, metadata))

    def input(self, block: B, fragment: str) -> None:
        """A fragment of a call's input; past the cap on one input the stream ends."""
        reader = self._reader
        block.size += len(fragment) if fragment.isascii() else len(fragment.encode("utf-8", "surrogatepass"))
        if block.size > reader.limits.max_tool_input_bytes:
            self._refuse_input(block)
            return
        block.parts.append(fragment)
        held = sys.getsizeof(fragment) + _SLOT_BYTES
        block.held += held
        reader.hold(held)
        reader.out.append(ToolInputDelta(fragment, block.id))

    def _refuse_input(self, block: B) -> None:
        limit = self._reader.limits.max_tool_input_bytes
        self._reader.fail(LimitExceeded(f"the input of {block.name!r} is longer than {limit} bytes"))

    def complete_call(self, block: B, text: str) -> None:
        """A call that comes in one piece and is never open; prose closes before it.

        text: the input, "" for none
        """
        self.close_prose()
        if not self._admit():
            return
        self._start_input(block)
        if len(text.encode("utf-8", "surrogatepass")) > self._reader.limits.max_tool_input_bytes:
            self._refuse_input(block)
            return
        if text:
            block.parts.append(text)
            self._reader.out.append(ToolInputDelta(text, block.id))
        self._call(block)

    def retain(self, block: B, size: int) -> None:
        """Counts what a block takes in memory until it closes."""
        block.held += size
        self._reader.hold(size)

    def close(self, index: Hashable) -> None:
        """Ends an open block: what belongs to it is complete, and a call can be run."""
        block = self._remove(index)
        metadata = self._closing(block)
        if block.kind in self._prose:
            if self._logprobs is not None:
                self._reader.let_go(self._logprobs.held)
                metadata = merge_metadata(metadata, self._logprobs.of_block())
            end = TextEnd if block.kind == "text" else ReasoningEnd
            self._reader.out.append(end(block.id, provider_metadata=metadata))
        elif block.kind == "tool":
            self._call(block)

    def _remove(self, index: Hashable) -> B:
        block = self.opened.pop(index)
        self._reader.let_go(block.held)
        self._held_back.pop(index, None)
        if block.kind in self._prose:
            del self._prose[block.kind][index]
        if self.text_id == block.id:
            self.text_id = None
        if self.reasoning_id == block.id:
            self.reasoning_id = None
        return block

    def _call(self, block: B) -> None:
        if self._reader.done:  # past a cap: the input may not be complete
            self._reader.out.append(ToolInputEnd(block.id, incomplete=True))
            return
        text = block.input or "{}"
        self.client_called = self.client_called or not block.provider_executed
        self._reader.out.append(ToolInputEnd(block.id))
        self._reader.out.append(
            ToolCall(
                block.name,
                text,
                block.id,
                provider_executed=block.provider_executed,
                dynamic=block.dynamic,
                invalid=block.invalid or not block.name or not is_json(text),
                provider_metadata=block.metadata,
            )
        )

    def hold_back(self, index: Hashable) -> None:
        """The wire ends a call, but the token limit may have cut its input.

        Whether it has, only the next block or the finish reason shows. Until then the call stays open.
        """
        self._held_back[index] = None

    def release(self) -> None:
        """Calls that were held back are complete: the model went on behind them."""
        if self._held_back:
            for index in list(self._held_back):
                self.close(index)

    # Wires that do not mark where text and reasoning begin: the first fragment opens, the other kind closes.

    def prose(self, kind: str, index: Hashable = None) -> B | None:
        """The open block of text or reasoning at an index, opened if need be. None past the cap on blocks.

        index: None on a wire that numbers nothing: its blocks count from "0"
        """
        block = self.opened.get(index)
        if block is not None and block.kind == kind:
            return block
        self.close_prose("reasoning" if kind == "text" else "text")
        block = self._make(kind)
        block.id = self.next_id() if index is None else self.fresh_id(index)
        return block if self.open(index, block) else None

    def text(self, delta: str) -> None:
        """A fragment of text; "" opens nothing."""
        if not delta:
            return
        if self.text_id is None and self.prose("text") is None:
            return
        metadata = None if self._logprobs is None else self._logprobs.of_delta()
        self._reader.out.append(TextDelta(delta, self.text_id or "", metadata))

    def reasoning(self, delta: str) -> None:
        """A fragment of reasoning; "" opens nothing."""
        if not delta:
            return
        if self.reasoning_id is None and self.prose("reasoning") is None:
            return
        metadata = None if self._logprobs is None else self._logprobs.of_delta()
        self._reader.out.append(ReasoningDelta(delta, self.reasoning_id or "", metadata))

    def close_prose(self, *kinds: str) -> None:
        """Closes open blocks of these kinds; of both, where none is named."""
        for kind in kinds or ("reasoning", "text"):
            if self._prose[kind]:
                for index in list(self._prose[kind]):
                    self.close(index)

    def add_logprobs(self, found: object) -> None:
        """Log probabilities of the fragment that comes next."""
        if self._logprobs is None:
            self._logprobs = Logprobs(self._key)
        self._reader.hold(self._logprobs.add(self._reader.encodable(found)))

    # What has no block, or more than one.

    def result(
        self, wire_id: object, result: Any, *, name: str, is_error: bool, metadata: Metadata | None
    ) -> bool:
        """The result of a tool that the vendor ran; False where the call has one already.

        name: of the tool, where the call itself did not come
        """
        call_id = str(wire_id) if wire_id else self.fresh_id("result")
        if call_id in self._settled:
            self._reader.defect(f"the call {call_id!r} got a second result, which was left out")
            return False
        self._settled.add(call_id)
        self._reader.hold(sys.getsizeof(call_id) + _NAME_BYTES)
        name = self._tool_names.get(call_id) or name
        self._reader.out.append(
            ToolResult(result, call_id, name, is_error, provider_executed=True, provider_metadata=metadata)
        )
        return True

    def orphan(self, index: Hashable, message: str) -> None:
        """Something came for a block that is not open: a defect, reported once an index."""
        if index not in self._orphans:
            self._orphans.add(index)  # a few: a stream of too many defects ends
            self._reader.defect(message)

    # The end of the answer.

    def end(self, reason: FinishReason) -> bool:
        """Ends what is open; whether a call was cut, which is then no call."""
        cut = False
        for index, block in list(self.opened.items()):
            if block.kind == "tool" and reason in TRUNCATING:
                cut = True
                self._remove(index)
                self._reader.out.append(ToolInputEnd(block.id, incomplete=True))
            else:
                self.close(index)
        return cut

    def finish(self, reason: FinishReason, raw: str | None, metadata: Metadata | None = None) -> None:
        """Ends the answer, and what is still open in it.

        An answer with calls to run ends in "tool-calls": servers report "stop" for it, or nothing at all.

        raw: the vendor's own name of the reason
        """
        self.end(reason)
        if self.client_called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        if self._logprobs is not None:
            metadata = merge_metadata(metadata, self._logprobs.of_rest())
        reader = self._reader
        reader.complete = reader.done = True
        reader.out.append(Finish(reason, reader.usage, raw, metadata))


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
        self._of_block: list[Any] = []
        self.held = 0

    def add(self, found: object) -> int:
        """Those of the tokens that come next, in any of their forms; returns the bytes that they take."""
        entries = _entries(found)
        self._waiting.extend(entries)
        size = sum(map(held_size, entries))
        self.held += size
        return size

    def of_delta(self) -> Metadata | None:
        """The metadata of the delta that is emitted now."""
        found, self._waiting = self._waiting, []
        self._of_block.extend(found)
        return self._metadata(found)

    def of_block(self) -> Metadata | None:
        """The metadata of the end of the open block."""
        found, self._of_block = self._of_block, []
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
