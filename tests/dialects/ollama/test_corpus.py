"""Recorded answers of real daemons, against what an independent decoder made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llmstream import events, grammar
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.ollama import Ollama
from llmstream.exchange import HttpRequest
from llmstream.server_side.wires import server_side


def test_recordings_match_the_oracle(shared_dir: Path, compare_case: Any) -> None:
    differences: dict[str, list[str]] = {}
    folders = sorted(p.parent for p in (shared_dir / "corpus" / "ollama").glob("*/response.bin"))
    for folder in folders:
        sentence = GuardedDecoder(Ollama().decoder(provider="ollama"), provider="ollama")
        seen = sentence.start() + sentence.feed((folder / "response.bin").read_bytes()) + sentence.close()
        found = compare_case([json.loads(events.encode(e)) for e in seen], folder)
        meta = json.loads((folder / "meta.json").read_text())
        if meta.get("wire_error"):  # the oracle passes over error lines; ours must end in finish(error)
            assert isinstance(seen[-2], events.ErrorEvent)
            assert isinstance(seen[-1], events.Finish)
            assert seen[-1].finish_reason == "error"
            found = [line for line in found if not line.startswith("finish:")]
        found += grammar.check(seen)
        if found:
            differences[folder.name] = found
    assert folders
    assert differences == {}


def rewritten(folder: Path) -> tuple[Any, Any, list[Any]]:
    """What a recorded request means, what it means once read and written again, and what was left out."""
    body = (folder / "request.json").read_bytes()
    http = HttpRequest(json.loads((folder / "meta.json").read_text())["url"], body)
    assert server_side(Ollama()).accepts(http)
    encoded = Ollama().encode(server_side(Ollama()).decode_request(http), provider="ollama")
    return meaning(json.loads(body)), meaning(encoded.http.json()), encoded.warnings


def meaning(body: dict[str, Any]) -> dict[str, Any]:
    """A request as the daemon understands it; docs/corpus/ollama.md lists what this levels out."""
    out = {name: value for name, value in body.items() if value not in (None, "", {}, [])}
    out["messages"] = []
    for message in body["messages"]:
        said = {k: v for k, v in message.items() if v not in (None, []) and k != "tool_call_id"}
        calls = [call["function"] for call in said.pop("tool_calls", ())]
        said["calls"] = [(call["name"], call["arguments"]) for call in calls]
        out["messages"].append(said)
    return out


def test_rewritten_request_means_the_same(shared_dir: Path) -> None:
    requests = sorted(p.parent for p in (shared_dir / "corpus" / "ollama").glob("*/request.json"))
    for folder in requests:
        recorded, written, warnings = rewritten(folder)
        assert (written, warnings) == (recorded, []), folder.name
    assert requests
