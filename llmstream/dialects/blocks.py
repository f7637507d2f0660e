"""Blocks of one response, as events: opened, extended and closed, for every dialect.

A decoder has `Blocks` and maps its wire events to them. The rules that all dialects share are here:
ids, caps, which calls are complete, and how a response ends.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.json_text import is_json
from llmstream.dialects.payload_size import text_size, utf8_size
from llmstream.dialects.wire_values import Logprobs
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
    merge_metadata,
)
from llmstream.grammar import TRUNCATING
from llmstream.unique_ids import UniqueIds

__all__ = ["Block", "Blocks"]

# A place in a set of CPython, with its share of the spare ones.
_NAME_BYTES: Final = 64


class Block(msgspec.Struct, eq=False):
    """An open block. A decoder that needs more fields has a subclass.

    kind:     "text", "reasoning" or "tool"; any other is vendor-specific and has no events of its own
    id:       of its events
    name:     of the called tool
    wire_id:  the vendor's id of a call, which its result refers to
    provider_executed, dynamic: of a call, as in `ToolCall`
    metadata: of the start, and of the call
    invalid:  of a call, where its input may be JSON and is known to be wrong
    parts, counted, size, held: of a call's input, as in `GrowingInput`
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
    counted: int = 0
    size: int = 0
    held: int = 0

    @property
    def input(self) -> str:
        """Input of a call so far."""
        return "".join(self.parts)


B = TypeVar("B", bound=Block)


class Blocks(Generic[B]):
    """The blocks of the response that `reader` decodes; their events go to its `out`.

    key:     of the metadata made here
    make:    creates a block of a kind that its first fragment opens
    closing: called with each block that closes; returns the metadata of its end, and emits the events of
             a vendor-specific block

    opened:        open blocks by the wire's index, in the order of opening
    count:         number of blocks opened so far
    client_called: whether there are calls for the caller to run
    text_id, reasoning_id: id of the latest block of that kind, while it is open; for hot loops
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
        self._most_input = reader.limits.max_tool_input_bytes
        self._make = make
        self._key = key
        self._closing = closing
        # Open blocks in their order.
        self._texts: dict[Hashable, None] = {}
        self._reasonings: dict[Hashable, None] = {}
        self._held_back: dict[Hashable, None] = {}
        self._tool_names: dict[str, str] = {}
        # Dicts, since an empty set takes 216 bytes; each open stream has both, and in most they stay empty.
        self._settled: dict[str, None] = {}
        self._orphans: dict[Hashable, None] = {}
        self._next_number = 0
        self._sources = 0
        # Most responses have none.
        self._logprobs: Logprobs | None = None

    # Ids: unique within one response. A server that repeats an id costs no search.

    def fresh_id(self, wanted: object) -> str:
        """Returns an id that is unique in the response: the wanted one, else one derived from it."""
        return self.ids.fresh(str(wanted))

    def next_id(self) -> str:
        """Returns the next free number, for wires that do not number their blocks."""
        while True:
            number = str(self._next_number)
            self._next_number += 1
            if self.ids.take(number):
                return number

    def call_id(self, given: str | None, mint: Callable[[], str]) -> str:
        """Returns the vendor's id if it is unique, else a minted one."""
        while not given or not self.ids.take(given):
            given = mint()
        return given

    def source_id(self) -> str:
        """Returns the id of the next source."""
        while True:
            self._sources += 1
            name = f"source-{self._sources}"
            if self.ids.take(name):
                return name

    # Start, deltas and end of a block.

    def open(self, index: Hashable, block: B, *, held: int = 0) -> bool:
        """Opens a block, which already has its id; closes a block that is open at the index.

        held:    memory that it takes from the beginning, in bytes
        returns: False once the stream has ended, for example past the cap on blocks
        """
        if not self._admit():
            return False
        # A block without an end of its own: the next one at its index ends it.
        if index in self.opened:
            self.close(index)
        self.opened[index] = block
        if held:
            self.retain(block, held)
        out, kind = self._reader.out, block.kind
        if kind == "tool":
            if not block.name:
                self._reader.defect(f"the tool call {block.id!r} has no name")
            if block.wire_id:
                self._tool_names.setdefault(block.wire_id, block.name)
            out.append(
                ToolInputStart(
                    block.name, block.id, block.provider_executed, block.dynamic, None, block.metadata
                )
            )
        elif kind == "text":
            self._texts[index] = None
            self.text_id = block.id
            out.append(TextStart(block.id, block.metadata))
        elif kind == "reasoning":
            self._reasonings[index] = None
            self.reasoning_id = block.id
            out.append(ReasoningStart(block.id, block.metadata))
        return True

    def _admit(self) -> bool:
        """Whether another block or call is allowed. Calls that were held back are complete."""
        reader = self._reader
        # One event of the wire may hold more than one block.
        if reader.done:
            return False
        if self._held_back:
            self.release()
        self.count += 1
        limit = reader.limits.max_blocks
        if self.count > limit:
            reader.fail(LimitExceeded(f"the response has more than {limit} blocks and tool calls"))
            return False
        return True

    def delta(self, block: B, text: str, metadata: Metadata | None = None) -> None:
        """Adds a fragment of text or reasoning."""
        if self._logprobs is not None:
            metadata = merge_metadata(metadata, self._logprobs.of_delta())
        delta = TextDelta if block.kind == "text" else ReasoningDelta
        self._reader.out.append(delta(text, block.id, metadata))

    def input(self, block: B, fragment: str) -> None:
        """Adds a fragment of a call's input; past the cap on one input the stream ends."""
        if block.size + utf8_size(fragment) > self._most_input:
            self._refuse_input(block.name)
            return
        block.parts.append(fragment)
        self._reader.count(block)  # released when the block closes, see `_remove`
        self._reader.out.append(ToolInputDelta(fragment, block.id))

    def _refuse_input(self, name: str) -> None:
        limit = self._reader.limits.max_tool_input_bytes
        self._reader.fail(LimitExceeded(f"the input of the tool call {name!r} is longer than {limit} bytes"))

    def complete_call(
        self,
        name: str,
        call_id: str,
        text: str,
        metadata: Metadata | None = None,
        *,
        provider_executed: bool = False,
        is_known_json: bool = False,
    ) -> None:
        """Emits a call that comes in one piece and is never open; open text and reasoning close first.

        text:          the input, "" for none
        is_known_json: the text was encoded here, so it is not parsed again
        """
        # One function without a block: each step by itself took a sixth of what such a call takes.
        if self._texts or self._reasonings:
            self.close_prose()
        if not self._admit():
            return
        reader = self._reader
        out = reader.out
        if not name:
            reader.defect(f"the tool call {call_id!r} has no name")
        out.append(ToolInputStart(name, call_id, provider_executed, False, None, metadata))
        if utf8_size(text) > self._most_input:
            self._refuse_input(name)
            return
        if text:
            out.append(ToolInputDelta(text, call_id))
        # With too many defects.
        if reader.done:
            out.append(ToolInputEnd(call_id, True))
            return
        if not provider_executed:
            self.client_called = True
        out.append(ToolInputEnd(call_id))
        invalid = not name or not (is_known_json or is_json(text or "{}"))
        out.append(ToolCall(name, text or "{}", call_id, provider_executed, False, invalid, metadata))

    def retain(self, block: B, size: int) -> None:
        """Counts memory that a block takes until it closes."""
        block.held += size
        self._reader.hold(size)

    def close(self, index: Hashable, *, is_known_json: bool = False) -> None:
        """Closes an open block; its call, if it has one, is complete.

        is_known_json: the input of the call was parsed, and is not parsed again
        """
        block = self._remove(index)
        metadata = self._closing(block)
        if block.kind in ("text", "reasoning"):
            if self._logprobs is not None:
                self._reader.let_go(self._logprobs.held)
                metadata = merge_metadata(metadata, self._logprobs.of_block())
            end = TextEnd if block.kind == "text" else ReasoningEnd
            self._reader.out.append(end(block.id, provider_metadata=metadata))
        elif block.kind == "tool":
            self._call(block, is_known_json=is_known_json)

    def _remove(self, index: Hashable) -> B:
        block = self.opened.pop(index)
        self._reader.let_go(block.held)
        self._held_back.pop(index, None)
        if block.kind == "text":
            del self._texts[index]
        elif block.kind == "reasoning":
            del self._reasonings[index]
        else:
            return block
        if self.text_id == block.id:
            self.text_id = None
        if self.reasoning_id == block.id:
            self.reasoning_id = None
        return block

    def _call(self, block: B, *, is_known_json: bool = False) -> None:
        reader, call_id = self._reader, block.id
        out = reader.out
        # Past a cap the input may be incomplete.
        if reader.done:
            out.append(ToolInputEnd(call_id, True))
            return
        if not block.provider_executed:
            self.client_called = True
        # Several wires send no input for a tool without parameters; ours is always JSON.
        name, text = block.name, "".join(block.parts) or "{}"
        invalid = block.invalid or not name or not (is_known_json or is_json(text))
        out.append(ToolInputEnd(call_id))
        out.append(
            ToolCall(name, text, call_id, block.provider_executed, block.dynamic, invalid, block.metadata)
        )

    def hold_back(self, index: Hashable) -> None:
        """Holds back the end of a call, because the token limit may have cut its input.

        Only the next block or the finish reason shows whether it did.
        """
        self._held_back[index] = None

    def release(self) -> None:
        """Completes calls that were held back: the model continued after them."""
        if self._held_back:
            for index in list(self._held_back):
                self.close(index)

    # Wires without a start of text and reasoning: the first fragment opens a block, the other kind closes it.

    def prose(self, kind: str, index: Hashable = None) -> B | None:
        """Returns the block of text or reasoning at an index, opened if needed; None past the cap on blocks.

        index: None on wires without indexes: their blocks count from "0"
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
        """Closes open blocks of these kinds; of both if none is named."""
        if not self._texts and not self._reasonings:  # between calls
            return
        for kind in kinds or ("reasoning", "text"):
            for index in list(self._texts if kind == "text" else self._reasonings):
                self.close(index)

    def add_logprobs(self, found: object) -> None:
        """Log probabilities of the next fragment."""
        if self._logprobs is None:
            self._logprobs = Logprobs(self._key)
        self._reader.hold(self._logprobs.add(self._reader.encodable(found)))

    # Results of tools, and fragments without a block.

    def result(
        self, wire_id: object, result: Any, *, name: str, is_error: bool, metadata: Metadata | None
    ) -> bool:
        """Emits the result of a tool that the vendor ran; False if the call already has one.

        name: of the tool, if the call itself was not sent
        """
        call_id = str(wire_id) if wire_id else self.fresh_id("result")
        if call_id in self._settled:
            self._reader.defect(f"the tool call {call_id!r} has a second result, which was ignored")
            return False
        self._settled[call_id] = None
        self._reader.hold(text_size(call_id) + _NAME_BYTES)
        name = self._tool_names.get(call_id) or name
        self._reader.out.append(
            ToolResult(result, call_id, name, is_error, provider_executed=True, provider_metadata=metadata)
        )
        return True

    def orphan(self, index: Hashable, message: str) -> None:
        """Reports, once per index, a fragment for a block that is not open."""
        if index not in self._orphans:
            # Never many: a stream with too many defects ends.
            self._orphans[index] = None
            self._reader.defect(message)

    # End of the response.

    def end(self, reason: FinishReason) -> bool:
        """Closes what is open. Returns whether a call was cut off, which is then dropped."""
        cut = False
        for index, block in list(self.opened.items()):
            # Even if its JSON happens to parse: a call runs only if the vendor reported its end.
            if block.kind == "tool" and reason in TRUNCATING:
                cut = True
                self._remove(index)
                self._reader.out.append(ToolInputEnd(block.id, incomplete=True))
            else:
                self.close(index)
        return cut

    def finish(self, reason: FinishReason, raw: str | None, metadata: Metadata | None = None) -> None:
        """Ends the response, and the blocks still open in it.

        A response with calls to run ends in "tool-calls", although servers report "stop" or no reason.

        raw: the vendor's own name of the reason
        """
        self.end(reason)
        # vLLM, LiteLLM and Ollama end calls in "stop", and so does OpenAI with a forced tool
        # (BerriAI/litellm#35663, ollama/ollama#7963).
        if self.client_called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        if self._logprobs is not None:
            metadata = merge_metadata(metadata, self._logprobs.of_rest())
        reader = self._reader
        reader.complete = reader.done = True
        reader.out.append(Finish(reason, reader.usage, raw, metadata))
