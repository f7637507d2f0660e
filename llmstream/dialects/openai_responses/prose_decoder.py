"""Messages and reasoning of a response: text, refusals, summaries and annotations, as blocks."""

from __future__ import annotations

from typing import Any

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.decoder import Framing, PayloadDecoder
from llmstream.dialects.held_size import held_size
from llmstream.dialects.openai_responses.open_item import OpenItem, Slot, extras_of
from llmstream.dialects.openai_responses.sources import KEY, LISTED, source_of
from llmstream.dialects.openai_responses.wire import WireEvent, events
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

__all__ = ["ProseDecoder"]

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
        if annotation.get("url") not in self._pages:
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
