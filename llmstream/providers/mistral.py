"""Mistral's models, and those of others it hosts, over its own chat API.

- A `/v1` at the end of the address is removed.
- Content comes as text or as a list of parts: text, thinking, references, files.
- Calls come complete, mostly together with the finish reason. One that the token limit cut is reported as
  an invalid call, which does not run.
- Ids of calls have nine letters and digits. Ids of other vendors are mapped, the same for a call and its
  result; the vendor's own stay.
- After a tool's result comes the assistant: where a user message follows, an assistant message "OK" is
  inserted. A call without a result gets a placeholder result.
- An answer at the end of the conversation is a prefix: the model continues from there, and its answer
  begins with the prefix again.
- Where no tool may be called (`tool_choice="none"`), no tool is sent: models that see tools they may not
  call write calls as text.
- Magistral models always think (`prompt_mode`); most newer ones know the efforts `none` and `high`, Large 4
  `low` to `high`, GLM-5.3 `low`, `high` and `max`, and others none: `llmstream/model_rules/mistral.py`.
- A field the API does not know is refused with 422. Its own (`safe_prompt`, `prediction`, `random_seed` by
  `settings.seed`) go through `provider_options={"mistral": {...}}`.

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
