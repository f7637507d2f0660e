"""The response of Converse as the messages of ConverseStream, so that one decoder reads both.

source: Amazon Bedrock API reference, Converse and ConverseStream
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from llmstream.dialects.complete_answers import json_object, json_text
from llmstream.framing.aws_event_stream import encode_message

__all__ = ["streamed_form"]

_OF_STOP: Final = ("stopReason", "additionalModelResponseFields")
_OF_METADATA: Final = ("usage", "metrics", "trace", "performanceConfig", "serviceTier")


def streamed_form(body: bytes) -> bytes:
    """The messages of a stream with the same content; none for a body that is no response of Converse."""
    response = json_object(body)
    if response is None or "output" not in response:
        return _frame("unreadable", body)
    output = response["output"]
    message = output.get("message") if isinstance(output, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    frames = [_event("messageStart", {"role": "assistant"})]
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict):
            frames += [
                _event(name, {**members, "contentBlockIndex": index}) for name, members in _events(block)
            ]
            frames.append(_event("contentBlockStop", {"contentBlockIndex": index}))
    if response.get("stopReason") is not None:
        frames.append(_event("messageStop", _some(response, _OF_STOP)))
        frames.append(_event("metadata", _some(response, _OF_METADATA)))
    return b"".join(frames)


def _events(block: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Start and deltas of a block."""
    match block:
        case {"toolUse": {"input": given, **fields}}:
            yield "contentBlockStart", {"start": {"toolUse": fields}}
            # An empty input stays away, as in a stream: the token limit may have cut it.
            if given:
                yield _delta({"toolUse": {"input": json_text(given).decode()}})
        case {"toolUse": dict(begun)}:
            yield "contentBlockStart", {"start": {"toolUse": begun}}
        case {"toolResult": {"content": pieces, **about}}:
            yield "contentBlockStart", {"start": {"toolResult": about}}
            yield _delta({"toolResult": pieces})
        case {"image": dict(image)}:
            start = {name: value for name, value in image.items() if name not in ("source", "error")}
            yield "contentBlockStart", {"start": {"image": start}}
            yield _delta({"image": _some(image, ("source", "error"))})
        case {"reasoningContent": {"reasoningText": dict(thought)}}:
            for name in ("text", "signature"):
                if thought.get(name):
                    yield _delta({"reasoningContent": {name: thought[name]}})
        case {"reasoningContent": {"redactedContent": data}}:
            yield _delta({"reasoningContent": {"redactedContent": data}})
        case {"citationsContent": dict(cited)}:
            for piece in _objects(cited.get("content")):
                yield _delta({"text": str(piece.get("text") or "")})
            for citation in _objects(cited.get("citations")):
                yield _delta({"citation": citation})
        case {"text": str(text)}:
            yield _delta({"text": text})


def _delta(delta: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "contentBlockDelta", {"delta": delta}


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _some(holder: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: holder[name] for name in names if holder.get(name) is not None}


def _event(name: str, members: dict[str, Any]) -> bytes:
    return _frame(name, json_text(members))


def _frame(name: str, payload: bytes) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_message(headers, payload)
