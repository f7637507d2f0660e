"""Recorded answers of real daemons, against what an independent decoder made of them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from llmstream import events, grammar
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.sentence import Sentence


def test_every_recording_says_what_the_oracle_says(shared_dir: Path) -> None:
    spec = importlib.util.spec_from_file_location("corpus_compare", shared_dir / "corpus_compare.py")
    assert spec is not None
    assert spec.loader is not None
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    differences: dict[str, list[str]] = {}
    folders = sorted(p.parent for p in (shared_dir / "corpus" / "ollama").glob("*/response.bin"))
    for folder in folders:
        sentence = Sentence(Ollama().decoder(provider="ollama"), provider="ollama")
        seen = sentence.start() + sentence.feed((folder / "response.bin").read_bytes()) + sentence.close()
        found = compare.compare_case([json.loads(events.encode(e)) for e in seen], folder)
        meta = json.loads((folder / "meta.json").read_text())
        if meta.get("wire_error"):  # the oracle passes over error lines; ours must end in finish(error)
            assert isinstance(seen[-2], events.Error)
            assert isinstance(seen[-1], events.Finish)
            assert seen[-1].finish_reason == "error"
            found = [line for line in found if not line.startswith("finish:")]
        found += grammar.check(seen)
        if found:
            differences[folder.name] = found
    assert folders
    assert differences == {}
