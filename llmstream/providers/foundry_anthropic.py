"""Anthropic's own API in a Foundry resource; the model is the name of a deployment.

- `ANTHROPIC_FOUNDRY_RESOURCE`, then `AZURE_RESOURCE_NAME`, completes the address.
- A key is sent as `x-api-key`, an Entra token as Bearer. A token given as `api_key=`, also by a function
  that fetches one, is recognised by its form.
- MODEL is the deployment. What a Claude takes depends on its name, so a deployment is best named as the
  model, as Foundry does by default: `claude-sonnet-4-5`. Another name gets what all models take.
- Anthropic's SDK sends the key as `x-api-key` and, for old servers, as `api-key` too; here it is sent once.
- It has neither batches nor a list of models.

Sources:

- <https://platform.claude.com/docs/en/build-with-claude/claude-in-microsoft-foundry> (seen 2026-11)
- <https://github.com/anthropics/anthropic-sdk-python/blob/main/src/anthropic/lib/foundry.py>
  (seen 2026-11): anthropic 2.12, address, keys, headers
- <https://github.com/mozilla-ai/any-llm/tree/main/src/any_llm/providers/azureanthropic> (seen 2026-11): the
  other names of the variables
"""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.azure.route import token_or
from llmstream.providers.base import Provider, filled, without_version

FOUNDRY_ANTHROPIC = Provider(
    name="foundry-anthropic",
    title="Claude in Microsoft Foundry",
    dialect=Anthropic(),
    base_url="https://{resource}.services.ai.azure.com/anthropic",
    base_url_env=("ANTHROPIC_FOUNDRY_BASE_URL", "AZURE_ANTHROPIC_API_BASE"),
    normalize=without_version,
    key_env=("ANTHROPIC_FOUNDRY_API_KEY", "AZURE_ANTHROPIC_API_KEY"),
    auth=token_or("x-api-key"),
    token_env=("ANTHROPIC_FOUNDRY_AUTH_TOKEN", "AZURE_AD_TOKEN"),
    route=filled(resource=("ANTHROPIC_FOUNDRY_RESOURCE", "AZURE_RESOURCE_NAME")),
    aliases=("anthropic-foundry", "azure-anthropic"),
    docs="https://platform.claude.com/docs/en/build-with-claude/claude-in-microsoft-foundry",
    notes="`ANTHROPIC_FOUNDRY_RESOURCE` makes the address; MODEL is the deployment",
)
