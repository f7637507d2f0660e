"""Venice hosts open models and states that it stores nothing.

- An error is a string: `{"error": "..."}`.
- Many fields of a chunk are null; they are ignored.
- Reasoning arrives as `reasoning_content`. Its own switches are `venice_parameters`, by
  `provider_options={"venice": {...}}`.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.

Sources:

- <https://docs.venice.ai/api-reference/endpoint/chat/completions> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import MediaQuirks, OpenAIChat, Quirks, ReasoningQuirks, SettingQuirks
from llmstream.providers.base import Provider

VENICE = Provider(
    name="venice",
    title="Venice",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            settings=SettingQuirks(max_tokens_field="max_tokens", unsupported=frozenset(), max_stops=None),
            media=MediaQuirks(
                files=False,  # no page documents `file` parts (seen 2026-11)
            ),
            reasoning=ReasoningQuirks(field="reasoning_content"),
        )
    ),
    base_url="https://api.venice.ai/api/v1",
    base_url_env=("VENICE_BASE_URL",),
    key_env=("VENICE_API_KEY", "VENICE_AI_API_KEY"),
    aliases=("venice-ai",),
    docs="https://docs.venice.ai/api-reference/endpoint/chat/completions",
    notes="`venice_parameters` by provider_options",
)
