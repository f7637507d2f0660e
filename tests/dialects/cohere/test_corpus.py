"""Answers and requests recorded elsewhere, against what another implementation made of them."""

from __future__ import annotations

import json

from llmstream import events as ev
from llmstream.dialects.cohere import Cohere
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.server_side.wires import server_side

PLAN = "the tool plan is reasoning; the other drops it"

DIFFERENT = {
    "cut-tool-vercel-cohere-tool-call": PLAN,
    "openllmetry-cohere-chat-cohere-v2-chat-legacy-with-tool-calls-and-streaming": PLAN,
    "rubyllm-chat-function-calling-cohere-command-a-03-2025-can-use-tools-without-par-1e6f3cd5-t1": PLAN,
    "vercel-cohere-empty-tool-call": PLAN,
}
"""Recordings where ours differs and should: docs/corpus/cohere.md says more."""


def read(body):
    return read_in_two(body, len(body))


def read_in_two(body, at):
    reader = GuardedDecoder(Cohere().decoder(provider="cohere"), provider="cohere")
    return reader.start() + reader.feed(body[:at]) + reader.feed(body[at:]) + reader.close()


def without_plan(events):
    """The same events without the tool plan."""
    plans = {e.id for e in events if isinstance(e, ev.ReasoningStart) and e.provider_metadata}
    return [e for e in events if getattr(e, "id", None) not in plans]


def test_recordings_match_the_oracle(folders, differing, compare_case):
    """Except for the tool plan."""
    different = differing(lambda folder: read((folder / "response.bin").read_bytes()))
    assert set(different) <= set(DIFFERENT), different
    for folder in folders:
        events = without_plan(read((folder / "response.bin").read_bytes()))
        assert compare_case([json.loads(ev.encode(event)) for event in events], folder) == [], folder.name


def test_recording_reads_the_same_at_any_cut(cut_anywhere):
    """A truncated recording keeps the grammar."""
    cut_anywhere(read_in_two)


def test_rewritten_recording_reads_the_same(folders):
    for folder in folders:
        events = read((folder / "response.bin").read_bytes())
        if any(isinstance(event, ev.ErrorEvent) for event in events):
            continue
        encoder = server_side(Cohere()).event_encoder(Request(model="m"))
        assert read(b"".join(encoder.feed(event) for event in events) + encoder.close()) == events


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    body = (folder / "request.json").read_bytes()
    request = server_side(Cohere()).decode_request(HttpRequest("/v2/chat", body))
    encoded = Cohere().encode(request, provider="cohere")
    return meaning(json.loads(body)), meaning(encoded.http.json()), encoded.warnings


def test_rewritten_request_means_the_same(folders):
    for folder in folders:
        if (folder / "request.json").is_file():
            recorded, written, warnings = rewritten(folder)
            assert (written, warnings) == (recorded, []), folder.name


def meaning(body):
    """A request without what says nothing: nulls, empty texts and lists."""
    messages = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, list):
            content = [part for part in content if part.get("text") != ""]
            one = len(content) == 1 and content[0]["type"] == "text"
            message = {**message, "content": content[0]["text"] if one else content}
        messages.append({k: v for k, v in message.items() if v})
    return {**{k: v for k, v in body.items() if v not in (None, [])}, "messages": messages}
