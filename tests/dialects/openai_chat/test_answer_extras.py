"""What stands beside an answer: found pictures, and the filter's word on the prompt."""

from __future__ import annotations

import json

import pytest

from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.events import Finish
from llmstream.request import Request
from llmstream.server_side.wires import server_side

PICTURES = [{"image_url": "https://a.test/1.png", "origin_url": "https://a.test/"}]
FILTERED = [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}]


def chunk(content, **fields):
    return {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": content}}], **fields}


def finish(body, provider):
    sentence = GuardedDecoder(OpenAIChat().decoder(provider=provider), provider=provider)
    events = sentence.start() + sentence.feed(body) + sentence.close()
    assert isinstance(events[-1], Finish)
    return events, events[-1]


def stream(*chunks):
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return f"{''.join(lines)}data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode()


MODERATION = {"input": {"type": "moderation_results", "results": [{"flagged": False}]}, "output": None}
ANSWERS = [
    (
        stream(
            chunk("a", moderation=None),
            {"choices": [], "moderation": MODERATION},
            chunk("b", moderation=None),
        ),
        {"moderation": MODERATION},
    ),
    (
        stream(chunk(""), chunk("a", service_tier="flex", system_fingerprint="fp_1"), chunk("b")),
        {"service_tier": "flex", "system_fingerprint": "fp_1"},
    ),
    (stream(chunk("a"), chunk("b"), chunk("c", moderation=MODERATION)), {"moderation": MODERATION}),
    (
        stream(
            chunk("a", citations=["https://a.test/"], images=PICTURES[:0]),
            chunk("b", citations=["https://a.test/"], images=PICTURES),
        ),
        {"images": PICTURES},
    ),
    (
        stream({"id": "", "model": "", "choices": [], "prompt_filter_results": FILTERED}, chunk("a")),
        {"prompt_filter_results": FILTERED},
    ),
]


@pytest.mark.parametrize(("body", "said"), ANSWERS)
def test_extra_fields_become_finish_metadata(body, said):
    assert finish(body, "acme")[1].provider_metadata == {"acme": said}


@pytest.mark.parametrize(("body", "said"), ANSWERS)
def test_it_is_written_again(body, said):
    events, _ = finish(body, "acme")
    writer = server_side(OpenAIChat()).event_encoder(Request(model="m", messages=()))
    again = b"".join(writer.feed(event) for event in events) + writer.close()
    assert finish(again, "acme")[1].provider_metadata == {"acme": said}


def test_an_answer_alone_has_no_metadata():
    image = {"type": "image_url", "image_url": {"url": "https://a.test/1.png"}}
    delta = {"choices": [{"index": 0, "delta": {"images": [image]}}]}
    assert finish(stream(chunk("a"), delta), "acme")[1].provider_metadata is None


def test_failed_response_keeps_extra_fields():
    body = stream(chunk("a", service_tier="flex"))[: -len(b"data: [DONE]\n\n")]
    failed = json.dumps({"error": {"message": "no", "code": "server_error"}})
    events, last = finish(body.rpartition(b"data: ")[0] + f"data: {failed}\n\n".encode(), "acme")
    assert events[-2].error.reason == "server_error"
    assert (last.finish_reason, last.provider_metadata) == ("error", {"acme": {"service_tier": "flex"}})
