"""The output items of one response while it streams, with the emitted part of each."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.openai_responses.wire import Place, WireEvent
from llmstream.errors import LimitExceeded
from llmstream.unique_ids import UniqueIds

__all__ = ["INPUT", "OpenItem", "OpenItems", "Slot"]

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
        """Returns the item of a place in the output, without one that of an id."""
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
