"""GitHub Copilot's models behind the Responses wire, which is the only one of Grok and the Codex models
there.

- An example is `copilot-responses:gpt-5.3-codex`.
- Address, key and headers are those of `copilot`.
- An item has another id in every event, so items are sent back without ids; encrypted reasoning goes back
  with them.
- `supported_endpoints` lists which models are served on which wire: `GET
  https://api.githubcopilot.com/models`.

Sources:

- <https://docs.github.com/en/copilot> (does not document the API)
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/github_copilot/responses> (seen 2026-11):
  litellm 1.109.1, path, encrypted reasoning
- <https://github.com/pydantic/pydantic-ai/tree/main/pydantic_ai_slim/pydantic_ai/providers> (seen 2026-11):
  github_copilot.py, Grok on this wire alone
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import DeliveryQuirks, InputQuirks, OpenAIResponses, Quirks
from llmstream.providers.copilot import COPILOT

COPILOT_RESPONSES = replace(
    COPILOT,
    name="copilot-responses",
    title="GitHub Copilot (Responses)",
    # Every event of an item has another id (seen 2026-08), so items go back without.
    dialect=OpenAIResponses(
        Quirks(delivery=DeliveryQuirks(background=False), input=InputQuirks(item_ids=False))
    ),
    aliases=("github-copilot-responses",),
    notes="the only wire of Grok and Codex at Copilot; key as for `copilot`",
)
