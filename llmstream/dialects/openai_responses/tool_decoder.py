"""Calls of a response: functions, custom tools and the vendor's own, with inputs and results."""

from __future__ import annotations

import sys
from typing import Any, Final

from llmstream.dialects.held_size import held_size
from llmstream.dialects.json_text import is_json
from llmstream.dialects.openai_responses.open_item import OpenItem, Slot, extras_of
from llmstream.dialects.openai_responses.prose_decoder import ProseDecoder
from llmstream.dialects.openai_responses.sources import KEY, listed_sources
from llmstream.dialects.openai_responses.tool_items import (
    RESULT_ITEMS,
    as_text,
    call_id_of,
    is_hosted,
    is_whole,
    layout_of,
    may_wrap,
    quoted,
    tool_name_of,
    wrapped_calls,
)
from llmstream.dialects.surrogates import without_lone_surrogates
from llmstream.errors import LimitExceeded
from llmstream.events import (
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)

__all__ = ["INPUT", "ToolDecoder"]

_SLOT_BYTES: Final = 8
INPUT: Final[Slot] = ("input", 0)
"""Told of a call once the wire has said its whole input."""

_STREAMED: Final = frozenset({"function_call", "custom_tool_call"})
"""Items whose call goes back as plain fields; all others go back as the whole item."""


class ToolDecoder(ProseDecoder):
    """The part of the decoder that knows tools.

    client_called: whether the caller has calls to run
    """

    client_called = False
    _last_search: str | None = None

    def start_call(self, item: OpenItem) -> None:
        """The input of a call begins, once its name is known."""
        name = tool_name_of(item.wire)
        if item.call_id is not None or not name or may_wrap(item.wire):
            return
        self._start(item)

    def input(self, item: OpenItem, fragment: object, *, quote: bool = False) -> None:
        """A fragment of input; quote: it is the inside of a JSON string."""
        if item.ended:
            return
        text = as_text(fragment)
        if not item.parts:
            head = layout_of(item.wire).head
            if head:
                self._give(item, head)
        self._give(item, quoted(text) if quote else text)

    def whole_input(self, item: OpenItem, text: str) -> None:
        """The input as a whole: gives what the fragments left out."""
        given = without_lone_surrogates("".join(item.parts))
        if len(text) > len(given) and text.startswith(given):
            self._give(item, text[len(given) :])

    def end_input(self, item: OpenItem) -> None:
        """The input is whole and the call stands, though its item is still open: the vendor runs it."""
        if item.ended or item.call_id is None or not is_hosted(item.wire):
            return
        self._complete(item)
        self._call(item)

    def preliminary(self, item: OpenItem, result: dict[str, Any]) -> None:
        """A draft of what a call gives."""
        self.end_input(item)
        if item.call_id is not None:
            name = tool_name_of(item.wire)
            self.out.append(ToolResult(result, item.call_id, name, preliminary=True, provider_executed=True))

    def end_call(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """The item of a call is whole; a call that broke off stays open until the reason is known."""
        inner = wrapped_calls(wire)
        if inner is not None and item.call_id is None:
            self._unwrap(item, wire, inner)
            return
        if item.call_id is None:
            self._renew(item, wire)
            name = tool_name_of(item.wire)
            if not name:
                self.defect(f"the tool call {call_id_of(wire)!r} has no name. It was left out.")
                item.ended = True
                return
            self._start(item)
        if not item.ended:
            self._renew(item, wire)
            if wire.get("status") == "incomplete" and not is_hosted(item.wire):
                if item.kind in _STREAMED or not item.parts:
                    self.whole_input(item, layout_of(item.wire).text)
                item.done = False
                return
            self._complete(item)
            self._call(item)
        self._after_call(item, wire)

    def settle_call(self, item: OpenItem, *, cut: bool) -> bool:
        """The response ended before the item of a call did; whether that leaves the call broken.

        cut: a limit or a filter ended the response, so what is not whole was never meant to be
        """
        if item.call_id is None:
            return False
        text = "".join(item.parts) or layout_of(item.wire).text
        whole = INPUT in item.told or (item.kind != "custom_tool_call" and is_json(text or "{}"))
        if not cut and whole and item.wire.get("status") != "incomplete":
            self.whole_input(item, text)
            self._call(item)
            return False
        item.ended = True
        self.out.append(ToolInputEnd(item.call_id, incomplete=True))
        return True

    def result_item(self, wire: dict[str, Any]) -> None:
        """What a call of the vendor gave, in an item of its own."""
        kind = str(wire.get("type"))
        call_id = wire.get("call_id") or self._last_search
        if not call_id:
            self.defect(f"a {kind} does not say which call it belongs to")
            return
        self._result(str(call_id), RESULT_ITEMS[kind], wire)

    def input_start(self, item: OpenItem, call_id: str) -> ToolInputStart:
        """The event that opens the input of a call."""
        wire, hosted = item.wire, is_hosted(item.wire)
        said: dict[str, Any] = {"type": item.kind, **self.origin(item)}
        if hosted and item.kind == "custom_tool_call":
            said |= {"call_id": wire.get("call_id"), "name": wire.get("name")}
        name, dynamic = tool_name_of(wire), item.kind.startswith("mcp_")
        return ToolInputStart(name, call_id, hosted, dynamic, provider_metadata={KEY: said})

    def _renew(self, item: OpenItem, wire: dict[str, Any]) -> None:
        item.wire = _latest(item.wire, wire)
        if item.wire is wire:
            self.hold(held_size(wire))

    def _start(self, item: OpenItem) -> None:
        wire = item.wire
        self.close_texts()
        item.first_id = call_id_of(wire)
        item.call_id = self.fresh(item.first_id or f"call-{self._count}")
        self.out.append(self.input_start(item, item.call_id))
        held, item.parts = item.parts, []
        for fragment in held:
            self._give(item, fragment)
        if not is_hosted(wire):
            self.client_called = True
        elif item.kind == "tool_search_call":
            self._last_search = item.call_id

    def _complete(self, item: OpenItem) -> None:
        """Gives what is missing of the input; a shell's paths may change at the end (2026-02)."""
        layout = layout_of(item.wire)
        self.whole_input(item, layout.text)
        if layout.tail and not is_json("".join(item.parts) or "{}"):
            self._give(item, layout.tail)

    def _give(self, item: OpenItem, text: str) -> None:
        if not text:
            return
        item.size += len(text)
        if item.size > self.limits.max_tool_input_bytes:
            name, most = tool_name_of(item.wire), self.limits.max_tool_input_bytes
            self.fail(LimitExceeded(f"the input of the tool call {name!r} grew past {most} bytes"))
            return
        item.parts.append(text)
        self.hold(sys.getsizeof(text) + _SLOT_BYTES)
        if item.call_id is not None:
            self.out.append(ToolInputDelta(text, item.call_id))

    def _call(self, item: OpenItem) -> None:
        if item.call_id is None:
            return
        item.ended = True
        text = "".join(item.parts)
        custom = item.kind == "custom_tool_call"
        invalid = bool(text) and not custom and not is_json(text)
        self.out.append(ToolInputEnd(item.call_id))
        self.out.append(
            ToolCall(
                tool_name_of(item.wire),
                text or "{}",
                item.call_id,
                is_hosted(item.wire),
                item.kind.startswith("mcp_"),
                invalid,
                {KEY: self._kept(item, text)},
            )
        )

    def _kept(self, item: OpenItem, text: str) -> dict[str, Any]:
        """What the vendor wants back with the call."""
        said: dict[str, Any] = {"type": item.kind, **self.origin(item)}
        if item.kind in _STREAMED:
            said |= extras_of(item.wire)
            last_id = call_id_of(item.wire)
            if last_id and last_id != item.first_id:
                said["call_id"] = last_id  # what the item says last is what its output has to name
            if item.kind == "custom_tool_call" and not text:
                said["input"] = ""
        elif not is_whole(item.wire):
            said["item"] = item.wire
        return said

    def _after_call(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """Approval that a call waits for, or the result that stands in its own item."""
        if item.call_id is None:
            return
        if item.kind == "mcp_approval_request":
            self.out.append(ToolApprovalRequest(item.call_id, item.item_id or item.call_id))
        elif is_whole(item.wire):
            self._result(item.call_id, tool_name_of(item.wire), wire)
            for url in listed_sources(wire):
                self.listed(url)

    def _result(self, call_id: str, name: str, wire: dict[str, Any]) -> None:
        failed = wire.get("status") in ("failed", "incomplete") or bool(wire.get("error"))
        said = {KEY: {"type": wire.get("type"), "provider": self.provider}}
        self.out.append(
            ToolResult(wire, call_id, name, failed, provider_executed=True, provider_metadata=said)
        )

    def _unwrap(self, item: OpenItem, wire: dict[str, Any], calls: list[tuple[str, str]]) -> None:
        """The calls inside a wrapper, each under an id of its own that other vendors take too."""
        self.close_texts()
        self.client_called = True
        item.ended = True
        for place, (name, text) in enumerate(calls):
            call_id = self.fresh(f"{call_id_of(wire) or 'call'}_{place}")
            self.out.append(ToolInputStart(name, call_id))
            self.out.append(ToolInputDelta(text, call_id))
            self.out.append(ToolInputEnd(call_id))
            self.out.append(ToolCall(name, text, call_id))


def _latest(known: dict[str, Any], wire: dict[str, Any]) -> dict[str, Any]:
    """The item as it was said last; together with what was said first where that is less."""
    enough = tool_name_of(wire) and call_id_of(wire) and is_hosted(wire) == is_hosted(known)
    return wire if enough else {**known, **wire}
