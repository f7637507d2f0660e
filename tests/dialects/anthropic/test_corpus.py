"""Answers recorded elsewhere, against what another implementation made of them."""

from __future__ import annotations

import json
import random

from llmstream import events as ev
from llmstream.dialects.anthropic import BEDROCK_INVOKE, VERTEX, Anthropic
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.exchange import HttpRequest
from llmstream.grammar import check
from llmstream.request import Request
from llmstream.server_side.wires import server_side

DIFFERENT = {
    "pydantic-anthropic-compaction-usage-with-cache-streaming": (
        "cache reads of the compaction are billed, so they count; the other leaves them out"
    ),
    "pydantic-anthropic-pause-turn-web-search-streaming-vcr-t1": (
        "pause_turn asks to go on, so it is `other`; the other says `stop`"
    ),
}
"""Recordings where ours differs and should: docs/corpus/anthropic.md says more."""


def read(folder, *, at=None, until=None):
    """The sentence of a recording, cut in two at a place, or broken off at one."""
    name = json.loads((folder / "meta.json").read_text())["dialect"]
    dialect = BEDROCK_INVOKE if name == "bedrock-invoke" else Anthropic()
    body = (folder / "response.bin").read_bytes()
    body = body if until is None else body[:until]
    reader = GuardedDecoder(dialect.decoder(provider=name), provider=name)
    out = reader.start()
    for chunk in (body,) if at is None else (body[:at], body[at:]):
        out = out + reader.feed(chunk)
    return out + reader.close()


def test_recordings_match_the_oracle(folders, differing):
    different = differing(read)
    assert set(different) <= set(DIFFERENT), different
    assert len(different) <= 0.02 * len(folders)


def test_recording_reads_the_same_at_any_cut(folders):
    place = random.Random(7)
    for folder in folders:
        size = (folder / "response.bin").stat().st_size
        whole = read(folder)
        for _ in range(4):
            assert read(folder, at=place.randrange(size)) == whole, folder.name


def test_truncated_recording_keeps_grammar(folders):
    place = random.Random(8)
    for folder in folders:
        size = (folder / "response.bin").stat().st_size
        for _ in range(4):
            assert check(read(folder, until=place.randrange(size))) == [], folder.name


def test_rewritten_recording_reads_the_same(folders):
    for folder in folders:
        events = read(folder)
        if any(isinstance(event, ev.ErrorEvent) for event in events):
            continue
        encoder = server_side(Anthropic()).event_encoder(Request(model="m"))
        body = b"".join(encoder.feed(event) for event in events)
        reader = GuardedDecoder(Anthropic().decoder(provider="x"), provider="x")
        assert [*reader.start(), *reader.feed(body), *reader.close()] == events, folder.name


HOSTED = {"bedrock-invoke": BEDROCK_INVOKE, "vertex": VERTEX}


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    meta = json.loads((folder / "meta.json").read_text())
    dialect = HOSTED.get(meta["dialect"], Anthropic())
    body = (folder / "request.json").read_bytes()
    http = HttpRequest(meta["url"], body, meta.get("request_headers", {}))
    assert server_side(dialect).accepts(http)
    encoded = dialect.encode(server_side(dialect).decode_request(http), provider=meta["dialect"])
    recorded, written = meaning(json.loads(body), http), meaning(encoded.http.json(), encoded.http)
    written["betas"] = [beta for beta in written["betas"] if beta in recorded["betas"]]  # tools bring theirs
    return recorded, written, encoded.warnings


def meaning(body, http):
    """A request as the vendor understands it; docs/corpus/anthropic.md lists what this levels out."""
    out = {name: value for name, value in body.items() if value not in (None, [])}
    betas = http.headers.get("anthropic-beta", "").replace(" ", "").split(",")
    out["betas"] = sorted({*betas, *out.pop("anthropic_beta", ())} - {""})
    if "system" in out:
        out["system"] = blocks(out["system"])
    out["messages"] = [
        {"role": message["role"], "content": blocks(message["content"])} for message in body["messages"]
    ]
    return out


def blocks(content):
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {**block, "content": blocks(block["content"])}
        if block["type"] == "tool_result" and "content" in block
        else block
        for block in content
    ]


def test_rewritten_request_means_the_same(folders):
    requests = [folder for folder in folders if (folder / "request.json").is_file()]
    for folder in requests:
        recorded, written, warnings = rewritten(folder)
        assert (written, warnings) == (recorded, []), folder.name
    assert requests
