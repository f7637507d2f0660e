"""A Mistral stream as one `chat.completion` object."""

from __future__ import annotations

from typing import Any

from llmstream.dialects.complete_responses import GrowingTexts, sse_objects

__all__ = ["complete_response"]


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the chunks of a stream make."""
    completion: dict[str, Any] = {}
    content = _Content()
    message: dict[str, Any] = {"role": "assistant"}
    calls: list[Any] = []
    choice: dict[str, Any] = {"index": 0}
    logprobs: list[Any] = []
    for chunk in sse_objects(body):
        for one in chunk.pop("choices", ()):
            delta = one.pop("delta")
            content.feed(delta.pop("content", None) or [])
            calls += delta.pop("tool_calls", None) or []
            message |= delta
            logprobs += (one.pop("logprobs", None) or {}).get("content") or []
            choice |= one
        completion |= chunk
    message |= {"content": content.close(), "tool_calls": calls or None}
    choice |= {"message": message, **({"logprobs": {"content": logprobs}} if logprobs else {})}
    return {**completion, "object": "chat.completion", "choices": [choice]}


class _Content:
    """The content of a message: a string, or a list of parts where it has other than text."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._parts: list[dict[str, Any]] = []

    def feed(self, content: str | list[dict[str, Any]]) -> None:
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            last = self._parts[-1] if self._parts else {}
            if part["type"] != last.get("type") or part["type"] not in ("text", "thinking"):
                self._parts.append(part)
            elif part["type"] == "text":
                self._texts.add(last, "text", part["text"])
            else:
                self._think(last, part)

    def close(self) -> str | list[dict[str, Any]]:
        self._texts.join()
        parts = [part for part in self._parts if part != {"type": "text", "text": ""}]
        if not parts:
            return ""
        return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts

    def _think(self, last: dict[str, Any], part: dict[str, Any]) -> None:
        """A thought goes on: its texts are joined, and a signature comes at its end."""
        thoughts = last["thinking"]
        for piece in part["thinking"]:
            if thoughts and thoughts[-1]["type"] == piece["type"] == "text":
                self._texts.add(thoughts[-1], "text", piece["text"])
            else:
                thoughts.append(piece)
        last |= {name: value for name, value in part.items() if name != "thinking"}
