"""Fields of a known event that hold another type than the vendor documents: nothing untyped leaves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmstream.cli.config import wire_of
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import Event, TextDelta

ODD: list[Any] = [None, True, 1, -1.5, "x", "x\ud83d", [], [[]], {}, {"a": 1}, [None], ["x\ud83d"]]


def read(dialect: str, *events: dict[str, Any]) -> list[Event]:
    wire = wire_of(dialect, None)
    inner = wire.dialect.decoder(provider=wire.provider)
    decoder = GuardedDecoder(inner, provider=wire.provider, marked=True)
    found = [*decoder.start()]
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        found += decoder.feed(f"{name}data: {json.dumps(event)}\n\n".encode())
    return [*found, *decoder.close()]


def texts(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("dialect", ["openai-chat", "mistral"])
def test_logprobs_of_any_type_cost_no_text(dialect: str, odd: Any) -> None:
    for logprobs in ({"content": odd, "refusal": odd}, odd):
        choice = {"index": 0, "delta": {"content": "kept"}, "logprobs": logprobs}
        assert "bug" not in str(read(dialect, {"id": "1", "model": "m", "choices": [choice]}))


def test_logprobs_that_are_no_list_skipped() -> None:
    choice = {"index": 0, "delta": {"content": "kept"}, "logprobs": {"content": 1, "refusal": True}}
    assert texts(read("openai-chat", {"id": "1", "model": "m", "choices": [choice]})) == "kept"


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_address_of_any_type_cites_once(odd: Any) -> None:
    item = {"type": "message", "id": "m", "content": []}
    annotation = {"type": "url_citation", "url": odd, "title": odd}
    events = read(
        "openai-responses",
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": annotation},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "kept"},
    )
    assert texts(events) == "kept"


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_content_of_any_type_ends_no_stream(odd: Any) -> None:
    """A list with half a character in it, which has an error of its own."""
    delta = {"type": "content-delta", "index": 0, "delta": {"message": {"content": [odd]}}}
    whole = {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "kept"}}}}
    assert texts(read("cohere", delta, whole)).endswith("kept")
