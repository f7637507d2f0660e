"""Meta's Muse models, by Responses."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.meta_chat import META_CHAT

META = replace(
    META_CHAT,
    name="meta",
    title="Meta Model API",
    dialect=OpenAIResponses(
        Quirks(
            background=False,
            reasoning_model_rules=False,
            encrypted="always",  # Muse always thinks, and reads its thoughts again (seen 2026-11)
            # none is refused, max known (pydantic-ai-slim 2.68.0, seen 2026-11).
            efforts={"none": "minimal"},
            tool_choice=frozenset({"auto"}),
        )
    ),
    aliases=("meta-responses", "muse"),
    docs="https://dev.meta.ai/docs",
    notes="Responses, which Meta prefers; `meta-chat` is Chat Completions. No tool can be forced",
)
"""Meta serves its Muse models, whose thoughts go back encrypted."""
