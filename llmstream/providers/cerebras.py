"""Cerebras hosts open models on its own chips behind the Chat Completions wire.

- A missing `/v1` is added to the address: Cerebras's own SDK leaves it out.
- Reasoning arrives as `reasoning`.
- Errors are flat: `{message, type, param, code}` without an `error` around them.
- Strict tools and JSON schemas want `additionalProperties: false` on every object.
- gpt-oss, GLM-5.3 and Kimi K3 always think: the effort `none` is sent as `low`, with a warning. The latter
  two know `low`, `high` and `max`, the others `low` to `high`.
- The reasoning of GLM goes back between `<think>` tags in the text.
- The penalties and `parallel_tool_calls` are in Cerebras's SDK 1.91.0; its older pages list them as not
  supported.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://inference-docs.cerebras.ai/api-reference/chat-completions> (seen 2026-11)
- <https://inference-docs.cerebras.ai/resources/openai> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
)
from llmstream.providers.base import Provider, versioned

CEREBRAS = Provider(
    name="cerebras",
    title="Cerebras",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            thinking=ThinkingQuirks(
                # cerebras-cloud-sdk 1.91.0 (seen 2026-11); gpt-oss, GLM-5.3 and Kimi K3 always think (its
                # page on reasoning, by pydantic-ai-slim 2.68.0).
                known_efforts=("none", "low", "medium", "high"),
            ),
            open_model_rules=True,
            by_model=(
                ModelQuirks(
                    r"qwen-?3\.8", change(ThinkingQuirks, known_efforts=("none", "low", "medium", "high"))
                ),
                # Thoughts of GLM go back between tags in the content (the same page).
                ModelQuirks("glm", change(ReasoningQuirks, field="think-tags", echo="all")),
            ),
            reasoning=ReasoningQuirks(field="reasoning"),
        )
    ),
    base_url="https://api.cerebras.ai/v1",
    base_url_env=("CEREBRAS_BASE_URL", "CEREBRAS_API_BASE"),
    normalize=versioned,
    key_env=("CEREBRAS_API_KEY",),
    docs="https://inference-docs.cerebras.ai/api-reference/chat-completions",
    notes="strict schemas want `additionalProperties: false`",
)
