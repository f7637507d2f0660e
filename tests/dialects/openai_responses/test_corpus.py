"""Recorded answers and requests of some ten servers, against an independent decoder and themselves.

The recordings live outside the repository; docs/corpus/openai-responses.md says why some differ.
"""

from __future__ import annotations

import json
import random

import pytest

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import encode
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.server_side.wires import server_side

EXCEPTIONS = {
    "pydantic-tool-search-openai-client-tool-search-streaming-t1": "a call for the caller is tool-calls",
    "rig-openai-streaming-grammar-incomplete-mid-tool-call": "a call cut by the limit is no call",
}
"""Recordings that differ on purpose."""

CHANGED_AT_THE_END = {
    "vercel-openai-responses-openai-shell-skills-1": "the item's command is another than the streamed one",
    "vercel-xai-responses-xai-x-search-tool": "searches run at once; they are written one by one",
}
"""Recordings whose events are not the same once written and read again."""


@pytest.fixture(scope="module")
def cases(shared_dir):
    folder = shared_dir / "corpus" / "openai-responses"
    if not folder.is_dir():
        pytest.skip("the corpus is not here")
    return sorted(path for path in folder.iterdir() if (path / "response.bin").is_file())


def dialect_of(folder):
    return json.loads((folder / "meta.json").read_text(encoding="utf-8"))["dialect"]


def test_recordings_match_the_oracle(wire, cases, compare_case):
    different = {}
    for folder in cases:
        answer = wire.read((folder / "response.bin").read_bytes(), provider=dialect_of(folder))
        differences = compare_case([json.loads(encode(event)) for event in answer.events], folder)
        if differences:
            different[folder.name] = differences
    unnamed = {name: lines for name, lines in different.items() if name not in EXCEPTIONS}
    assert unnamed == {}
    assert len(different) <= 0.02 * len(cases)


def test_random_cuts_keep_the_grammar(wire, cases):
    random_ = random.Random(4)
    for folder in random_.sample(cases, min(60, len(cases))):
        body = (folder / "response.bin").read_bytes()
        whole = wire.read(body).events
        cuts = sorted(random_.sample(range(1, len(body)), min(6, len(body) - 1)))
        assert wire.read(body, cuts=cuts).events == whole
        wire.read(body[: random_.randrange(len(body))])


def test_rewritten_recording_reads_the_same(wire, cases):
    for folder in cases:
        events = wire.read((folder / "response.bin").read_bytes()).events
        writer = server_side(OpenAIResponses()).event_encoder(Request(model="m"))
        again = wire.read(b"".join(writer.feed(event) for event in events) + writer.close()).events
        same = wire.merged(again) == wire.merged(events)
        assert same or folder.name in CHANGED_AT_THE_END, folder.name


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    dialect = OpenAIResponses()
    body = (folder / "request.json").read_bytes()
    encoded = dialect.encode(
        server_side(dialect).decode_request(HttpRequest("/responses", body)), provider="openai"
    )
    return meaning(json.loads(body)), meaning(encoded.http.json()), encoded.warnings


def test_rewritten_request_is_the_same(cases):
    requests = [folder for folder in cases if (folder / "request.json").is_file()]
    for folder in requests:
        recorded, written, warnings = rewritten(folder)
        assert (written, warnings) == (recorded, []), folder.name
    assert requests


def meaning(body):
    """A body without what may differ: see docs/corpus/openai-responses.md, "Requests"."""
    out = {name: value for name, value in body.items() if value not in (None, [])}
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    out["input"] = [item_meaning(item) for item in items]
    out["tools"] = [
        {name: value for name, value in tool.items() if value not in (None, "")}
        for tool in body.get("tools") or ()
    ]
    return out


def item_meaning(item):
    out = {name: value for name, value in item.items() if value is not None}
    if out.get("type") == "message":
        del out["type"]
    if isinstance(out.get("content"), str):
        kind = "output_text" if out["role"] == "assistant" else "input_text"
        out["content"] = [{"type": kind, "text": out["content"]}]
    if isinstance(out.get("content"), list):
        out["content"] = [
            {k: v for k, v in piece.items() if k not in ("annotations", "logprobs") or v}
            for piece in out["content"]
        ]
    return {k: v for k, v in out.items() if not (k == "content" and v == [])}
