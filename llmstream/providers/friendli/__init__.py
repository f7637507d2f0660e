"""Friendli hosts open models, serverless or on endpoints of one's own."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

FRIENDLI = Provider(
    name="friendli",
    title="Friendli",
    dialect=OpenAIChat(
        hosted(
            reasoning_style="chat-template",
            effort_beside_switch=True,
            budget_field="reasoning_budget",
            # Thoughts come parsed out of the text only where that is asked for (seen 2026-11).
            extra_body={"parse_reasoning": True},
        )
    ),
    base_url="https://api.friendli.ai/serverless/v1",
    base_url_env=("FRIENDLI_BASE_URL", "FRIENDLI_API_BASE"),
    key_env=("FRIENDLI_TOKEN", "FRIENDLIAI_API_KEY"),
    aliases=("friendliai", "friendli-ai"),
    docs="https://friendli.ai/docs/guides/reasoning",
    notes="open models; `https://api.friendli.ai/dedicated/v1` for endpoints of one's own",
)
"""Friendli hosts open models, serverless or on endpoints of one's own."""
