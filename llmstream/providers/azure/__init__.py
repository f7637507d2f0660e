"""Azure OpenAI (Azure AI Foundry)."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.azure.route import azure_route, azure_wire, key_or_token
from llmstream.providers.base import Provider

AZURE = Provider(
    name="azure",
    title="Azure OpenAI",
    dialect=OpenAIChat(
        Quirks(
            by_model=(
                # Mistral's models stand behind a gateway of their own, which refuses fields it does not
                # know and ids of other forms (seen 2026-07, pydantic/pydantic-ai#6593,
                # BerriAI/litellm#11696).
                ModelQuirks(
                    r"mistral|mixtral|codestral|pixtral|devstral",
                    {
                        "system_role": "system",
                        "max_tokens_field": "max_tokens",
                        "stream_options": False,
                        "unsupported_settings": frozenset({"top_k", "seed"}),
                        "parallel_tool_calls": False,
                        "short_call_ids": True,
                        "reasoning_style": "none",
                    },
                ),
            )
        )
    ),
    base_url="",  # every resource has its own
    base_url_env=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL", "AZURE_API_BASE"),
    key_env=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    auth=key_or_token,
    token_env=("AZURE_OPENAI_AD_TOKEN", "AZURE_AD_TOKEN"),
    route=azure_route,
    wire=azure_wire,
    aliases=("azure-openai", "azureopenai"),
    docs="https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference",
    notes="MODEL is the deployment; `OPENAI_API_VERSION` picks the older, dated API",
)
"""A resource of one's own on Azure; the model is the name of a deployment."""
