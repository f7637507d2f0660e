"""The response of `POST /v2/chat` as the events of its stream, so that one decoder reads both.

source: Cohere's API reference, chat v2 and its streamed events
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmstream.dialects.complete_answers import as_data, json_object, json_text, on_one_line

__all__ = ["streamed_form"]


def streamed_form(body: bytes) -> bytes:
    """The events of a stream with the same content; the body itself if it is no response."""
    response = json_object(body)
    if response is None or not isinstance(response.get("message"), dict):
        return as_data(on_one_line(body))
    return as_data(*map(json_text, _events(response)), b"[DONE]")


def _events(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    message = response["message"]
    yield {"type": "message-start", "id": response.get("id")}
    if response.get("prompt"):
        yield {"type": "debug", "prompt": response["prompt"]}
    if message.get("tool_plan"):
        yield _event("tool-plan-delta", tool_plan=message["tool_plan"])
    logprobs = response.get("logprobs")
    for index, content in enumerate(_items(message.get("content"))):
        yield from _content(index, content, logprobs if isinstance(logprobs, list) else [])
    for citation in _items(message.get("citations")):
        yield _event("citation-start", citations=citation)
    for index, call in enumerate(_items(message.get("tool_calls"))):
        yield _event("tool-call-start", index, tool_calls=call)
        yield {"type": "tool-call-end", "index": index}
    delta = {name: response[name] for name in ("finish_reason", "usage", "error") if name in response}
    yield {"type": "message-end", "id": response.get("id"), "delta": delta}


def _content(index: int, content: Any, logprobs: list[Any]) -> Iterator[dict[str, Any]]:
    """One content block, with the log probabilities of its tokens."""
    content = content if isinstance(content, dict) else {"type": "text", "text": content}
    kind, text = content.get("type"), content.get("text")
    yield _event("content-start", index, content={"type": kind} if logprobs else content)
    if logprobs and kind == "text" and _joined(logprobs) == text:
        for entry in logprobs:
            yield {**_event("content-delta", index, content={"text": entry["text"]}), "logprobs": entry}
    elif logprobs:
        yield {**_event("content-delta", index, content=content), "logprobs": logprobs[0]}
    yield {"type": "content-end", "index": index}


def _joined(logprobs: list[Any]) -> str | None:
    """The text of log probabilities; None if one has none."""
    texts = [entry.get("text") if isinstance(entry, dict) else None for entry in logprobs]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else None  # type: ignore[arg-type]


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": message}}
