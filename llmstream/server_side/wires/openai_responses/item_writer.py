"""Writes output items, and the numbered frames that they are in.

Calls of functions are written fragment by fragment, others and results at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from llmstream.dialects.openai_responses.items import has_result
from llmstream.dialects.openai_responses.wire import KEY, LISTED, annotation_of
from llmstream.dialects.tool_calls import CUSTOM_CALL, plain_input
from llmstream.dialects.wire_values import logprobs_of
from llmstream.events import (
    Event,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.server_side.wires.event_writer import sse_event

__all__ = ["CallEncoder", "Frames", "ProseEncoder", "own_metadata"]


class Frames:
    """Numbers the frames and the output items of one response.

    background: the response is generated in the background and stored
    repeated:   fields of the request that the response object repeats

    output: complete items by their index
    """

    def __init__(
        self, model: str, *, background: bool = False, repeated: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.output: dict[int, dict[str, Any]] = {}
        self._background = background
        self._repeated = repeated
        self._number = 0
        self._next_index = 0
        self._begun = False
        self._names: dict[str, Any] = {"id": "resp_llmstream", "created_at": 0, "model": model}

    def event(self, kind: str, **fields: Any) -> bytes:
        """Encodes one event."""
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return sse_event(kind, data)

    def begin(self, names: ResponseMetadata | None = None) -> bytes:
        """Writes the first two events; b"" on later calls."""
        if self._begun:
            return b""
        self._begun = True
        if names is not None:
            self._names |= {"id": names.id, "model": names.model_id}
            if names.timestamp is not None:
                self._names["created_at"] = int(names.timestamp.timestamp())
        response = self._response("in_progress")
        return self.event("response.created", response=response) + self.event(
            "response.in_progress", response=response
        )

    def add(self, item: dict[str, Any]) -> tuple[int, bytes]:
        """Opens an item; returns its index and the event."""
        index = self._next_index
        self._next_index += 1
        begin = self.begin()
        return index, begin + self.event("response.output_item.added", output_index=index, item=item)

    def done(self, index: int, item: dict[str, Any]) -> bytes:
        """Completes an item."""
        self.output[index] = item
        return self.event("response.output_item.done", output_index=index, item=item)

    def in_one_piece(self, item: dict[str, Any], opened: dict[str, Any]) -> bytes:
        """Opens and completes an item."""
        index, data = self.add(opened)
        return data + self.done(index, item)

    def end(self, status: str, **fields: Any) -> bytes:
        """Writes the last event, with the complete response."""
        response = self._response(status) | {"output": [self.output[i] for i in sorted(self.output)]}
        # There is no event of that name, except for responses in the background.
        kind = "completed" if status == "cancelled" else status
        return self.begin() + self.event(f"response.{kind}", response=response | fields)

    def item_id(self, prefix: str, block_id: str) -> str:
        """Returns the id of the item for a block."""
        # The vendor's ids begin with their kind, such as `msg_`.
        if not block_id[:1].isdigit():
            return block_id
        # Ids of blocks count from 0 in every response. Those of items are unique in a conversation: the tool
        # runner of openai-node 7.57 rejects one that is repeated.
        return f"{prefix}_{str(self._names['id']).removeprefix('resp_')}_{block_id}"

    def _response(self, status: str) -> dict[str, Any]:
        plain = self._plain_response(status)
        # Defaults of these two objects stay beside the fields that the request has set.
        inside = {
            name: {**plain[name], **self._repeated[name]}
            for name in ("reasoning", "text")
            if name in self._repeated
        }
        return {**plain, **self._repeated, **inside}

    def _plain_response(self, status: str) -> dict[str, Any]:
        return {
            "id": self._names["id"],
            "object": "response",
            "created_at": self._names["created_at"],
            "status": status,
            "background": self._background,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": self._names["model"],
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            # Only responses in the background can be read again here.
            "store": self._background,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
            "user": None,
            "metadata": {},
        }


# Items whose input is streamed unchanged: its field, and its events.
_STREAMED: Final = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
    "mcp_call": ("arguments", "response.mcp_call_arguments"),
}

_PREFIXES: Final = {"function_call": "fc_", "custom_tool_call": "ctc_", "mcp_call": "mcp_"}
_OURS: Final = frozenset({"type", "item_id", "provider", "item", "input"})


def own_metadata(metadata: Metadata | None) -> dict[str, Any]:
    """Returns this dialect's metadata of an event."""
    return (metadata or {}).get(KEY, {})


class _Open:
    """An open call."""

    __slots__ = ("item", "kind", "parts", "place", "settled")

    def __init__(self, kind: str, item: dict[str, Any], place: int) -> None:
        self.kind = kind
        self.item = item
        self.place = place
        self.parts: list[str] = []
        self.settled = False


class CallEncoder:
    """Writes the calls of one response as frames.

    A call that another vendor ran is written as a call of MCP, the only kind with a free name.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._open: dict[str, _Open] = {}

    def start(self, event: ToolInputStart | ToolCall, call_id: str) -> bytes:
        """Opens the item."""
        own = own_metadata(event.provider_metadata)
        usual = "mcp_call" if event.provider_executed else "function_call"
        custom = plain_input("", event.provider_metadata) is not None
        kind = own.get("type") or (CUSTOM_CALL if custom else usual)
        item = _opened(kind, event, call_id, own)
        place, data = self._frames.add(item)
        self._open[call_id] = _Open(kind, item, place)
        return data

    def delta(self, event: ToolInputDelta) -> bytes:
        """Writes a fragment, if the input of the item is streamed unchanged."""
        call = self._open.get(event.id)
        if call is None:
            return b""
        call.parts.append(event.delta)
        if call.kind not in _STREAMED:
            return b""
        where = {"item_id": call.item["id"], "output_index": call.place}
        return self._frames.event(f"{_STREAMED[call.kind][1]}.delta", **where, delta=event.delta)

    def end(self, event: ToolInputEnd) -> bytes:
        """Ends the input; an interrupted one is marked in its item."""
        call = self._open.get(event.id)
        if call is None or call.kind not in _STREAMED:
            return b""
        field, kind = _STREAMED[call.kind]
        text = "".join(call.parts)
        if event.incomplete:
            call.settled = True
            item = {**call.item, field: text, "status": "incomplete"}
            return self._frames.done(call.place, item)
        fields = {field: text or ("" if field == "input" else "{}")}
        where = {"item_id": call.item["id"], "output_index": call.place}
        return self._frames.event(f"{kind}.done", **where, **fields)

    def call(self, event: ToolCall) -> bytes:
        """Completes the call. The item of a vendor's own call stays open if it also has the result."""
        data = b""
        if event.tool_call_id not in self._open:
            data = self.start(event, event.tool_call_id)
            data += self.delta(ToolInputDelta(event.input, event.tool_call_id))
            data += self.end(ToolInputEnd(event.tool_call_id))
        call = self._open[event.tool_call_id]
        own = own_metadata(event.provider_metadata)
        if isinstance(own.get("item"), dict):
            call.settled = True
            return data + self._frames.done(call.place, own["item"])
        if event.provider_executed:
            return data
        call.settled = True
        item = {**call.item, "status": "completed", **{k: v for k, v in own.items() if k not in _OURS}}
        plain = plain_input(event.input, event.provider_metadata)
        field = _STREAMED[call.kind][0] if call.kind in _STREAMED else "arguments"
        item[field] = event.input if plain is None else plain
        return data + self._frames.done(call.place, item)

    def result(self, event: ToolResult) -> bytes:
        """Writes the result of the vendor's own call; the caller's results are part of the next request."""
        if not event.provider_executed:
            return b""
        call = self._open.get(event.tool_call_id)
        if event.preliminary:
            return self._draft(call, event.result)
        kind = own_metadata(event.provider_metadata).get("type")
        item = event.result if kind is not None and isinstance(event.result, dict) else None
        # A result whose call is complete is an item of its own.
        if call is None or call.settled:
            return b"" if item is None else self._frames.in_one_piece(item, {**item, "status": "in_progress"})
        call.settled = True
        if item is not None and has_result(item):
            return self._ran(call) + self._frames.done(call.place, item)
        text = event.result if isinstance(event.result, str) else msgspec.json.encode(event.result).decode()
        outcome = {"output": None, "error": text} if event.is_error else {"output": text, "error": None}
        status = "failed" if event.is_error else "completed"
        fields = {"arguments": "".join(call.parts) or "{}", "status": status}
        return self._frames.done(call.place, {**call.item, **fields, **outcome})

    def _ran(self, call: _Open) -> bytes:
        """Returns the events of the code that the vendor's interpreter runs; b"" for other tools."""
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


def _opened(kind: str, event: ToolInputStart | ToolCall, call_id: str, own: dict[str, Any]) -> dict[str, Any]:
    """Returns the item as it opens: its ids, its name, and who runs it."""
    item_id = own.get("item_id")
    if item_id is None:
        item_id = call_id if event.provider_executed else f"{_PREFIXES.get(kind, 'item_')}{call_id}"
    item: dict[str, Any] = {"id": item_id, "type": kind, "status": "in_progress"}
    if kind in _STREAMED:
        item |= {_STREAMED[kind][0]: "", "name": own.get("name", event.tool_name)}
    if kind == "mcp_call":
        return item | {"server_label": "llmstream"}
    if kind == "mcp_approval_request":
        return item | {"arguments": "", "name": event.tool_name, "server_label": "llmstream"}
    if call_id != item_id or "call_id" in own:
        # Calls of the vendor's own tools have one id, other calls two.
        item["call_id"] = own.get("call_id", call_id)
    if kind == "shell_call":
        where = "container_reference" if event.provider_executed else "local"
        item |= {"action": {"commands": []}, "environment": {"type": where}}
    elif kind == "tool_search_call":
        item["execution"] = "server" if event.provider_executed else "client"
    return item


# Writes messages and reasoning as output items, fragment by fragment.

# The decoder's ids of summaries are that of their item and a number.
_PLACE: Final = re.compile(r":\d+$")
_TEXT_OURS: Final = frozenset({"provider", "item_id", "refusal", "annotations", "logprobs", "content"})
_REASONING_OURS: Final = frozenset({"provider", "item_id", "part"})


class _Prose:
    """An open message or reasoning item; pieces are its summaries or contents."""

    def __init__(self, item: dict[str, Any], place: int) -> None:
        self.item = item
        self.place = place
        self.fragments: list[str] = []
        self.annotations: list[dict[str, Any]] = []
        self.refusal = False
        self.piece = 0
        self.bare = False
        self.began = False
        self.ended = False

    @property
    def where(self) -> dict[str, Any]:
        return {"item_id": self.item["id"], "output_index": self.place}


class ProseEncoder:
    """Writes the text and reasoning blocks of one response as frames.

    A reasoning item may have another summary, so it ends only with the next event: call `settle` before
    anything else is written.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._texts: dict[str, _Prose] = {}
        self._reasoning: dict[str, _Prose] = {}
        self._last: _Prose | None = None
        self._sources: list[Source] = []

    def settle(self, event: Event) -> bytes:
        """Ends a reasoning item that this event does not continue."""
        last = self._last
        if last is None or not last.ended or self._continues(event, last):
            return b""
        return self._reasoning_done(last)

    def source(self, event: Source) -> bytes:
        """Writes a source into the open text, or buffers it for the next; a search has its own."""
        if own_metadata(event.provider_metadata).get("type") == LISTED:
            return b""
        self._sources.append(event)
        return self._cite(next(reversed(self._texts.values()), None))

    # Messages.

    def text_start(self, event: TextStart) -> bytes:
        """Opens a message."""
        own = own_metadata(event.provider_metadata)
        item_id = own.get("item_id") or self._frames.item_id("msg", event.id)
        item: dict[str, Any] = {"id": item_id, "type": "message", "status": "in_progress"}
        item |= {"content": [], "role": "assistant"}
        item |= {k: v for k, v in own.items() if k not in _TEXT_OURS}
        place, data = self._frames.add(item)
        text = self._texts[event.id] = _Prose(item, place)
        text.refusal = bool(own.get("refusal"))
        part = _part(text, "", [])
        data += self._frames.event("response.content_part.added", **text.where, content_index=0, part=part)
        return data + self._cite(text)

    def text_delta(self, event: TextDelta) -> bytes:
        """Writes a fragment of a message."""
        text = self._texts.get(event.id)
        if text is None:
            return b""
        text.fragments.append(event.delta)
        where = {**text.where, "content_index": 0, "delta": event.delta}
        if text.refusal:
            return self._frames.event("response.refusal.delta", **where)
        logprobs = logprobs_of(event.provider_metadata)
        return self._frames.event("response.output_text.delta", **where, logprobs=logprobs)

    def _cite(self, text: _Prose | None) -> bytes:
        """Writes the buffered sources into a text, if one is open."""
        if text is None:
            return b""
        data = b""
        sources, self._sources = self._sources, []
        for source in sources:
            annotation = annotation_of(source)
            where = {**text.where, "content_index": 0, "annotation_index": len(text.annotations)}
            text.annotations.append(annotation)
            data += self._frames.event(
                "response.output_text.annotation.added", **where, annotation=annotation
            )
        return data

    def text_end(self, event: TextEnd) -> bytes:
        """Completes a message; an interrupted one stays open."""
        text = self._texts.pop(event.id, None)
        if text is None or event.incomplete:
            return b""
        own = own_metadata(event.provider_metadata)
        complete = "".join(text.fragments)
        logprobs = logprobs_of(event.provider_metadata)
        part = _part(text, complete, logprobs)
        if "annotations" in own:
            part["annotations"] = own["annotations"]
        where = {**text.where, "content_index": 0}
        if text.refusal:
            data = self._frames.event("response.refusal.done", **where, refusal=complete)
        else:
            data = self._frames.event("response.output_text.done", **where, text=complete, logprobs=logprobs)
        data += self._frames.event("response.content_part.done", **where, part=part)
        item = {**text.item, "status": "completed", "content": own.get("content", [part])}
        return data + self._frames.done(text.place, item)

    # Reasoning.

    def _item_of(self, event: ReasoningStart) -> str:
        own = own_metadata(event.provider_metadata)
        return str(own.get("item_id") or self._frames.item_id("rs", _PLACE.sub("", event.id)))

    def _continues(self, event: Event, item: _Prose) -> bool:
        """Whether a reasoning item has another summary."""
        return isinstance(event, ReasoningStart) and self._item_of(event) == item.item["id"]

    def reasoning_start(self, event: ReasoningStart) -> bytes:
        """Opens a reasoning item, or its next summary."""
        last = self._last
        if last is not None and last.ended and self._continues(event, last):
            last.piece += 1
            last.fragments, last.began, last.ended = [], False, False
            self._reasoning[event.id] = last
            return self._piece_added(last)
        item = {"id": self._item_of(event), "type": "reasoning", "summary": []}
        place, data = self._frames.add({**item, "status": "in_progress"})
        self._last = self._reasoning[event.id] = _Prose({**item, "status": "completed"}, place)
        return data

    def _piece_added(self, item: _Prose) -> bytes:
        item.began = True
        part = {"type": "reasoning_text" if item.bare else "summary_text", "text": ""}
        if item.bare:
            return self._frames.event("response.content_part.added", **item.where, content_index=0, part=part)
        return self._frames.event(
            "response.reasoning_summary_part.added", **item.where, summary_index=item.piece, part=part
        )

    def reasoning_delta(self, event: ReasoningDelta) -> bytes:
        """Writes a fragment of a summary, or of reasoning without one."""
        item = self._reasoning.get(event.id)
        if item is None:
            return b""
        data = b""
        if not item.fragments:
            item.bare = own_metadata(event.provider_metadata).get("part") == "reasoning_text"
        if not item.began:
            data = self._piece_added(item)
        item.fragments.append(event.delta)
        kind, index = self._kind(item)
        return data + self._frames.event(f"{kind}.delta", **item.where, **index, delta=event.delta)

    def _kind(self, item: _Prose) -> tuple[str, dict[str, int]]:
        if item.bare:
            return "response.reasoning_text", {"content_index": 0}
        return "response.reasoning_summary_text", {"summary_index": item.piece}

    def reasoning_end(self, event: ReasoningEnd) -> bytes:
        """Ends the summary. Its item may have another, so the item ends with the next event."""
        item = self._reasoning.pop(event.id, None)
        if item is None or event.incomplete:
            return b""
        own = own_metadata(event.provider_metadata)
        item.item |= {k: v for k, v in own.items() if k not in _REASONING_OURS}
        item.ended = True
        data = self._piece_done(item) if item.fragments else b""
        return data if item is self._last else data + self._reasoning_done(item)

    def _piece_done(self, item: _Prose) -> bytes:
        text = "".join(item.fragments)
        part = {"type": "reasoning_text" if item.bare else "summary_text", "text": text}
        field = "content" if item.bare else "summary"
        item.item[field] = [*item.item.get(field, ()), part]
        kind, index = self._kind(item)
        name = "response.content_part.done" if item.bare else "response.reasoning_summary_part.done"
        return self._frames.event(f"{kind}.done", **item.where, **index, text=text) + self._frames.event(
            name, **item.where, **index, part=part
        )

    def _reasoning_done(self, item: _Prose) -> bytes:
        if item is self._last:
            self._last = None
        return self._frames.done(item.place, item.item)


def _part(text: _Prose, content: str, logprobs: list[Any]) -> dict[str, Any]:
    if text.refusal:
        return {"type": "refusal", "refusal": content}
    return {
        "type": "output_text",
        "text": content,
        "annotations": list(text.annotations),
        "logprobs": logprobs,
    }
