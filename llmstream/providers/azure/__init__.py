"""Models deployed to a resource of your own on Azure. The model is the name of the *deployment*.

- `AZURE_RESOURCE_NAME` is the name of the resource alone, not an address.
- A token given as `api_key=`, also by a function that fetches one, is recognised by its form.

Which URL is called:

- A bare endpoint is called at `{endpoint}/openai/v1/chat/completions`; with the version `v1`, `preview` or
  `latest` that version is sent as `api-version`. With a dated version such as `2024-10-21` it is called at
  `{endpoint}/openai/deployments/{deployment}/chat/completions`.
- An address that ends in `/v1` is used as it is; only a version of its own query is sent.
- An address that ends in `/models` (Foundry) is used as it is, with the version, or with
  `2024-05-01-preview` where none is dated: it refuses requests without.
- `*.models.ai.azure.com` (one model) is called below `/v1` where the address has no path; it gets no
  version, which it refuses.
- An address that contains `/deployments/` is used as it is, with the version.

The version is the `api-version` of the address's query, then `OPENAI_API_VERSION`, then
`AZURE_OPENAI_API_VERSION`, then `AZURE_API_VERSION`. The deployment is percent-encoded, so that its name
cannot lead elsewhere.

- The first chunk has no choices, an empty id and model, and `prompt_filter_results`, which become metadata
  of the finish; names are taken from the first chunk that has them.
- With the asynchronous filter there are choices without a delta, but with `content_filter_results` and
  offsets (openai/openai-python#1677, #2313); they carry nothing that is used.
- A refused prompt is a 400 with code `content_filter` and an `innererror`: `ContentFiltered`.
- DeepSeek models on Azure refuse `thinking`; `json_object` together with thinking puts the JSON into
  `reasoning_content`.
- Mistral models on Azure refuse fields that they do not know, such as `max_completion_tokens` and
  `stream_options` (pydantic/pydantic-ai#6593, BerriAI/litellm#11696), and ids of calls that are not nine
  letters and digits. A deployment with the name of one of them is called accordingly.

Sources:

- <https://learn.microsoft.com/en-us/azure/foundry/openai/reference> (seen 2026-11)
- <https://learn.microsoft.com/en-us/azure/foundry/openai/api-version-lifecycle> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    ModelQuirks,
    OpenAIChat,
    Quirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
)
from llmstream.providers.azure.route import azure_address, azure_route, azure_wire, key_or_token
from llmstream.providers.base import Provider

AZURE = Provider(
    name="azure",
    title="Azure OpenAI",
    dialect=OpenAIChat(
        Quirks(
            by_model=(
                # Mistral's models have a separate gateway, which refuses fields it does not
                # know and ids of other forms (seen 2026-07, pydantic/pydantic-ai#6593,
                # BerriAI/litellm#11696).
                ModelQuirks(
                    r"mistral|mixtral|codestral|pixtral|devstral",
                    change(
                        SettingQuirks,
                        max_tokens_field="max_tokens",
                        stream_options=False,
                        unsupported=frozenset({"top_k", "seed"}),
                    ),
                    change(ToolQuirks, parallel_calls=False, short_call_ids=True),
                    change(ThinkingQuirks, style="none"),
                    change(Quirks, system_role="system"),
                ),
            )
        )
    ),
    base_url="",  # every resource has its own
    base_url_env=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL", "AZURE_API_BASE", "AZURE_RESOURCE_NAME"),
    normalize=azure_address,
    key_env=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    auth=key_or_token,
    token_env=("AZURE_OPENAI_AD_TOKEN", "AZURE_AD_TOKEN"),
    route=azure_route,
    wire=azure_wire,
    aliases=("azure-openai", "azureopenai"),
    docs="https://learn.microsoft.com/en-us/azure/foundry/openai/reference",
    notes="MODEL is the deployment; `OPENAI_API_VERSION` picks the older, dated API",
)
