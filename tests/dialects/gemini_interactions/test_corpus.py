"""Answers and requests recorded elsewhere, against what another implementation made of them.

The recordings live outside the repository; docs/corpus/gemini-interactions.md says what may differ.
"""

from __future__ import annotations

import json
import random

from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.exchange import HttpRequest
from llmstream.server_side.wires import server_side

DIFFERENT: dict[str, str] = {}
"""Recordings whose events differ on purpose."""


def test_recordings_read_as_elsewhere(wire, differing):
    different = differing(lambda folder: wire.read((folder / "response.bin").read_bytes()).events)
    assert {name: found for name, found in different.items() if name not in DIFFERENT} == {}


def test_random_cuts_keep_the_grammar(wire, folders):
    random_ = random.Random(6)
    for folder in folders:
        body = (folder / "response.bin").read_bytes()
        whole = wire.read(body).events
        for _ in range(5):
            cuts = sorted(random_.sample(range(1, len(body)), 3))
            assert wire.read(body, cuts=cuts).events == whole, folder.name
            wire.read(body[: random_.randrange(len(body))])


def meaning(body):
    """A request as the vendor understands it: an input in its long form, no thoughts as the default."""
    given = body["input"]
    if isinstance(given, str):
        given = [{"type": "text", "text": given}]
    if given[0]["type"] != "user_input":
        given = [{"type": "user_input", "content": given}]
    config = {name: value for name, value in body.get("generation_config", {}).items() if value != "none"}
    return {**body, "input": given, "generation_config": config}


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    dialect = GeminiInteractions()
    body = (folder / "request.json").read_bytes()
    http = HttpRequest(json.loads((folder / "meta.json").read_text())["url"], body)
    assert server_side(dialect).accepts(http)
    encoded = dialect.encode(server_side(dialect).decode_request(http), provider="google")
    return meaning(json.loads(body)), meaning(encoded.http.json()), encoded.warnings


def test_requests_are_sent_on_as_they_were(folders):
    for folder in folders:
        if (folder / "request.json").is_file():
            recorded, written, warnings = rewritten(folder)
            assert (written, warnings) == (recorded, []), folder.name
