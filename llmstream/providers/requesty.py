"""Requesty routes requests to models of many vendors.

- Efforts are low, medium, high and max; others become the next higher, with a warning. A budget is a text:
  `provider_options={"requesty": {"reasoning_effort": "10000"}}`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.requesty.ai> (not read)
- <https://www.npmjs.com/package/@requesty/ai-sdk> (seen 2026-11): efforts, by version 3.6.1
- <https://github.com/mozilla-ai/any-llm/tree/main/src/any_llm/providers/requesty> (seen 2026-11): address,
  key
"""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

REQUESTY = Provider(
    name="requesty",
    title="Requesty",
    dialect=OpenAIChat(
        hosted(
            change(
                ThinkingQuirks,
                # Efforts by its own package for the AI SDK (seen 2026-11); a budget would be a text there.
                known_efforts=("none", "low", "medium", "high", "max"),
            ),
            change(Quirks, open_model_rules=False),
        )
    ),
    base_url="https://router.requesty.ai/v1",
    base_url_env=("REQUESTY_BASE_URL", "REQUESTY_API_BASE"),
    key_env=("REQUESTY_API_KEY",),
    docs="https://docs.requesty.ai",
    notes="a router; models are named `VENDOR/MODEL`",
)
