"""Capabilities of a model on Bedrock, derived from its id.

One API serves many vendors' models, and Bedrock rejects what a model does not support. A model whose id
is not recognized (an ARN of an inference profile, an imported model) is assumed to support everything.
source: "Supported models and model features" in the Amazon Bedrock user guide
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from llmstream.model_rules.claude import CLAUDE

__all__ = ["Traits", "traits"]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Capabilities of a model.

    caching:       cache points, also in place of another vendor's cache marks
    citations:     texts are sent back with their citations
    tool_choice:   strictest supported choice: a named tool, any tool, auto, or none at all
    result_status: tool results may have an error status
    lone_results:  a turn with tool results has no other content
    short_ids:     call ids have nine letters and digits
    schemas:       output can be held to a JSON schema
    strict_tools:  tool input can be held to its schema
    top_k:         path of the setting in `additionalModelRequestFields`; () if unsupported
    audio:         recordings may be sent
    reasoning:     form of budget or effort: Claude's, Nova's or OpenAI's
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

# Models with audio, of families without.
_AUDIO_MODELS: Final = re.compile(r"voxtral|omni|sonic")


def traits(model: str) -> Traits:
    """Returns the capabilities of a model by its id."""
    name = model.lower()
    if "claude" in name:
        rules = CLAUDE.find(name)
        schemas = rules.bedrock_schemas
        forced: Literal["named", "auto"] = "named" if rules.forced_tools else "auto"
        return msgspec.structs.replace(_CLAUDE, schemas=schemas, strict_tools=schemas, tool_choice=forced)
    found = next((found for pattern, found in _FAMILIES if pattern.search(name)), Traits())
    return msgspec.structs.replace(found, audio=True) if _AUDIO_MODELS.search(name) else found
