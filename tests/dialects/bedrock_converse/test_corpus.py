"""Answers and requests recorded elsewhere, against what another implementation made of them."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from llmstream import events as ev
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.server_side.wires import server_side

DIFFERENT: dict[str, str] = {}
"""Recordings where ours differs and should: docs/corpus/bedrock-converse.md says more."""

MERGED = {
    "openllmetry-bedrock-guardrails-guardrail-converse-stream": "two turns of the user become one",
}
"""Requests that come out otherwise, and how."""


def read(body, *, at=None):
    """The sentence of a body, cut in two at a place."""
    reader = GuardedDecoder(BedrockConverse().decoder(provider="bedrock"), provider="bedrock")
    out = reader.start()
    for chunk in (body,) if at is None else (body[:at], body[at:]):
        out = out + reader.feed(chunk)
    return out + reader.close()


def test_recordings_match_the_oracle(folders, differing):
    different = differing(lambda folder: read((folder / "response.bin").read_bytes()))
    assert set(different) <= set(DIFFERENT), different
    assert len(different) <= 0.02 * len(folders)


def test_recording_reads_the_same_at_any_cut(cut_anywhere):
    """A truncated recording keeps the grammar."""
    cut_anywhere(lambda body, at: read(body, at=at), times=8)


def test_rewritten_recording_reads_the_same(folders):
    for folder in folders:
        events = read((folder / "response.bin").read_bytes())
        if any(isinstance(event, ev.ErrorEvent) for event in events):
            continue
        encoder = server_side(BedrockConverse()).event_encoder(Request(model="m"))
        again = read(b"".join(encoder.feed(event) for event in events))
        assert _without_gaps(again) == _without_gaps(events), folder.name


def _without_gaps(events):
    """The same with blocks counted as they come: some recordings leave out an index."""
    names = {}
    for event in events:
        if isinstance(event, (ev.TextStart, ev.ReasoningStart)):
            names[event.id] = f"block-{len(names)}"
    return [
        ev.decode(ev.encode(event).replace(b'"id":"%b"' % event.id.encode(), b'"id":"%b"' % new.encode()))
        if (new := names.get(getattr(event, "id", None)))
        else event
        for event in events
    ]


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    dialect = BedrockConverse()
    body = (folder / "request.json").read_bytes()
    url = urlsplit(json.loads((folder / "meta.json").read_text())["url"]).path
    encoded = dialect.encode(server_side(dialect).decode_request(HttpRequest(url, body)), provider="bedrock")
    return _meaning(json.loads(body)), _meaning(encoded.http.json()), encoded.warnings


def test_a_recorded_request_is_written_again(folders):
    requests = [folder for folder in folders if (folder / "request.json").is_file()]
    for folder in requests:
        recorded, written, warnings = rewritten(folder)
        assert warnings == [], folder.name
        assert (recorded == written) != (folder.name in MERGED), folder.name
    assert len(MERGED) <= 0.05 * len(requests)


def _meaning(value):
    """A body without empty fields, and schemas as values instead of text."""
    if isinstance(value, dict):
        kept = {key: _meaning(item) for key, item in value.items() if item not in ({}, [], None)}
        if isinstance(kept.get("schema"), str):
            kept["schema"] = json.loads(kept["schema"])
        return kept
    return [_meaning(item) for item in value] if isinstance(value, list) else value


def test_recorded_refusals_are_typed(shared_dir, compare_case):
    for path in sorted((shared_dir / "corpus" / "errors").glob("*/meta.json")):
        meta = json.loads(path.read_text())
        if meta["of_family"] != "bedrock-converse":
            continue
        body = (path.parent / "response.bin").read_bytes()
        headers = {"content-type": meta["content_type"], **meta["headers"]}
        error = BedrockConverse().decode_error(meta["status"], headers, body, provider="bedrock")
        events = [ev.StreamStart(), ev.ErrorEvent(error.info), ev.Finish("error")]
        assert compare_case([json.loads(ev.encode(e)) for e in events], path.parent) == [], path
        assert error.message == json.loads(body)["message"]
        assert error.request_id == meta["headers"].get("x-amzn-requestid")
