"""Answers and requests recorded elsewhere, against what another implementation made of them.

The recordings live outside the repository; docs/corpus/gemini.md says what may differ.
"""

from __future__ import annotations

import json
import random

from llmstream.dialects.gemini import VERTEX, Gemini
from llmstream.dialects.media import base64_bytes
from llmstream.exchange import HttpRequest
from llmstream.server_side.wires import server_side

DIFFERENT: dict[str, str] = {}
"""Recordings whose events differ on purpose."""


def test_recordings_read_as_elsewhere(wire, differing):
    different = differing(lambda folder: wire.read((folder / "response.bin").read_bytes()).events)
    assert {name: found for name, found in different.items() if name not in DIFFERENT} == {}


def test_random_cuts_keep_the_grammar(wire, folders):
    random_ = random.Random(5)
    for folder in folders:
        body = (folder / "response.bin").read_bytes()
        whole = wire.read(body).events
        cuts = sorted(random_.sample(range(1, len(body)), 3))
        assert wire.read(body, cuts=cuts).events == whole, folder.name
        wire.read(body[: random_.randrange(len(body))])


def meaning(value, key=""):
    """A request as the vendor understands it; docs/corpus/gemini.md lists what this levels out."""
    if isinstance(value, list):
        return [meaning(item) for item in value if item != {"text": ""}]
    if key == "data":
        return base64_bytes(value)
    if not isinstance(value, dict):
        return value.lower() if key == "type" else value
    out = {}
    for name, inner in value.items():
        new = {"parameters": "parametersJsonSchema", "responseSchema": "responseJsonSchema"}.get(name, name)
        level = meaning(inner, name)
        if name == "systemInstruction" and level:
            level.pop("role", None)
        empty = level in (None, False, "", [], {}) and name not in ("args", "response", "output", "text")
        if (empty and not isinstance(inner, dict)) or (empty and name in ("generationConfig", "toolConfig")):
            continue
        if new == "parametersJsonSchema" and not level.get("properties"):
            continue
        out[new] = level
    return out


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    meta = json.loads((folder / "meta.json").read_text())
    body = (folder / "request.json").read_bytes()
    dialect = VERTEX if meta["dialect"] == "vertex" else Gemini()
    http = HttpRequest(meta["url"], body)
    assert server_side(dialect).accepts(http)
    encoded = dialect.encode(server_side(dialect).decode_request(http), provider=meta["dialect"])
    recorded = meaning(json.loads(body))
    recorded.pop("model", None)
    return recorded, meaning(encoded.http.json()), encoded.warnings


def test_requests_are_sent_on_as_they_were(folders):
    different = {}
    for folder in folders:
        if not (folder / "request.json").is_file():
            continue
        recorded, written, warnings = rewritten(folder)
        assert warnings == []
        if recorded != written:
            different[folder.name] = (recorded, written)
    assert different == {}
