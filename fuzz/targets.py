"""What is fuzzed: by name, where the test is and which modules of ours the fuzzer watches."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import NamedTuple

DIALECTS = (
    "ollama",
    "mistral",
    "cohere",
    "bedrock-converse",
    "gemini",
    "anthropic",
    "openai-chat",
    "gemini-interactions",
    "openai-responses",
)


class Target(NamedTuple):
    """One thing that reads bytes.

    test:    module and function of this package; a dialect's is made by `sentences.target`
    watched: modules whose branches guide the fuzzer
    max_len: of an input, in bytes
    goal:    executions before a release
    """

    test: str
    watched: tuple[str, ...]
    max_len: int
    goal: int


def _dialect(name: str) -> Target:
    package = "llmstream.dialects." + name.replace("-", "_")
    shared = ("llmstream.dialects.tool_calls", "llmstream.dialects.tool_calls")
    return Target("fuzz.sentences:target", (package, *shared), 512, 2_000_000)


TARGETS = {
    "sse": Target("fuzz.framings:sse", ("llmstream.framing",), 72, 10_000_000),
    "ndjson": Target("fuzz.framings:ndjson", ("llmstream.framing",), 96, 10_000_000),
    "aws-event-stream": Target("fuzz.framings:aws_event_stream", ("llmstream.framing",), 160, 10_000_000),
    "partial-json": Target("fuzz.partial_json:partial_json", ("llmstream.partial_json",), 64, 10_000_000),
    **{name: _dialect(name) for name in DIALECTS},
}


def load(name: str) -> Callable[[bytes], None]:
    """The function that takes an input, silent but for the error where what has to hold does not."""
    logging.getLogger("llmstream").setLevel(logging.CRITICAL)
    module, _, function = TARGETS[name].test.partition(":")
    found = getattr(importlib.import_module(module), function)
    test: Callable[[bytes], None] = found(name) if name in DIALECTS else found
    return test
