"""The lines of Ollama's answer as the one object of `"stream": false`."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.dialects.complete_responses import GrowingTexts

__all__ = ["complete_response"]


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the lines make."""
    texts = GrowingTexts()
    answer: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    logprobs: list[Any] = []
    for line in filter(None, body.split(b"\n")):
        said: dict[str, Any] = msgspec.json.decode(line)
        for name, value in said.pop("message", {}).items():
            if isinstance(value, list):
                message.setdefault(name, []).extend(value)
            elif name != "role":
                texts.add(message, name, value)
        logprobs += said.pop("logprobs", ())
        answer |= said
    texts.join()
    answer["message"] = message
    return {**answer, "logprobs": logprobs} if logprobs else answer
