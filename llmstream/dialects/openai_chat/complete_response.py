"""A Chat Completions stream as one `chat.completion` object."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.complete_responses import GrowingTexts, sse_objects

__all__ = ["complete_response"]

_OF_CHUNK: Final = ("choices", "object")
_DETAIL_TEXTS: Final = ("text", "summary", "data")


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer without a stream that says what a stream says."""
    completion: dict[str, Any] = {"id": "", "object": "chat.completion"}
    choice = _Choice()
    for chunk in sse_objects(body):
        completion |= {name: value for name, value in chunk.items() if name not in _OF_CHUNK}
        for one in chunk.get("choices", ()):
            choice.feed(one)
    usage = {"usage": completion.pop("usage")} if "usage" in completion else {}
    return {**completion, "choices": [choice.close()], **usage}


class _Choice:
    """The one choice of an answer: deltas in, its message out."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: list[Any] = []
        self._reason: str | None = None

    def feed(self, choice: dict[str, Any]) -> None:
        self._reason = choice.get("finish_reason") or self._reason
        self._logprobs += (choice.get("logprobs") or {}).get("content") or []
        for name, value in choice["delta"].items():
            if name == "tool_calls":
                for call in value:
                    self._call(call)
            elif name == "reasoning_details":
                for detail in value:
                    self._detail(detail)
            elif isinstance(value, list):
                self._message.setdefault(name, []).extend(value)
            elif isinstance(value, dict):
                self._message.setdefault(name, {}).update(value)
            elif name != "role" and value:
                self._texts.add(self._message, name, value)

    def close(self) -> dict[str, Any]:
        self._texts.join()
        if self._calls:
            self._message["tool_calls"] = [self._calls[place] for place in sorted(self._calls)]
        elif self._message["content"] is None:
            self._message["content"] = ""
        logprobs = {"content": self._logprobs, "refusal": None} if self._logprobs else None
        return {"index": 0, "message": self._message, "logprobs": logprobs, "finish_reason": self._reason}

    def _call(self, fragment: dict[str, Any]) -> None:
        call = self._calls.setdefault(fragment["index"], {})
        for name, value in fragment.items():
            if name in ("function", "custom"):
                inner = call.setdefault(name, {})
                for field, text in value.items():
                    self._texts.add(inner, field, text)
            elif name != "index":
                call[name] = value

    def _detail(self, fragment: dict[str, Any]) -> None:
        """Fragments of one detail of reasoning carry its index, as OpenRouter streams them."""
        details: list[dict[str, Any]] = self._message.setdefault("reasoning_details", [])
        last = details[-1] if details else {}
        if "index" not in fragment or any(fragment.get(f) != last.get(f) for f in ("index", "type")):
            details.append(dict(fragment))
            return
        for name, value in fragment.items():
            if name in _DETAIL_TEXTS:
                self._texts.add(last, name, value)
            elif value is not None:
                last[name] = value
