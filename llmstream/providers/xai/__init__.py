"""xAI's Grok models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

RETIRED_SLUGS = ModelQuirks(
    r"grok-3(?!-mini)|grok-4-0709|grok-4-(?:1-)?fast|grok-latest",
    {
        "reasoning_style": "effort",
        "known_efforts": ("none", "low", "medium", "high"),
        "always_thinks": False,
        "unsupported_settings": frozenset({"top_k", "stop", "presence_penalty", "frequency_penalty"}),
    },
)
"""Names of 2025 that grok-4.3 answers for since 2026-05-15, with its efforts.

source: docs.x.ai "May 15 retirement"; pydantic-ai-slim 2.68.0 profiles/grok.py (grok-latest tried live)
"""

XAI = Provider(
    name="xai",
    title="xAI",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            audio_formats=frozenset(),
            # Its reasoning models, by now nearly all, refuse stop and penalties (seen 2026-07).
            unsupported_settings=frozenset({"top_k", "stop", "presence_penalty", "frequency_penalty"}),
            # Its page on reasoning (seen 2026-11): grok-4.3 takes none to high, 4.5 and later always think.
            known_efforts=("none", "low", "medium", "high"),
            open_model_rules=True,
            by_model=(
                ModelQuirks(
                    r"grok-[12]|grok-4.*non-reasoning", {"unsupported_settings": frozenset({"top_k"})}
                ),
                RETIRED_SLUGS,
                # "This model does not support parameter reasoningEffort" (seen 2026-11, @ai-sdk/xai 5.0.12).
                ModelQuirks(r"grok-4(?:$|\.20)", {"reasoning_style": "none"}),
            ),
            reasoning_field="reasoning_content",
            # Deltas of reasoning may come twice, word for word (seen 2026-07, vercel/ai drops them too).
            dedupe_reasoning=True,
            output_excludes_reasoning=True,
            input_may_exclude_cached=True,
        )
    ),
    base_url="https://api.x.ai/v1",
    base_url_env=("XAI_BASE_URL", "XAI_API_BASE"),
    key_env=("XAI_API_KEY", "GROK_API_KEY"),
    aliases=("grok", "x-ai"),
    docs="https://docs.x.ai/docs/api-reference",
    notes="completion tokens leave reasoning out on the wire; we add it",
)
"""xAI serves the Grok models behind the Chat Completions wire."""
