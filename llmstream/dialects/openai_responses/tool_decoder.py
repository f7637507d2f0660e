"""Calls of a response: functions, custom tools and the vendor's own, with inputs and results."""

from __future__ import annotations

import sys
from typing import Any, Final

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.decoder import Framing, PayloadDecoder, held_size
from llmstream.dialects.json_text import is_json, without_lone_surrogates
from llmstream.dialects.openai_responses.items import (
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
from llmstream.dialects.openai_responses.wire import (
    KEY,
    LISTED,
    OpenItem,
    Slot,
    WireEvent,
    events,
    extras_of,
    listed_sources,
    source_of,
)
from llmstream.errors import LimitExceeded
from llmstream.events import (
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.unique_ids import UniqueIds

__all__ = ["INPUT", "ToolDecoder"]


# Messages and reasoning of a response: text, refusals, summaries and annotations, as blocks.

_NAME_BYTES = 64  # a place in a set
_SLOT_BYTES = 200  # a tuple with its index, in a set


class ProseDecoder(PayloadDecoder[WireEvent]):
    """The part of the decoder that knows items which are read; calls are its subclass's.

    Items are known by their place in the output: Copilot gives an item a new id in every event.

    refused: the model refused
    """

    def __init__(
        self,
        framing: Framing,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
    ) -> None:
        super().__init__(framing, events, provider=provider, include_raw=include_raw, limits=limits)
        self.items: dict[Any, OpenItem] = {}
        self.refused = False
        self._open_texts: dict[OpenItem, None] = {}
        self._by_id: dict[Any, OpenItem] = {}
        self._used = UniqueIds(hold=self.hold)
        self._sources = 0
        self._listed: set[str] = set()
        self._pages: set[Any] = set()
        self._count = 0

    def find(self, wire: WireEvent) -> OpenItem | None:
        """The item that an event speaks of: by its place, else by its id."""
        if isinstance(wire.output_index, int):
            return self.items.get(wire.output_index)
        return self._by_id.get(wire.item_id) if isinstance(wire.item_id, str) else None

    def enter(self, wire: WireEvent, item: dict[str, Any]) -> OpenItem:
        """Takes note of a new item; one that stood at its place has to be settled before."""
        place = wire.output_index if isinstance(wire.output_index, int) else ("unplaced", self._count)
        opened = self.items[place] = OpenItem(item)
        for name in (item.get("id"), wire.item_id):
            if isinstance(name, str):
                self._by_id[name] = opened
        self._count += 1
        self.hold(held_size(item))  # items stay to the end: more may be said of them
        if self._count > self.limits.max_blocks:
            self.fail(LimitExceeded(f"the response has more than {self.limits.max_blocks} items"))
        return opened

    def fresh(self, wanted: str) -> str:
        """An id that no block or call of the response has yet."""
        return self._used.fresh(wanted)

    def origin(self, item: OpenItem) -> dict[str, Any]:
        """Who gave an item and under which id: ids and encrypted forms mean nothing to others."""
        said: dict[str, Any] = {"provider": self.provider}
        if item.item_id is not None:
            said["item_id"] = item.item_id
        return said

    # Messages.

    def text(
        self,
        item: OpenItem,
        delta: object,
        slot: Slot,
        *,
        refusal: bool = False,
        logprobs: list[Any] | None = None,
    ) -> None:
        """A fragment of a message's text; its log probabilities are said again for the whole."""
        if item.block is None:
            self.open_text(item, refusal=refusal)
        if isinstance(delta, str) and delta and item.block is not None:
            self.note(item, slot)
            if logprobs:
                self.keep_logprobs(item, logprobs)
            said = {KEY: {"logprobs": logprobs}} if logprobs else None
            self.out.append(TextDelta(delta, item.block, said))

    def keep_logprobs(self, item: OpenItem, logprobs: list[Any]) -> None:
        """Those of a fragment, which the end says again."""
        item.logprobs.extend(logprobs)
        self.hold(sum(map(held_size, logprobs)))

    def note(self, item: OpenItem, slot: Slot) -> None:
        """Something of this piece was given."""
        if slot not in item.told:
            item.told.add(slot)
            self.hold(_SLOT_BYTES)

    def open_text(self, item: OpenItem, *, refusal: bool = False) -> None:
        """The text begins once it is known whether it is a refusal."""
        said = {**self.origin(item), **extras_of(item.wire)}
        if refusal:
            self.refused = True
            said["refusal"] = True
        item.block = self.fresh(item.item_id or f"text-{self._count}")
        self._open_texts[item] = None
        self.out.append(TextStart(item.block, {KEY: said}))

    def cite(self, item: OpenItem, annotation: dict[str, Any]) -> None:
        """A page or document that the text rests on."""
        item.annotations.append(annotation)
        self.hold(held_size(annotation))
        url = annotation.get("url")
        if not isinstance(url, str) or url not in self._pages:
            self._give_source(annotation)

    def page(self, annotation: dict[str, Any]) -> None:
        """A page that a search found, once; the text may cite it later."""
        if annotation["url"] not in self._pages:
            self._pages.add(annotation["url"])
            self.hold(held_size(annotation["url"]) + _NAME_BYTES)
            self._give_source(annotation)

    def listed(self, url: str) -> None:
        """A page that a web search lists, once; where the text cites it, that is another source."""
        if url not in self._listed:
            self._listed.add(url)
            self._sources += 1
            metadata = {KEY: {"type": LISTED}}
            self.out.append(Source("url", f"source-{self._sources}", url, provider_metadata=metadata))

    def _give_source(self, annotation: dict[str, Any]) -> None:
        source = source_of(annotation, f"source-{self._sources + 1}")
        if source is not None:
            self._sources += 1
            self.out.append(source)

    def end_message(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """The item is whole: gives what its deltas left out, and closes the text."""
        content = _dicts(wire.get("content"))
        cited = bool(item.annotations)
        for place, part in enumerate(content):
            refusal = part.get("type") == "refusal"
            # Bedrock counts the parts of a message from 1 while it streams, so the number decides.
            if ("content", place) not in item.told and len(item.told) < len(content):
                words = part.get("refusal" if refusal else "text")
                self.text(item, words, ("content", place), refusal=refusal)
            if not cited:
                for annotation in _dicts(part.get("annotations")):
                    self.cite(item, annotation)
        whole = [one for part in content for one in _dicts(part.get("logprobs"))]
        if len(whole) > len(item.logprobs):  # some servers say them only here
            item.logprobs = whole
        if item.block is None and not item.told:
            self.open_text(item)
        if item.block is not None:
            self.close_text(item, content)

    def close_text(self, item: OpenItem, content: list[dict[str, Any]] = []) -> None:
        """Closes the text of a message, with what belongs to the whole of it."""
        if item.block is None:
            return
        said: dict[str, Any] = {}
        if item.annotations:
            said["annotations"] = item.annotations
        if item.logprobs:
            said["logprobs"] = item.logprobs
        if len(content) > 1:
            said["content"] = content
        self.out.append(TextEnd(item.block, provider_metadata={KEY: said} if said else None))
        item.block = None
        del self._open_texts[item]

    def close_texts(self) -> None:
        """Closes whatever text is open: the input of a tool may not begin inside it."""
        for item in list(self._open_texts):
            self.close_text(item)

    # Reasoning.

    def reasoning(self, item: OpenItem, slot: Slot, delta: object = "") -> None:
        """A fragment of reasoning; each summary is a block of its own.

        Bare reasoning, which is no summary, is marked: it goes back as what it was.
        """
        if item.slot != slot:
            if item.slot is not None and item.slot in item.told:
                self.close_reasoning(item, {})
            item.slot = slot
        if item.block is None:
            self._open_reasoning(item)
        if isinstance(delta, str) and delta and item.block is not None:
            bare = slot[0] == "content" and slot not in item.told
            self.note(item, slot)
            said = {KEY: {"part": "reasoning_text"}} if bare else None
            self.out.append(ReasoningDelta(delta, item.block, said))

    def end_reasoning(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """The item is whole; what was said last of its encrypted form is what goes back."""
        for name in ("summary", "content"):
            for place, piece in enumerate(_dicts(wire.get(name))):
                slot = (name, place if name == "summary" else 0)
                if slot not in item.told:
                    self.reasoning(item, slot, piece.get("text"))
        if item.block is None:
            self._open_reasoning(item)
        said: dict[str, Any] = {}
        encrypted = wire.get("encrypted_content") or item.wire.get("encrypted_content")
        if encrypted:
            said["encrypted_content"] = encrypted
        self.close_reasoning(item, said | extras_of(wire))

    def thought(self, words: object) -> None:
        """What the model thinks beside any item, whole."""
        if isinstance(words, str) and words:
            block = self.fresh(f"thought-{self._count}")
            said = {KEY: {"provider": self.provider}}
            self.out += [ReasoningStart(block, said), ReasoningDelta(words, block), ReasoningEnd(block)]

    def _open_reasoning(self, item: OpenItem) -> None:
        place = item.slot[1] if item.slot is not None else 0
        item.block = self.fresh(f"{item.item_id or 'reasoning'}:{place}")
        self.out.append(ReasoningStart(item.block, {KEY: self.origin(item)}))

    def close_reasoning(self, item: OpenItem, said: dict[str, Any]) -> None:
        """Closes the block that is open."""
        if item.block is not None:
            self.out.append(ReasoningEnd(item.block, provider_metadata={KEY: said} if said else None))
            item.block = None


def _dicts(value: object) -> list[dict[str, Any]]:
    return [piece for piece in value if isinstance(piece, dict)] if isinstance(value, list) else []


_TOOL_DECODER_SLOT_BYTES: Final = 8
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
        if item.whole is not None and item.whole == text:
            return  # the fragments only grow, so that it still leaves out nothing, or fits no better
        item.whole = text
        if 2 * len(text) <= item.size:
            return  # shorter, even if each two halves of a character were one; a look costs all fragments
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
        self.hold(sys.getsizeof(text) + _TOOL_DECODER_SLOT_BYTES)
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
