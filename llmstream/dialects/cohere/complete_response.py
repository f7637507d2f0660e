"""A Cohere stream as one answer of `POST /v2/chat`."""

from __future__ import annotations

from typing import Any

from llmstream.dialects.complete_responses import GrowingTexts, sse_objects

__all__ = ["complete_response"]


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the events of a stream make."""
    texts = GrowingTexts()
    answer: dict[str, Any] = {"id": ""}
    message: dict[str, Any] = {"role": "assistant"}
    contents: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    citations: list[Any] = []
    logprobs: list[Any] = []
    for event in sse_objects(body):
        said = (event.get("delta") or {}).get("message") or {}
        match event["type"]:
            case "message-start":
                answer["id"] = event["id"]
            case "content-start":
                contents[event["index"]] = said["content"]
            case "content-delta":
                for name, fragment in said["content"].items():
                    texts.add(contents[event["index"]], name, fragment)
                logprobs += [event["logprobs"]] if event.get("logprobs") else []
            case "tool-plan-delta":
                texts.add(message, "tool_plan", said["tool_plan"])
            case "tool-call-start":
                calls[event["index"]] = said["tool_calls"]
            case "tool-call-delta":
                fragment = said["tool_calls"]["function"]["arguments"]
                texts.add(calls[event["index"]]["function"], "arguments", fragment)
            case "citation-start":
                citations.append(said["citations"])
            case "message-end":
                answer |= {name: value for name, value in event["delta"].items() if name != "error"}
            case "debug":
                answer["prompt"] = event.get("prompt")
    texts.join()
    lists = {"content": list(contents.values()), "tool_calls": list(calls.values()), "citations": citations}
    answer["message"] = {**message, **{name: value for name, value in lists.items() if value}}
    return {**answer, "logprobs": logprobs} if logprobs else answer
