"""Writes messages and reasoning as output items, fragment by fragment."""

from __future__ import annotations

import re
from typing import Any, Final

from llmstream.dialects.logprobs import logprobs_of
from llmstream.dialects.openai_responses.call_encoder import told_of
from llmstream.dialects.openai_responses.frames import Frames
from llmstream.dialects.openai_responses.sources import LISTED, annotation_of
from llmstream.events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
)

__all__ = ["ProseEncoder"]

_PLACE: Final = re.compile(r":\d+$")
_TEXT_OURS: Final = frozenset({"provider", "item_id", "refusal", "annotations", "logprobs", "content"})
_REASONING_OURS: Final = frozenset({"provider", "item_id", "part"})


class _Prose:
    """A message or a reasoning item that is being written; pieces are its summaries or contents."""

    def __init__(self, item: dict[str, Any], place: int) -> None:
        self.item = item
        self.place = place
        self.words: list[str] = []
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
    """Blocks of one response in, frames out.

    A reasoning item may have another summary, so it is done only with the next event: ask
    `settle` before anything else is written.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._texts: dict[str, _Prose] = {}
        self._reasoning: dict[str, _Prose] = {}
        self._last: _Prose | None = None
        self._sources: list[Source] = []

    def settle(self, event: Event) -> bytes:
        """The end of a reasoning item that this event does not go on with."""
        last = self._last
        if last is None or not last.ended or self._goes_on(event, last):
            return b""
        return self._reasoning_done(last)

    def source(self, event: Source) -> bytes:
        """A source stands in the open text, or waits for the next; the item of a search has its own."""
        if told_of(event.provider_metadata).get("type") == LISTED:
            return b""
        self._sources.append(event)
        return self._cite(next(reversed(self._texts.values()), None))

    # Messages.

    def text_start(self, event: TextStart) -> bytes:
        """A message opens."""
        told = told_of(event.provider_metadata)
        item_id = told.get("item_id") or self._frames.item_id("msg", event.id)
        item: dict[str, Any] = {"id": item_id, "type": "message", "status": "in_progress"}
        item |= {"content": [], "role": "assistant"}
        item |= {k: v for k, v in told.items() if k not in _TEXT_OURS}
        place, data = self._frames.add(item)
        text = self._texts[event.id] = _Prose(item, place)
        text.refusal = bool(told.get("refusal"))
        part = _part(text, "", [])
        data += self._frames.event("response.content_part.added", **text.where, content_index=0, part=part)
        return data + self._cite(text)

    def text_delta(self, event: TextDelta) -> bytes:
        """A fragment of a message."""
        text = self._texts.get(event.id)
        if text is None:
            return b""
        text.words.append(event.delta)
        where = {**text.where, "content_index": 0, "delta": event.delta}
        if text.refusal:
            return self._frames.event("response.refusal.delta", **where)
        logprobs = logprobs_of(event.provider_metadata)
        return self._frames.event("response.output_text.delta", **where, logprobs=logprobs)

    def _cite(self, text: _Prose | None) -> bytes:
        """Sources stand in a text; those that come before it wait."""
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
        """A message is whole; one that broke off stays open."""
        text = self._texts.pop(event.id, None)
        if text is None or event.incomplete:
            return b""
        told = told_of(event.provider_metadata)
        words = "".join(text.words)
        logprobs = logprobs_of(event.provider_metadata)
        part = _part(text, words, logprobs)
        if "annotations" in told:
            part["annotations"] = told["annotations"]
        where = {**text.where, "content_index": 0}
        if text.refusal:
            data = self._frames.event("response.refusal.done", **where, refusal=words)
        else:
            data = self._frames.event("response.output_text.done", **where, text=words, logprobs=logprobs)
        data += self._frames.event("response.content_part.done", **where, part=part)
        item = {**text.item, "status": "completed", "content": told.get("content", [part])}
        return data + self._frames.done(text.place, item)

    # Reasoning.

    def _item_of(self, event: ReasoningStart) -> str:
        told = told_of(event.provider_metadata)
        return str(told.get("item_id") or self._frames.item_id("rs", _PLACE.sub("", event.id)))

    def _goes_on(self, event: Event, item: _Prose) -> bool:
        """Whether a reasoning item has another summary."""
        return isinstance(event, ReasoningStart) and self._item_of(event) == item.item["id"]

    def reasoning_start(self, event: ReasoningStart) -> bytes:
        """A reasoning item opens, or goes on with its next summary."""
        last = self._last
        if last is not None and last.ended and self._goes_on(event, last):
            last.piece += 1
            last.words, last.began, last.ended = [], False, False
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
        """A fragment of a summary, or of bare reasoning."""
        item = self._reasoning.get(event.id)
        if item is None:
            return b""
        data = b""
        if not item.words:
            item.bare = told_of(event.provider_metadata).get("part") == "reasoning_text"
        if not item.began:
            data = self._piece_added(item)
        item.words.append(event.delta)
        kind, index = self._kind(item)
        return data + self._frames.event(f"{kind}.delta", **item.where, **index, delta=event.delta)

    def _kind(self, item: _Prose) -> tuple[str, dict[str, int]]:
        if item.bare:
            return "response.reasoning_text", {"content_index": 0}
        return "response.reasoning_summary_text", {"summary_index": item.piece}

    def reasoning_end(self, event: ReasoningEnd) -> bytes:
        """The piece is whole; its item may go on, so that is done with the next event."""
        item = self._reasoning.pop(event.id, None)
        if item is None or event.incomplete:
            return b""
        told = told_of(event.provider_metadata)
        item.item |= {k: v for k, v in told.items() if k not in _REASONING_OURS}
        item.ended = True
        data = self._piece_done(item) if item.words else b""
        return data if item is self._last else data + self._reasoning_done(item)

    def _piece_done(self, item: _Prose) -> bytes:
        text = "".join(item.words)
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


def _part(text: _Prose, words: str, logprobs: list[Any]) -> dict[str, Any]:
    if text.refusal:
        return {"type": "refusal", "refusal": words}
    return {"type": "output_text", "text": words, "annotations": list(text.annotations), "logprobs": logprobs}
