"""One output item of a response, as far as it has come."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["OpenItem", "Slot", "extras_of"]

Slot: TypeAlias = tuple[str, Any]
"""A piece of an item: ("summary" | "content", its index)."""

_ORDINARY = frozenset(
    {"id", "type", "status", "role", "content", "summary", "encrypted_content"}
    | {"call_id", "name", "arguments", "input"}
)


class OpenItem:
    """An item and what was said of it.

    kind:     type of the item, such as "message"
    wire:     its latest form
    block:    id of the open text or reasoning, or None
    call_id:  id of the call whose input has started, or None
    first_id: the wire's id of that call when its input started
    slot:     the piece of reasoning that the open block is
    told:     pieces of which something was given
    parts:    fragments of a tool's input, as they were given
    done:     the wire has closed it
    ended:    the input of the call has ended (and the call was given)
    """

    __slots__ = (
        "annotations",
        "block",
        "call_id",
        "done",
        "ended",
        "first_id",
        "kind",
        "logprobs",
        "parts",
        "size",
        "slot",
        "told",
        "wire",
    )

    def __init__(self, wire: dict[str, Any]) -> None:
        self.kind = str(wire.get("type"))
        self.wire = wire
        self.block: str | None = None
        self.call_id: str | None = None
        self.first_id: str | None = None
        self.slot: Slot | None = None
        self.told: set[Slot] = set()
        self.parts: list[str] = []
        self.size = 0
        self.annotations: list[dict[str, Any]] = []
        self.logprobs: list[Any] = []
        self.done = False
        self.ended = False

    @property
    def item_id(self) -> str | None:
        """The item's own id, which is not the call's."""
        value = self.wire.get("id")
        return str(value) if isinstance(value, (str, int)) and value != "" else None


def extras_of(wire: dict[str, Any]) -> dict[str, Any]:
    """What an item says beyond the usual fields, and wants back: phase, namespace, caller, format."""
    return {k: v for k, v in wire.items() if k not in _ORDINARY and v is not None}
