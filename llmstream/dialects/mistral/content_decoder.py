"""Parts of a Mistral answer's content list: text, thinking, references and files, as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from llmstream.dialects.data_uris import read_data_uri
from llmstream.dialects.lazy_blocks import LazyBlocks
from llmstream.dialects.mistral.finish import KEY
from llmstream.dialects.mistral.wire import Chunk
from llmstream.errors import LimitExceeded
from llmstream.events import Custom, File, Metadata, ReasoningStart, Source

__all__ = ["ContentDecoder"]


class ContentDecoder(LazyBlocks[Chunk]):
    """Base of the decoder: `content` takes the content of one delta, where it is no plain text."""

    _signature: str | None = None
    _sources = 0

    def has_block(self, call_id: str) -> bool:
        """Whether a block or a source has this id."""
        if call_id.startswith("source-"):
            return True
        return call_id.isdecimal() and len(call_id) < 19 and int(call_id) < self._blocks

    def has_call(self, block_id: str) -> bool:
        """Whether a call has this id."""
        raise NotImplementedError

    def content(self, content: object) -> None:
        """A list of parts, or one; other things are a defect."""
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self.text(part)
            elif isinstance(part, dict):
                self._part(part)
            else:
                self.defect(f"content is neither text nor a list of parts: {str(content)[:80]!r}")

    def _part(self, part: dict[str, Any]) -> None:
        kind = part.get("type")
        if kind in ("text", None) and isinstance(part.get("text"), str):
            self.text(part["text"])
        elif kind == "thinking":
            self._thinking(part)
        elif kind == "reference":
            self._references(part)
        elif kind == "tool_reference":
            self._page(part)
        elif kind in ("image_url", "document_url"):
            self._file(str(kind), part)
        else:
            self.out.append(Custom(f"{KEY}.{kind}", {KEY: part}))

    # thinking

    def _thinking(self, part: dict[str, Any]) -> None:
        """A fragment of thinking: its text, what it refers to, and perhaps a signature.

        `closed` says nothing here: it is true on every fragment.
        """
        for words in _fragments(part.get("thinking")):
            if isinstance(words, str):
                if words and self._signature is not None:
                    self.end_reasoning()  # what was signed is over
                self.reasoning(words)
            elif words.get("type") == "reference":
                self._references(words)
            elif words.get("type") == "tool_reference":
                self._page(words)
        signature = part.get("signature")
        if isinstance(signature, str) and signature:
            if self._reasoning_id is None:
                self.end_text()
                self._reasoning_id = self.next_id()
                self.out.append(ReasoningStart(self._reasoning_id))
            self._signature = signature

    def end_reasoning(self, metadata: Metadata | None = None) -> None:
        """Closes the open reasoning with the signature that the vendor wants back."""
        if self._signature is not None and metadata is None:
            metadata = {KEY: {"signature": self._signature}}
        self._signature = None
        super().end_reasoning(metadata)

    # what stands beside

    def _references(self, part: dict[str, Any]) -> None:
        """What the answer rests on, by the numbers the request gave them."""
        numbers = part.get("reference_ids")
        for place, number in enumerate(numbers if isinstance(numbers, list) else []):
            if isinstance(number, (int, str)):
                kept: Metadata = {KEY: {"reference_ids": numbers, "reference": place}}
                name = self._source_id()
                self.out.append(Source("document", name, title=str(number), provider_metadata=kept))

    def _page(self, part: dict[str, Any]) -> None:
        """What a tool of the vendor found."""
        url, title, name = part.get("url"), part.get("title"), self._source_id()
        url = url if isinstance(url, str) and url else None
        title = title if isinstance(title, str) and title else None
        kind: Literal["url", "document"] = "document" if url is None else "url"
        self.out.append(Source(kind, name, url, title, provider_metadata={KEY: part}))

    def _file(self, kind: str, part: dict[str, Any]) -> None:
        held = part.get(kind)
        url = held.get("url") if isinstance(held, dict) else held
        usual = "image/*" if kind == "image_url" else "application/pdf"
        if not isinstance(url, str) or ":" not in url:
            self.defect(f"a part of type {kind} has no URL")
            return
        try:
            inline = read_data_uri(url)
        except ValueError as error:
            self.defect(str(error))
            return
        beside = {**part, **(held if isinstance(held, dict) else {})}
        said = {name: beside[name] for name in ("document_name", "detail") if beside.get(name)}
        kept: Metadata | None = {KEY: said} if said else None
        if inline is None:
            self.out.append(File(usual, url, kept))
        else:
            self.out.append(File(inline[0] or usual, inline[1], kept))

    # ids

    def next_id(self) -> str:
        """The next block id that no tool call has; past the cap on blocks the stream ends."""
        if self._blocks >= self.limits.max_blocks and not self.done:
            self.fail(LimitExceeded(f"the response holds more than {self.limits.max_blocks} blocks"))
        block_id = super().next_id()
        while self.has_call(block_id):
            block_id = super().next_id()
        return block_id

    def _source_id(self) -> str:
        self._sources += 1
        while self.has_call(f"source-{self._sources}"):
            self._sources += 1
        return f"source-{self._sources}"


def _fragments(thinking: object) -> Iterator[str | dict[str, Any]]:
    """What thinking says: text, or parts that are text or something else."""
    parts: Iterable[object] = thinking if isinstance(thinking, list) else [thinking]
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            words = part.get("text")
            if isinstance(words, str):
                yield words
            else:
                yield part
