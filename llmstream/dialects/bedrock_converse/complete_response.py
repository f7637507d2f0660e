"""A ConverseStream answer as one answer of Converse."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.dialects.bedrock_converse.frames import ConverseFrames
from llmstream.dialects.complete_responses import GrowingTexts, json_input

__all__ = ["complete_response"]


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the messages of a stream make."""
    frames = ConverseFrames(provider="bedrock", max_bytes=max(1024, len(body)))
    blocks: dict[int, _Block] = {}
    last: dict[str, Any] = {}
    for payload in frames.feed_data(body):
        for name, members in msgspec.json.decode(payload, type=dict[str, dict[str, Any]]).items():
            if name in ("messageStop", "metadata"):
                last |= members
            elif name != "messageStart":
                block = blocks.setdefault(members["contentBlockIndex"], _Block())
                block.start(members.get("start", {}))
                block.grow(members.get("delta", {}))
    message = {"role": "assistant", "content": [block.content() for block in blocks.values()]}
    return {"output": {"message": message}, "metrics": {"latencyMs": 0}, **last}


class _Block:
    """One block of content: what its start and its deltas say, by kind."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._started: dict[str, dict[str, Any]] = {}
        self._said: dict[str, Any] = {}
        self._reasoning: dict[str, Any] = {}
        self._citations: list[Any] = []
        self._results: list[Any] = []

    def start(self, start: dict[str, Any]) -> None:
        self._started |= start

    def grow(self, delta: dict[str, Any]) -> None:
        for kind, value in delta.items():
            if kind == "text":
                self._texts.add(self._said, "text", value)
            elif kind == "citation":
                self._citations.append(value)
            elif kind == "toolResult":
                self._results += value
            elif kind == "toolUse":
                self._texts.add(self._said, "input", value["input"])
            elif kind == "image":
                self._started.setdefault("image", {}).update(value)
            else:
                for name, text in value.items():
                    self._texts.add(self._reasoning, name, text)

    def content(self) -> dict[str, Any]:
        """The block as it stands in a message."""
        self._texts.join()
        started, said = self._started, self._said
        if "toolUse" in started:
            return {"toolUse": {**started["toolUse"], "input": json_input(said.get("input", ""))}}
        if "toolResult" in started:
            return {"toolResult": {**started["toolResult"], "content": self._results}}
        if "image" in started:
            return {"image": started["image"]}
        if self._citations:
            cited = {"content": [{"text": said.get("text", "")}], "citations": self._citations}
            return {"citationsContent": cited}
        if "redactedContent" in self._reasoning:
            return {"reasoningContent": self._reasoning}
        if self._reasoning:
            return {"reasoningContent": {"reasoningText": self._reasoning}}
        return {"text": said.get("text", "")}
