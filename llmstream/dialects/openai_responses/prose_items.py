"""The output items of a response while it streams; messages and reasoning become blocks.

An item knows what of it has been emitted. Blocks are text, refusals and summaries, with the sources of a
text. Calls are in `call_items.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.openai_responses.wire import (
    KEY,
    LISTED,
    Place,
    PlainEvent,
    WireEvent,
    extras_of,
    source_of,
)
from llmstream.dialects.payload_size import held_size
from llmstream.dialects.wire_values import objects_in
from llmstream.errors import LimitExceeded
from llmstream.events import (
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.unique_ids import UniqueIds

__all__ = [
    "INPUT",
    "MESSAGE_EVENTS",
    "REASONING_EVENTS",
    "Messages",
    "OpenItem",
    "OpenItems",
    "ReasoningItems",
    "Slot",
    "Sources",
]


# Items, with the emitted part of each.

# A piece of an item: ("summary" | "content" | "command", its index).
Slot: TypeAlias = tuple[str, Any]

# Added to `given` of a call after the wire has sent its complete input.
INPUT: Final[Slot] = ("input", 0)

# Memory of a tuple and its index in a CPython set.
_SLOT_BYTES: Final = 200


class OpenItem(msgspec.Struct, eq=False):
    """An item, and its emitted part.

    kind:     type of the item, such as "message"
    wire:     its latest form
    block:    id of the open text or reasoning, or None
    call_id:  id of the call whose input has started, or None
    first_id: the wire's id of that call when its input started
    name, wire_id, hosted: of a call, as `call_facts` reads them from `wire`
    slot:     the piece of reasoning that the open block is
    given:    pieces of which something was emitted
    parts, counted, size, held: fragments of a tool's input, as in `GrowingInput`
    compared: the complete input with which they were last compared
    done:     the wire has closed it
    ended:    the input of the call has ended (and the call was emitted)
    """

    kind: str
    wire: dict[str, Any]
    block: str | None = None
    call_id: str | None = None
    first_id: str | None = None
    name: str = ""
    wire_id: str | None = None
    hosted: bool = False
    slot: Slot | None = None
    given: set[Slot] = msgspec.field(default_factory=set)
    parts: list[str] = msgspec.field(default_factory=list)
    counted: int = 0
    size: int = 0
    held: int = 0
    compared: str | None = None
    annotations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    logprobs: list[Any] = msgspec.field(default_factory=list)
    done: bool = False
    ended: bool = False

    @property
    def item_id(self) -> str | None:
        """The item's own id, which is not the call's."""
        value = self.wire.get("id")
        return str(value) if isinstance(value, (str, int)) and value != "" else None


class OpenItems:
    """The items of one response, with ids for what they become.

    reader:   decodes the response
    by_place: the items, also those that are done: more may come of them. Copilot gives an item a new id
              in every event, so the place in the output comes first
    count:    number of items so far
    """

    def __init__(self, reader: PayloadDecoder[Any]) -> None:
        self.by_place: dict[Any, OpenItem] = {}
        self.count = 0
        self._reader = reader
        self._by_id: dict[Any, OpenItem] = {}
        self._ids = UniqueIds(hold=reader.hold)

    def find(self, wire: WireEvent) -> OpenItem | None:
        """Returns the item that an event names: by its place, else by its id."""
        return self.at(wire.output_index, wire.item_id)

    def at(self, place: Place, item_id: Place) -> OpenItem | None:
        """Returns the item at a place in the output; without a place, the item with the id."""
        if isinstance(place, int):
            return self.by_place.get(place)
        return self._by_id.get(item_id) if isinstance(item_id, str) else None

    def enter(self, place: Place, item: dict[str, Any], item_id: Place = None) -> OpenItem:
        """Adds an item; an earlier one at its place has to be closed before."""
        opened = OpenItem(str(item.get("type")), item)
        self.by_place[place if isinstance(place, int) else ("unplaced", self.count)] = opened
        own_id = item.get("id")
        if isinstance(own_id, str):
            self._by_id[own_id] = opened
        if isinstance(item_id, str):
            self._by_id[item_id] = opened
        self.count += 1
        self._reader.hold(self._reader.held_of(item))
        limit = self._reader.limits.max_blocks
        if self.count > limit:
            self._reader.fail(LimitExceeded(f"the response has more than {limit} items"))
        return opened

    def fresh_id(self, wanted: str) -> str:
        """Returns an id that no block or call of the response has."""
        return self._ids.fresh(wanted)

    def origin(self, item: OpenItem) -> dict[str, Any]:
        """Returns the provider and the id of an item, which goes back to no other provider."""
        origin: dict[str, Any] = {"provider": self._reader.provider}
        if (item_id := item.item_id) is not None:
            origin["item_id"] = item_id
        return origin

    def note(self, item: OpenItem, slot: Slot) -> None:
        """Marks a piece as emitted."""
        if slot not in item.given:
            item.given.add(slot)
            self._reader.hold(_SLOT_BYTES)


# Messages and reasoning.

# Memory of a place in a CPython set.
_NAME_BYTES: Final = 64

# Events with the complete text of which the fragments came before.
_REPEATING: Final = frozenset({"response.output_text.done", "response.content_part.done"})


class Sources:
    """Sources of a response, from annotations and from searches."""

    def __init__(self, reader: PayloadDecoder[Any]) -> None:
        self._reader = reader
        self._count = 0
        self._listed: set[str] = set()
        self._pages: set[Any] = set()

    def cited(self, annotation: dict[str, Any]) -> None:
        """Emits a page or document that a text cites, unless a search has emitted it."""
        url = annotation.get("url")
        if not isinstance(url, str) or url not in self._pages:
            self._emit(annotation)

    def found(self, annotation: dict[str, Any]) -> None:
        """Emits a page that a search found, once; the text may cite it later."""
        if annotation["url"] not in self._pages:
            self._pages.add(annotation["url"])
            self._reader.hold(held_size(annotation["url"]) + _NAME_BYTES)
            self._emit(annotation)

    def listed(self, url: str) -> None:
        """Emits a page that a web search lists, once; a citation of it is another source."""
        if url not in self._listed:
            self._listed.add(url)
            self._count += 1
            metadata = {KEY: {"type": LISTED}}
            self._reader.out.append(Source("url", f"source-{self._count}", url, provider_metadata=metadata))

    def _emit(self, annotation: dict[str, Any]) -> None:
        source = source_of(annotation, f"source-{self._count + 1}")
        if source is not None:
            self._count += 1
            self._reader.out.append(source)


class Messages:
    """The messages of a response: each is one text block.

    refused: whether the model refused
    """

    def __init__(self, reader: PayloadDecoder[Any], items: OpenItems, sources: Sources) -> None:
        self.refused = False
        self._reader = reader
        self._items = items
        self._sources = sources
        self._open: dict[OpenItem, None] = {}

    def text(
        self,
        item: OpenItem,
        delta: object,
        slot: Slot,
        *,
        refusal: bool = False,
        logprobs: list[Any] | None = None,
    ) -> None:
        """Adds a fragment of text; its log probabilities are repeated at the end of the block."""
        if item.block is None:
            self._start(item, refusal=refusal)
        if isinstance(delta, str) and delta and item.block is not None:
            self._items.note(item, slot)
            if logprobs:
                self._gather_logprobs(item, logprobs)
            metadata = {KEY: {"logprobs": logprobs}} if logprobs else None
            self._reader.out.append(TextDelta(delta, item.block, metadata))

    def start_event(self, item: OpenItem, block_id: str, *, refusal: bool = False) -> TextStart:
        """Returns the event that opens the text of a message."""
        metadata = {**self._items.origin(item), **extras_of(item.wire)}
        if refusal:
            metadata["refusal"] = True
        return TextStart(block_id, {KEY: metadata})

    def cite(self, item: OpenItem, annotation: dict[str, Any]) -> None:
        """Stores an annotation, and emits its source."""
        item.annotations.append(annotation)
        self._reader.hold(held_size(annotation))
        self._sources.cited(annotation)

    def end(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """Handles a complete item: emits what its deltas omitted, and closes the text."""
        content = objects_in(wire.get("content"))
        cited = bool(item.annotations)
        for place, part in enumerate(content):
            refusal = part.get("type") == "refusal"
            # Bedrock counts the parts of a message from 1 while it streams, so their number decides as well.
            if ("content", place) not in item.given and len(item.given) < len(content):
                text = part.get("refusal" if refusal else "text")
                self.text(item, text, ("content", place), refusal=refusal)
            # Annotations arrived one by one before; the complete item repeats them.
            if not cited and (annotations := part.get("annotations")):
                for annotation in objects_in(annotations):
                    self.cite(item, annotation)
        logprobs = [one for part in content if part.get("logprobs") for one in objects_in(part["logprobs"])]
        # Some servers send log probabilities only here.
        if len(logprobs) > len(item.logprobs):
            item.logprobs = logprobs
        if item.block is None and not item.given:
            self._start(item)
        if item.block is not None:
            self.close(item, content)

    def on_plain(self, item: OpenItem, event: PlainEvent) -> bool:
        """Handles an event that only begins the text of a message, or repeats it; False for any other.

        Each of them takes 15,000 to 25,000 instructions to decode and handle as the events that they may be.
        """
        part, given = event.part, ("content", event.content_index) in item.given
        if item.done or event.logprobs or (part is not None and part.logprobs):
            return False
        if event.type == "response.content_part.added" and part is not None and part.type == "output_text":
            if item.block is None:
                self._start(item)
            return True
        return given and event.type in _REPEATING

    def close(self, item: OpenItem, content: list[dict[str, Any]] = []) -> None:
        """Closes the text of a message, with annotations and log probabilities as metadata."""
        if item.block is None:
            return
        metadata: dict[str, Any] = {}
        if item.annotations:
            metadata["annotations"] = item.annotations
        if item.logprobs:
            metadata["logprobs"] = item.logprobs
        # One block holds the text of all parts; the parts are needed to send the message back as it was.
        if len(content) > 1:
            metadata["content"] = content
        self._reader.out.append(TextEnd(item.block, provider_metadata={KEY: metadata} if metadata else None))
        item.block = None
        del self._open[item]

    def close_all(self) -> None:
        """Closes all open text: the input of a tool must not begin inside a block."""
        for item in list(self._open):
            self.close(item)

    def _start(self, item: OpenItem, *, refusal: bool = False) -> None:
        """Opens the text, once it is known whether it is a refusal."""
        self.refused = self.refused or refusal
        item.block = self._items.fresh_id(item.item_id or f"text-{self._items.count}")
        self._open[item] = None
        self._reader.out.append(self.start_event(item, item.block, refusal=refusal))

    def _gather_logprobs(self, item: OpenItem, logprobs: list[Any]) -> None:
        item.logprobs.extend(logprobs)
        self._reader.hold(sum(map(held_size, logprobs)))

    # Events of the wire.

    def _item_of(self, wire: WireEvent) -> OpenItem:
        """Returns the message that an event names; creates it if a resumed stream begins inside it."""
        item = self._items.find(wire)
        if item is None:
            item = self._items.enter(wire.output_index, {"type": "message", "id": wire.item_id})
        return item

    def _on_delta(self, wire: WireEvent) -> None:
        """Handles a fragment of text that the fast path does not."""
        item = self._item_of(wire)
        if item.done or item.kind != "message":
            return
        self.text(item, wire.delta, ("content", wire.content_index or 0), logprobs=wire.logprobs)

    def _on_text_done(self, wire: WireEvent) -> None:
        item, slot = self._item_of(wire), ("content", wire.content_index or 0)
        if item.kind == "message" and not item.done:
            self._complete(item, slot, wire.text, wire.logprobs)

    def _complete(self, item: OpenItem, slot: Slot, text: object, logprobs: list[Any] | None) -> None:
        """Emits a complete piece of text if it had no fragments, else only stores its log probabilities."""
        if slot not in item.given:
            self.text(item, text, slot, logprobs=logprobs)
        elif not item.logprobs:
            self._gather_logprobs(item, logprobs or [])

    def _on_refusal(self, wire: WireEvent) -> None:
        item, slot = self._item_of(wire), ("content", wire.content_index or 0)
        self.refused = True
        if item.kind == "message" and not item.done and (wire.refusal is None or slot not in item.given):
            self.text(item, wire.refusal if wire.delta is None else wire.delta, slot, refusal=True)

    def _on_part(self, wire: WireEvent) -> None:
        item = self._items.find(wire)
        kind = wire.part.get("type") if wire.part else None
        if item is None or item.done:
            return
        if item.kind == "message" and item.block is None and kind in ("output_text", "refusal"):
            self._start(item, refusal=kind == "refusal")

    def _on_part_done(self, wire: WireEvent) -> None:
        """Handles a complete piece, which repeats its fragments if the server sends any."""
        item, part = self._items.find(wire), wire.part or {}
        slot: Slot = ("content", wire.content_index or 0)
        if item is None or item.done or item.kind != "message" or not isinstance(wire.content_index, int):
            return
        if part.get("type") == "output_text":
            logprobs = part.get("logprobs")
            self._complete(item, slot, part.get("text"), logprobs if isinstance(logprobs, list) else None)
        elif part.get("type") == "refusal" and slot not in item.given:
            self.text(item, part.get("refusal"), slot, refusal=True)

    def _on_annotation(self, wire: WireEvent) -> None:
        if wire.annotation is not None:
            self.cite(self._item_of(wire), wire.annotation)


class ReasoningItems:
    """The reasoning of a response: each summary of an item is a block."""

    def __init__(self, reader: PayloadDecoder[Any], items: OpenItems) -> None:
        self._reader = reader
        self._items = items

    def delta(self, item: OpenItem, slot: Slot, delta: object = "") -> None:
        """Adds a fragment of reasoning. Reasoning that is not a summary is marked, to go back as such."""
        if item.slot != slot:
            if item.slot is not None and item.slot in item.given:
                self.close(item)
            item.slot = slot
        if item.block is None:
            self._start(item)
        if isinstance(delta, str) and delta and item.block is not None:
            bare = slot[0] == "content" and slot not in item.given
            self._items.note(item, slot)
            metadata = {KEY: {"part": "reasoning_text"}} if bare else None
            self._reader.out.append(ReasoningDelta(delta, item.block, metadata))

    def start_event(self, item: OpenItem, block_id: str) -> ReasoningStart:
        """Returns the event that opens a block of an item."""
        return ReasoningStart(block_id, {KEY: self._items.origin(item)})

    def end(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """Handles a complete item; the latest encrypted form is sent back."""
        for name in ("summary", "content"):
            for place, piece in enumerate(objects_in(wire.get(name))):
                slot = (name, place if name == "summary" else 0)
                if slot not in item.given:
                    self.delta(item, slot, piece.get("text"))
        if item.block is None:
            self._start(item)
        metadata: dict[str, Any] = {}
        encrypted = wire.get("encrypted_content") or item.wire.get("encrypted_content")
        if encrypted:
            metadata["encrypted_content"] = encrypted
        self.close(item, metadata | extras_of(wire))

    def close(self, item: OpenItem, metadata: dict[str, Any] | None = None) -> None:
        """Closes the open block."""
        if item.block is not None:
            end = ReasoningEnd(item.block, provider_metadata={KEY: metadata} if metadata else None)
            self._reader.out.append(end)
            item.block = None

    def _start(self, item: OpenItem) -> None:
        place = item.slot[1] if item.slot is not None else 0
        item.block = self._items.fresh_id(f"{item.item_id or 'reasoning'}:{place}")
        self._reader.out.append(self.start_event(item, item.block))

    # Events of the wire.

    def _on_reasoning(self, wire: WireEvent) -> None:
        """Handles a fragment: summaries are blocks by their index, all other reasoning is one block."""
        item = self._items.find(wire)
        if item is None:
            item = self._items.enter(wire.output_index, {"type": "reasoning", "id": wire.item_id})
        if item.kind != "reasoning" or item.done:
            return
        bare = str(wire.type).startswith("response.reasoning_text")
        slot = ("content", 0) if bare else ("summary", wire.summary_index or 0)
        if wire.delta is not None:
            self.delta(item, slot, wire.delta)
        elif wire.text is not None and slot not in item.given:
            self.delta(item, slot, wire.text)
        elif wire.part is not None and slot not in item.given:
            self.delta(item, slot, wire.part.get("text") if str(wire.type).endswith(".done") else "")

    def _on_thought(self, wire: WireEvent) -> None:
        """Emits a complete thought that belongs to no item (Perplexity)."""
        thought = wire.thought
        if isinstance(thought, str) and thought:
            block = self._items.fresh_id(f"thought-{self._items.count}")
            start = ReasoningStart(block, {KEY: {"provider": self._reader.provider}})
            self._reader.out += [start, ReasoningDelta(thought, block), ReasoningEnd(block)]


_M = Messages
MESSAGE_EVENTS: Final[dict[str, Callable[[Messages, WireEvent], None]]] = {
    "response.output_text.delta": _M._on_delta,
    "response.content_part.added": _M._on_part,
    "response.content_part.done": _M._on_part_done,
    "response.output_text.done": _M._on_text_done,
    "response.output_text.annotation.added": _M._on_annotation,
    "response.refusal.delta": _M._on_refusal,
    "response.refusal.done": _M._on_refusal,
}

_R = ReasoningItems
REASONING_EVENTS: Final[dict[str, Callable[[ReasoningItems, WireEvent], None]]] = {
    "response.reasoning_summary_part.added": _R._on_reasoning,
    "response.reasoning_summary_part.done": _R._on_reasoning,
    "response.reasoning_summary_text.delta": _R._on_reasoning,
    "response.reasoning_summary_text.done": _R._on_reasoning,
    "response.reasoning_text.delta": _R._on_reasoning,
    "response.reasoning_text.done": _R._on_reasoning,
    "response.reasoning.started": _R._on_thought,
    "response.reasoning.search_queries": _R._on_thought,
    "response.reasoning.search_results": _R._on_thought,
    "response.reasoning.fetch_url_queries": _R._on_thought,
    "response.reasoning.fetch_url_results": _R._on_thought,
    "response.reasoning.stopped": _R._on_thought,
}
