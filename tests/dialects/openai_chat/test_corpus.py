"""Recorded answers of some twenty servers, against what an independent decoder makes of them.

The recordings live outside the repository; docs/corpus/openai-chat.md says why some differ.
"""

from __future__ import annotations

import importlib.util
import json
import random

import pytest

from llmstream.dialects.openai_chat import Quirks
from llmstream.events import encode

QUIRKS = {"xai": Quirks(dedupe_reasoning=True, output_excludes_reasoning=True, input_may_exclude_cached=True)}
"""The one vendor whose wire does not say enough to be read without being told who it is."""

CUT = "a call whose input was cut by length is no call here"

EXCEPTIONS = {
    "openinference-openinference-instructor-streaming": "a forced call with reason stop is tool-calls",
    "pydantic-snowflake-thinking-streaming": "reasoning only in reasoning_details is read",
    "rig-deepseek-truncation-matrix-agent-streaming-empty-arguments-on-length-are-not-invoked": CUT,
    "rig-llamacpp-truncation-matrix-streaming-tool-call-cut-mid-arguments": CUT,
    "rig-openai-chat-terminal-metadata-matrix-streaming-gpt-4-1-mini-tiny-tool": CUT,
    "rig-openai-chat-terminal-metadata-matrix-streaming-gpt-4o-mini-tiny-tool": CUT,
}
"""Recordings that differ on purpose."""


@pytest.fixture(scope="module")
def compare_case(shared_dir):
    path = shared_dir / "corpus_compare.py"
    if not path.is_file():
        pytest.skip("the corpus comparison is not here")
    spec = importlib.util.spec_from_file_location("corpus_compare", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare_case


@pytest.fixture(scope="module")
def cases(shared_dir):
    folder = shared_dir / "corpus" / "openai-chat"
    if not folder.is_dir():
        pytest.skip("the corpus is not here")
    return [path for path in sorted(folder.iterdir()) if (path / "meta.json").is_file()]


def dialect_of(folder):
    return json.loads((folder / "meta.json").read_text(encoding="utf-8"))["dialect"]


def test_the_corpus_is_read_as_the_oracle_reads_it(wire, cases, compare_case):
    different = {}
    for folder in cases:
        name = dialect_of(folder)
        body = (folder / "response.bin").read_bytes()
        answer = wire.read(body, QUIRKS.get(name, Quirks()), provider=name)
        differences = compare_case([json.loads(encode(event)) for event in answer.events], folder)
        if differences:
            different[folder.name] = differences
    unnamed = {name: lines for name, lines in different.items() if name not in EXCEPTIONS}
    assert len(unnamed) <= 0.02 * len(cases), unnamed
    assert unnamed == {}
    assert len(different) <= 0.03 * len(cases)


def test_the_corpus_keeps_the_grammar_at_random_cuts_and_ends(wire, cases):
    random_ = random.Random(2)
    for folder in random_.sample(cases, min(60, len(cases))):
        body = (folder / "response.bin").read_bytes()
        name = dialect_of(folder)
        whole = wire.read(body, provider=name).events
        cuts = sorted(random_.sample(range(1, len(body)), min(6, len(body) - 1)))
        assert [type(event) for event in wire.read(body, cuts=cuts, provider=name).events] == [
            type(event) for event in whole
        ]
        wire.read(body[: random_.randrange(len(body))], provider=name)
