"""Writes calls and their results as output items: functions fragment by fragment, others whole."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.openai_responses.frames import Frames
from llmstream.dialects.openai_responses.sources import KEY
from llmstream.dialects.openai_responses.tool_items import is_whole
from llmstream.dialects.tool_fragments import CUSTOM_CALL, plain_input
from llmstream.events import Metadata, ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart, ToolResult

__all__ = ["CallEncoder", "told_of"]

_STREAMED: Final = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
    "mcp_call": ("arguments", "response.mcp_call_arguments"),
}
"""Items whose input streams as it is: its field, and the events that say it."""

_PREFIXES: Final = {"function_call": "fc_", "custom_tool_call": "ctc_", "mcp_call": "mcp_"}
_OURS: Final = frozenset({"type", "item_id", "provider", "item", "input"})


def told_of(metadata: Metadata | None) -> dict[str, Any]:
    """What this dialect said of an event."""
    return (metadata or {}).get(KEY, {})


class _Open:
    """A call that is being written."""

    __slots__ = ("item", "kind", "parts", "place", "settled")

    def __init__(self, kind: str, item: dict[str, Any], place: int) -> None:
        self.kind = kind
        self.item = item
        self.place = place
        self.parts: list[str] = []
        self.settled = False


class CallEncoder:
    """Calls of one response in, frames out.

    A call that the vendor ran and that did not come from this wire is written as one of MCP,
    the only kind whose name is free.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._open: dict[str, _Open] = {}

    def start(self, event: ToolInputStart | ToolCall, call_id: str) -> bytes:
        """The item opens."""
        told = told_of(event.provider_metadata)
        usual = "mcp_call" if event.provider_executed else "function_call"
        custom = plain_input("", event.provider_metadata) is not None
        kind = told.get("type") or (CUSTOM_CALL if custom else usual)
        item = _opened(kind, event, call_id, told)
        place, data = self._frames.add(item)
        self._open[call_id] = _Open(kind, item, place)
        return data

    def delta(self, event: ToolInputDelta) -> bytes:
        """A fragment, where the item's input streams as it is."""
        call = self._open.get(event.id)
        if call is None:
            return b""
        call.parts.append(event.delta)
        if call.kind not in _STREAMED:
            return b""
        where = {"item_id": call.item["id"], "output_index": call.place}
        return self._frames.event(f"{_STREAMED[call.kind][1]}.delta", **where, delta=event.delta)

    def end(self, event: ToolInputEnd) -> bytes:
        """The input is whole, or broke off: then the item says so."""
        call = self._open.get(event.id)
        if call is None or call.kind not in _STREAMED:
            return b""
        field, kind = _STREAMED[call.kind]
        text = "".join(call.parts)
        if event.incomplete:
            call.settled = True
            item = {**call.item, field: text, "status": "incomplete"}
            return self._frames.done(call.place, item)
        said = {field: text or ("" if field == "input" else "{}")}
        where = {"item_id": call.item["id"], "output_index": call.place}
        return self._frames.event(f"{kind}.done", **where, **said)

    def call(self, event: ToolCall) -> bytes:
        """The call is whole; that of the vendor's own stays open where its item holds the result."""
        data = b""
        if event.tool_call_id not in self._open:
            data = self.start(event, event.tool_call_id)
            data += self.delta(ToolInputDelta(event.input, event.tool_call_id))
            data += self.end(ToolInputEnd(event.tool_call_id))
        call = self._open[event.tool_call_id]
        told = told_of(event.provider_metadata)
        if isinstance(told.get("item"), dict):
            call.settled = True
            return data + self._frames.done(call.place, told["item"])
        if event.provider_executed:
            return data
        call.settled = True
        item = {**call.item, "status": "completed", **{k: v for k, v in told.items() if k not in _OURS}}
        plain = plain_input(event.input, event.provider_metadata)
        field = _STREAMED[call.kind][0] if call.kind in _STREAMED else "arguments"
        item[field] = event.input if plain is None else plain
        return data + self._frames.done(call.place, item)

    def result(self, event: ToolResult) -> bytes:
        """What the vendor's own call gave; a caller's results are the next request's."""
        if not event.provider_executed:
            return b""
        call = self._open.get(event.tool_call_id)
        if event.preliminary:
            return self._draft(call, event.result)
        kind = told_of(event.provider_metadata).get("type")
        item = event.result if kind is not None and isinstance(event.result, dict) else None
        if call is None or call.settled:
            return b"" if item is None else self._frames.whole(item, {**item, "status": "in_progress"})
        call.settled = True
        if item is not None and is_whole(item):
            return self._ran(call) + self._frames.done(call.place, item)
        words = event.result if isinstance(event.result, str) else msgspec.json.encode(event.result).decode()
        outcome = {"output": None, "error": words} if event.is_error else {"output": words, "error": None}
        status = "failed" if event.is_error else "completed"
        said = {"arguments": "".join(call.parts) or "{}", "status": status}
        return self._frames.done(call.place, {**call.item, **said, **outcome})

    def _ran(self, call: _Open) -> bytes:
        """What a call of the vendor's own says of itself while it runs."""
        where = {"item_id": call.item["id"], "output_index": call.place}
        if call.kind == "code_interpreter_call":
            try:
                code = msgspec.json.decode("".join(call.parts)).get("code")
            except (msgspec.MsgspecError, ValueError, AttributeError):
                return b""
            event = self._frames.event
            return (
                event("response.code_interpreter_call_code.delta", **where, delta=code)
                + event("response.code_interpreter_call_code.done", **where, code=code)
                + event("response.code_interpreter_call.interpreting", **where)
            )
        return b""

    def _draft(self, call: _Open | None, result: Any) -> bytes:
        if call is None or call.kind != "image_generation_call" or not isinstance(result, dict):
            return b""
        where = {"item_id": call.item["id"], "output_index": call.place}
        return self._frames.event("response.image_generation_call.partial_image", **where, **result)


def _opened(
    kind: str, event: ToolInputStart | ToolCall, call_id: str, told: dict[str, Any]
) -> dict[str, Any]:
    """The item as it is when it opens: who it is, and who runs it."""
    item_id = told.get("item_id")
    if item_id is None:
        item_id = call_id if event.provider_executed else f"{_PREFIXES.get(kind, 'item_')}{call_id}"
    item: dict[str, Any] = {"id": item_id, "type": kind, "status": "in_progress"}
    if kind in _STREAMED:
        item |= {_STREAMED[kind][0]: "", "name": told.get("name", event.tool_name)}
    if kind == "mcp_call":
        return item | {"server_label": "llmstream"}
    if kind == "mcp_approval_request":
        return item | {"arguments": "", "name": event.tool_name, "server_label": "llmstream"}
    if call_id != item_id or "call_id" in told:
        item["call_id"] = told.get("call_id", call_id)
    if kind == "shell_call":
        where = "container_reference" if event.provider_executed else "local"
        item |= {"action": {"commands": []}, "environment": {"type": where}}
    elif kind == "tool_search_call":
        item["execution"] = "server" if event.provider_executed else "client"
    return item
