"""A stream of steps as one `interaction` object."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.complete_responses import GrowingTexts, json_input, sse_objects

__all__ = ["complete_response"]

_PIECES: Final = frozenset({"text", "image", "audio", "video", "document"})


def complete_response(body: bytes) -> dict[str, Any]:
    """The interaction with its steps."""
    interaction: dict[str, Any] = {}
    steps: dict[int, _Step] = {}
    for event in sse_objects(body):
        if isinstance(named := event.get("interaction"), dict):
            interaction |= named
        elif event["event_type"] == "step.start":
            steps[event["index"]] = _Step(event["step"])
        elif event["event_type"] == "step.delta":
            steps[event["index"]].grow(event["delta"])
    return {**interaction, "steps": [step.close() for step in steps.values()]}


class _Step:
    """One step: what its start says, grown by its deltas."""

    def __init__(self, step: dict[str, Any]) -> None:
        self._texts = GrowingTexts()
        self._step = step
        self._arguments: list[str] = []
        self._list = {"thought": "summary", "model_output": "content"}.get(step["type"])
        self._pieces: list[dict[str, Any]] = []

    def grow(self, delta: dict[str, Any]) -> None:
        kind = delta.pop("type")
        if kind == "thought_summary":
            self._piece(delta["content"])
        elif self._list == "content" and kind in _PIECES:
            self._piece({"type": kind, **delta})
        elif kind == "text_annotation_delta":
            self._piece({"type": "text", "text": "", **delta})
        elif kind == "arguments_delta":
            self._arguments.append(delta["arguments"])
        else:
            self._step |= delta

    def close(self) -> dict[str, Any]:
        """The step as it stands in an interaction."""
        self._texts.join()
        if self._list is not None and self._pieces:
            self._step[self._list] = self._pieces
        if self._arguments:
            self._step["arguments"] = json_input("".join(self._arguments))
        return self._step

    def _piece(self, piece: dict[str, Any]) -> None:
        """Fragments of a text are joined, with their annotations."""
        last = self._pieces[-1] if self._pieces else {}
        if piece["type"] != "text" or last.get("type") != "text":
            self._pieces.append(piece)
            return
        self._texts.add(last, "text", piece["text"])
        if notes := piece.get("annotations"):
            last.setdefault("annotations", []).extend(notes)
