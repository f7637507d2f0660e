"""A Messages stream as one `message` object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from llmstream.dialects.anthropic.invoke_frames import InvokeFrames
from llmstream.dialects.complete_responses import GrowingTexts, json_input, sse_objects

__all__ = ["complete_response"]

_TEXTS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
_OF_EVENT: Final = ("type", "delta", "usage")


def complete_response(body: bytes, *, framing: Literal["sse", "aws-event-stream"]) -> dict[str, Any]:
    """The message that the events of a stream make."""
    if framing == "sse":
        return _message(sse_objects(body))
    frames = InvokeFrames(provider="bedrock", max_bytes=max(1024, len(body)))
    return _message(map(msgspec.json.decode, frames.feed_data(body)))


def _message(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    texts = GrowingTexts()
    message: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, list[str]] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                blocks[event["index"]] = event["content_block"]
            case "content_block_delta":
                delta, index = event["delta"], event["index"]
                if delta["type"] == "input_json_delta":
                    inputs.setdefault(index, []).append(delta["partial_json"])
                elif delta["type"] == "citations_delta":
                    blocks[index].setdefault("citations", []).append(delta["citation"])
                elif (name := _TEXTS.get(delta["type"])) is not None:
                    texts.add(blocks[index], name, delta[name])
            case "message_delta":
                message |= event["delta"]
                message |= {name: value for name, value in event.items() if name not in _OF_EVENT}
                message["usage"] = {**message.get("usage", {}), **event["usage"]}
    texts.join()
    for index, fragments in inputs.items():
        blocks[index]["input"] = json_input("".join(fragments))
    message["content"] = list(blocks.values())
    return message
