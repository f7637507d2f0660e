"""Answers and requests recorded elsewhere, against what another implementation made of them."""

from __future__ import annotations

import json

from llmstream import events as ev
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.mistral import Mistral
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.server_side.wires import server_side

DIFFERENT: dict[str, str] = {}
"""Recordings where ours differs and should: none; docs/corpus/mistral.md has the choices."""

REWRITTEN = {
    "rig-mistral-request-shape-matrix-streaming-mistral-small-json-none": (
        "where no tool may be called, none is sent"
    ),
}
"""Requests that are written otherwise and mean the same."""


def read(body):
    return read_in_two(body, len(body))


def read_in_two(body, at):
    reader = GuardedDecoder(Mistral().decoder(provider="mistral"), provider="mistral")
    return reader.start() + reader.feed(body[:at]) + reader.feed(body[at:]) + reader.close()


def test_recordings_match_the_oracle(differing):
    different = differing(lambda folder: read((folder / "response.bin").read_bytes()))
    assert set(different) <= set(DIFFERENT), different


def test_recording_reads_the_same_at_any_cut(cut_anywhere):
    """A truncated recording keeps the grammar."""
    cut_anywhere(read_in_two)


def test_rewritten_recording_reads_the_same(folders, compare_case):
    for folder in folders:
        events = read((folder / "response.bin").read_bytes())
        if any(isinstance(event, ev.ErrorEvent) for event in events):
            continue
        encoder = server_side(Mistral()).event_encoder(Request(model="m"))
        again = read(b"".join(encoder.feed(event) for event in events) + encoder.close())
        found = compare_case([json.loads(ev.encode(event)) for event in again], folder)
        assert not found or folder.name in DIFFERENT, (folder.name, found)


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    body = (folder / "request.json").read_bytes()
    request = server_side(Mistral()).decode_request(HttpRequest("/v1/chat/completions", body))
    encoded = Mistral().encode(request, provider="mistral")
    return meaning(json.loads(body)), meaning(encoded.http.json()), encoded.warnings


def test_rewritten_request_means_the_same(folders):
    requests = [folder for folder in folders if (folder / "request.json").is_file()]
    for folder in requests:
        recorded, written, warnings = rewritten(folder)
        assert warnings == [], folder.name
        assert (recorded == written) != (folder.name in REWRITTEN), folder.name
    assert len(REWRITTEN) <= 0.05 * len(requests)


def meaning(body):
    """A request without what says nothing: nulls, `prefix: false`, the names beside results, ids' letters."""
    ids = {}
    messages = []
    for message in body["messages"]:
        message = {k: v for k, v in message.items() if v and k != "name"}
        content = message.get("content")
        if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text":
            message["content"] = content[0]["text"]
        for call in message.get("tool_calls", ()):
            call["id"] = ids.setdefault(call["id"], len(ids))
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if "tool_call_id" in message:
            message["tool_call_id"] = ids[message["tool_call_id"]]
        messages.append(message)
    return {**{k: v for k, v in body.items() if v is not None}, "messages": messages}
