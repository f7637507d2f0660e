"""xAI's Grok models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

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
            efforts={"minimal": "low", "xhigh": "high", "max": "high"},
            # Its page on reasoning (seen 2026-11): of the older models only grok-3-mini takes an effort,
            # low or high; grok-4.3 takes none to high, and 4.5 cannot be kept from thinking.
            by_model=(
                ModelQuirks(
                    r"grok-(?:2|3|4(?:$|-|\.1|\.20)|code)|non-reasoning", {"reasoning_style": "none"}
                ),
                ModelQuirks(
                    "grok-3-mini",
                    {
                        "reasoning_style": "effort",
                        "efforts": {
                            "none": "low",
                            "minimal": "low",
                            "medium": "high",
                            "xhigh": "high",
                            "max": "high",
                        },
                    },
                ),
                ModelQuirks(
                    r"grok-4[.-][5-9]",
                    {
                        "reasoning_style": "effort",
                        "efforts": {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
                    },
                ),
                ModelQuirks(
                    r"grok-(?:2|3(?!-mini))|non-reasoning", {"unsupported_settings": frozenset({"top_k"})}
                ),
            ),
            reasoning_field="reasoning_content",
            # Deltas of reasoning may come twice, word for word (seen 2026-07, vercel/ai drops them too).
            dedupe_reasoning=True,
            output_excludes_reasoning=True,
            input_may_exclude_cached=True,
        )
    ),
    base_url="https://api.x.ai/v1",
    base_url_env=("XAI_BASE_URL",),
    key_env=("XAI_API_KEY", "GROK_API_KEY"),
    aliases=("grok", "x-ai"),
    docs="https://docs.x.ai/docs/api-reference",
    notes="completion tokens leave reasoning out on the wire; we add it",
)
"""xAI serves the Grok models behind the Chat Completions wire."""
