"""A streamGenerateContent answer as one answer of generateContent."""

from __future__ import annotations

from typing import Any

from llmstream.dialects.complete_responses import GrowingTexts, sse_objects

__all__ = ["complete_response"]


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the chunks of a stream make."""
    answer: dict[str, Any] = {}
    candidate = _Candidate()
    found = False
    for chunk in sse_objects(body):
        for one in chunk.pop("candidates", ()):
            found = True
            candidate.feed(one)
        answer |= chunk
    return {"candidates": [candidate.close()], **answer} if found else answer


class _Candidate:
    """The one candidate of an answer: parts of the same text are joined."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._parts: list[dict[str, Any]] = []
        self._fields: dict[str, Any] = {}
        self._grounding: dict[str, Any] = {}

    def feed(self, candidate: dict[str, Any]) -> None:
        for part in candidate.pop("content", {}).get("parts", ()):
            self._part(part)
        self._ground(candidate.pop("groundingMetadata", None) or {})
        self._fields |= candidate

    def close(self) -> dict[str, Any]:
        self._texts.join()
        parts = [part for part in self._parts if part != {"text": ""}] or [{"text": ""}]
        grounding = {"groundingMetadata": self._grounding} if self._grounding else {}
        return {"content": {"parts": parts, "role": "model"}, **self._fields, **grounding}

    def _part(self, part: dict[str, Any]) -> None:
        """A text goes on until a field of its own, such as a signature, ends it."""
        last = self._parts[-1] if self._parts else {}
        same = "text" in last and last.keys() <= {"text", "thought"} and "text" in part
        if same and part.get("thought") == last.get("thought"):
            self._texts.add(last, "text", part["text"])
            last |= {name: value for name, value in part.items() if name != "text"}
        else:
            self._parts.append(part)

    def _ground(self, said: dict[str, Any]) -> None:
        """Lists grow; the places in `groundingChunks` that supports name move with them."""
        before = len(self._grounding.get("groundingChunks", ()))
        for support in said.get("groundingSupports", ()):
            places = support.get("groundingChunkIndices")
            if before and places:
                support["groundingChunkIndices"] = [before + place for place in places]
        for name, value in said.items():
            if isinstance(value, list):
                self._grounding.setdefault(name, []).extend(value)
            else:
                self._grounding[name] = value
