"""Copilot's thoughts: they come with a signature, and go back with it."""

from __future__ import annotations

import json

from llmstream.accumulate import accumulate
from llmstream.chats.message import Message
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.providers.copilot import COPILOT
from llmstream.request import Request


def answer(*deltas: dict[str, object]) -> Message:
    frame = {"id": "1", "created": 1790000000, "model": "gemini-3-pro-preview"}
    chunks = [{**frame, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    sentence = GuardedDecoder(COPILOT.dialect.decoder(provider="copilot"), provider="copilot", marked=True)
    message = accumulate(sentence.start() + sentence.feed(body) + sentence.close()).message
    assert message is not None
    return message


def sent(message: Message) -> dict[str, object]:
    request = Request(model="gemini-3-pro-preview", messages=(Message.user("q"), message, Message.user("r")))
    encoded = COPILOT.dialect.encode(request, provider="copilot")
    assert not encoded.warnings
    found: dict[str, object] = encoded.http.json()["messages"][1]
    return found


def test_reasoning_goes_back_with_signature() -> None:
    message = answer({"reasoning_text": "hm"}, {"reasoning_opaque": "s"}, {"content": "a"})
    assert message.parts[0].metadata == {
        "llmstream": {"origin": "copilot"},
        "copilot": {"reasoning_opaque": "s"},
    }
    assert sent(message) == {
        "role": "assistant",
        "content": "a",
        "reasoning_text": "hm",
        "reasoning_opaque": "s",
    }


def test_a_late_signature_goes_back_too() -> None:
    message = answer({"reasoning_text": "hm"}, {"content": "a"}, {"reasoning_opaque": "s"})
    assert (sent(message)["reasoning_text"], sent(message)["reasoning_opaque"]) == ("hm", "s")


def test_call_signature_goes_back_alone() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert sent(answer({"tool_calls": [call], "reasoning_opaque": "s"}))["reasoning_opaque"] == "s"
