"""What Google's models take and refuse, in generateContent and in Interactions.

Sources, read 2026-11: ai.google.dev ("Thinking", "Function calling", "Models", "Long decode");
docs.cloud.google.com (3.6 Flash, thinking by model); pydantic-ai-slim 2.68 `profiles/google.py` (tried live
there); @ai-sdk/google 4.0.121 `google-model-catalog.ts`; litellm 1.109 for sizes.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from llmstream.model_rules import Row, Table

__all__ = ["GEMINI", "GeminiRules"]


class GeminiRules(msgspec.Struct, frozen=True, kw_only=True):
    """One row. Defaults are the common ground: an alias, a tuned model, an endpoint.

    thinking:          not at all, by a budget of tokens (2.5), or by a level (3 and later)
    always_thinks:     thinking cannot be switched off
    levels:            those it knows, in order
    max_budget:        the largest budget it takes
    signs_calls:       it refuses calls of its own that come back without their thought signature
    mixes_tools:       the vendor's tools, functions and a response schema may be combined;
                       None where the name does not determine it
    result_media:      images and files may be inside the result of a function
    system:            it has a place for system instructions
    fetches_urls:      media may be given by any web address
    sampling:          temperature, topP and topK have an effect; where not, they are ignored
    penalties:         presence and frequency penalties are taken; only 2.0 does ("Penalty is not enabled for
                       this model", seen 2026-07, google-gemini/cookbook#1290, vercel/ai#8943)
    prefix:            a conversation may end in a turn of the model
    context_tokens:    of the input; None where unknown
    max_output_tokens: of one answer, over all its continuations; None where unknown
    """

    thinking: Literal["none", "budget", "level"] = "budget"
    always_thinks: bool = False
    levels: tuple[str, ...] = ("minimal", "low", "medium", "high")
    max_budget: int = 24_576
    signs_calls: bool = False
    mixes_tools: bool | None = None
    result_media: bool = False
    system: bool = True
    fetches_urls: bool = True
    sampling: bool = True
    penalties: bool = True
    prefix: bool = True
    context_tokens: int | None = None
    max_output_tokens: int | None = None


_OLD: Final = GeminiRules(thinking="none", mixes_tools=False, fetches_urls=False, context_tokens=1_048_576)
_V2_5: Final = GeminiRules(
    mixes_tools=False, penalties=False, context_tokens=1_048_576, max_output_tokens=65_536
)
_V3: Final = GeminiRules(
    thinking="level",
    always_thinks=True,
    max_budget=32_768,
    signs_calls=True,
    mixes_tools=True,
    result_media=True,
    penalties=False,
    context_tokens=1_048_576,
    max_output_tokens=65_536,
)
_LOW_TO_HIGH: Final = ("low", "medium", "high")
_V3_6: Final = msgspec.structs.replace(_V3, sampling=False, prefix=False)
_NEWEST: Final = msgspec.structs.replace(_V3_6, levels=_LOW_TO_HIGH)

_CATALOGS: Final = "pydantic-ai-slim 2.68, @ai-sdk/google 4.0.121, ai.google.dev"
_CLOUD: Final = "docs.cloud.google.com (3.6 Flash), anomalyco/opencode#38924"


def _row(models: str, rules: GeminiRules, source: str = _CATALOGS) -> Row[GeminiRules]:
    """A row for names that begin so, after "models/", "google/" or "publishers/google/models/"."""
    return Row(rf"(?:^|/)(?:{models})", rules, "2026-11", source)


# Rules by name, such as `gemini-3.8-flash` or `models/gemini-4-argon`.
GEMINI: Final = Table(
    _row("gemma", GeminiRules(thinking="none", mixes_tools=False, system=False, fetches_urls=False)),
    _row(r"gemini-(?:1|2\.[0-4]|exp-|pro(?:-vision)?$)|learnlm|aqa", _OLD),
    _row(r"gemini-2\.5-[^/]*(?:image|tts)", msgspec.structs.replace(_V2_5, thinking="none")),
    _row(
        r"gemini-2\.5-[^/]*pro",
        msgspec.structs.replace(_V2_5, always_thinks=True, max_budget=32_768),
    ),
    _row(r"gemini-(?:live-)?2\.5|gemini-robotics-er-1\.5", _V2_5),
    _row(r"gemini-3-pro(?!-image)", msgspec.structs.replace(_V3, levels=("low", "high"))),
    _row(r"gemini-3(?:\.[0-4])?-[^/]*pro", msgspec.structs.replace(_V3, levels=_LOW_TO_HIGH)),
    _row(r"gemini-3\.1-flash(?:-lite)?-image", msgspec.structs.replace(_V3, levels=("minimal", "high"))),
    _row(r"gemini-3(?:\.[0-4])?-|gemini-3\.5-flash(?!-lite)", _V3),
    _row(r"gemini-3\.[5-9]-flash-lite|gemini-3\.[56]-|gemini-flash-lite-latest", _V3_6, _CLOUD),
    _row(r"gemini-(?:flash|pro)-latest", _NEWEST),
    _row(r"gemini-4-argon", msgspec.structs.replace(_NEWEST, max_output_tokens=1_048_576)),
    _row(
        r"gemini-4-hydrogen",
        msgspec.structs.replace(_NEWEST, levels=(*_LOW_TO_HIGH, "xhigh")),
        "google-genai 3.4 (ThinkingLevel.XHIGH), @ai-sdk/google 4.0.121",
    ),
    # gemini-3.7-flash, 3.8-flash and 4-carbon by their pages; others are newer than this table, or have no
    # version in their names (gemini-omni-1.2-flash, gemini-robotics-er-2-preview, nano-banana).
    _row(r"gemini-|nano-banana", _NEWEST),
    unknown=GeminiRules(),
)
