"""What a model on Bedrock can do, told by its id.

One API serves many vendors' models, and Bedrock refuses what a model does not know. An id that
says nothing (an ARN of an inference profile, an imported model) is taken to know everything.
source: "Supported models and model features" in the Amazon Bedrock user guide
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from llmstream.model_rules.claude import CLAUDE

__all__ = ["Traits", "traits"]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What to expect of a model.

    caching:       it takes cache points where another vendor's cache marks stand
    citations:     texts go back with the citations they came with
    tool_choice:   it can be told which tool to call, that it must call one, that it may, or nothing
    result_status: results of tools may say that they failed
    lone_results:  results of tools stand alone in their turn
    short_ids:     ids of calls are nine letters and digits
    schemas:       the answer can be held to a JSON schema
    strict_tools:  so can the input of a tool
    top_k:         where the setting stands in `additionalModelRequestFields`; () where there is none
    audio:         recordings may be sent
    reasoning:     how much to think is told by a budget or effort in Claude's words, Nova's or OpenAI's
    """

    caching: bool = True
    citations: bool = True
    tool_choice: Literal["named", "any", "auto", "none"] = "named"
    result_status: bool = True
    lone_results: bool = False
    short_ids: bool = False
    schemas: bool = True
    strict_tools: bool = True
    top_k: tuple[str, ...] = ("top_k",)
    audio: bool = True
    reasoning: Literal["claude", "nova", "openai"] | None = None


_OPEN: Final = Traits(caching=False, citations=False, top_k=(), audio=False)
_PLAIN: Final = Traits(
    caching=False,
    citations=False,
    tool_choice="none",
    schemas=False,
    strict_tools=False,
    top_k=(),
    audio=False,
)

_CLAUDE: Final = Traits(audio=False, reasoning="claude")
_NOVA: Final = Traits(schemas=False, strict_tools=False, top_k=("inferenceConfig", "topK"), audio=False)
_NOVA_2: Final = msgspec.structs.replace(_NOVA, reasoning="nova")
_MISTRAL: Final = msgspec.structs.replace(
    _PLAIN, tool_choice="any", lone_results=True, short_ids=True, schemas=True, top_k=("top_k",)
)

_FAMILIES: Final[tuple[tuple[re.Pattern[str], Traits], ...]] = tuple(
    (re.compile(pattern), found)
    for pattern, found in (
        (r"nova-2|nova-(lite|pro|micro|premier)-v2", _NOVA_2),
        (r"amazon\.nova|nova-(lite|pro|micro|premier|sonic)", _NOVA),
        (r"llama", msgspec.structs.replace(_PLAIN, lone_results=True)),
        (r"mistral|mixtral|pixtral|ministral|magistral|voxtral|devstral", _MISTRAL),
        (r"palmyra|^writer\.|\.writer\.", msgspec.structs.replace(_PLAIN, result_status=False)),
        (r"cohere\.|command-r", msgspec.structs.replace(_PLAIN, top_k=("k",))),
        (r"titan|ai21|jamba", _PLAIN),
        (r"gpt-oss", msgspec.structs.replace(_OPEN, reasoning="openai")),
        (r"deepseek|qwen|kimi|minimax|gemma|nemotron|glm", _OPEN),
    )
)

_HEARS: Final = re.compile(r"voxtral|omni|sonic")
"""Models that take recordings, of families that do not."""


def traits(model: str) -> Traits:
    """What a model of this id can do."""
    name = model.lower()
    if "claude" in name:
        rules = CLAUDE.find(name)
        schemas = rules.bedrock_schemas
        forced: Literal["named", "auto"] = "named" if rules.forced_tools else "auto"
        return msgspec.structs.replace(_CLAUDE, schemas=schemas, strict_tools=schemas, tool_choice=forced)
    found = next((found for pattern, found in _FAMILIES if pattern.search(name)), Traits())
    return msgspec.structs.replace(found, audio=True) if _HEARS.search(name) else found
