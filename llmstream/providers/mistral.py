"""Mistral's models, and other vendors' models that it hosts, over its own chat API.

- A `/v1` at the end of the address is removed.
- Content arrives as text or as a list of parts: text, thinking, references, files.
- Calls arrive complete, mostly in the chunk with the finish reason. A call that the token limit cut is
  reported as an invalid call, which does not run.
- Ids of calls have nine letters and digits. Ids of other vendors are mapped to such ids, the same for a call
  and its result; Mistral's own ids are unchanged.
- The API expects an assistant message after a tool result: before a user message, an assistant message "OK"
  is inserted. A call without a result gets a placeholder result.
- An assistant message at the end of the conversation is a prefix: the model continues it, and its answer
  repeats the prefix.
- With `tool_choice="none"` no tools are sent: models that see tools they may not call write calls as text.
- Magistral models always think (`prompt_mode`). Most newer ones have the efforts `none` and `high`, Large 4
  `low` to `high`, GLM-5.3 `low`, `high` and `max`, and others none: `llmstream/model_rules/mistral.py`.
- The API refuses unknown fields with 422. Its own fields `safe_prompt` and `prediction` go through
  `provider_options={"mistral": {...}}`; `settings.seed` is sent as `random_seed`.

Sources:

- <https://docs.mistral.ai/api/endpoint/chat> (seen 2026-11)
- <https://docs.mistral.ai/capabilities/reasoning> (seen 2026-11)
"""

from llmstream.dialects.mistral import Mistral
from llmstream.providers.base import Provider, without_version

MISTRAL = Provider(
    name="mistral",
    title="Mistral AI",
    dialect=Mistral(),
    base_url="https://api.mistral.ai",
    base_url_env=("MISTRAL_BASE_URL", "MISTRAL_API_BASE"),
    normalize=without_version,
    key_env=("MISTRAL_API_KEY",),
    aliases=("mistralai", "mistral-ai"),
    docs="https://docs.mistral.ai/api/endpoint/chat",
    notes="ids of calls are mapped to its nine letters and digits",
)
