"""Azure OpenAI (Azure AI Foundry)."""

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.providers.azure.route import azure_route, key_or_token
from llmstream.providers.base import Provider

AZURE = Provider(
    name="azure",
    title="Azure OpenAI",
    dialect=OpenAIChat(),
    base_url="",  # every resource has its own
    base_url_env=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL", "AZURE_API_BASE"),
    key_env=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    auth=key_or_token,
    token_env=("AZURE_OPENAI_AD_TOKEN", "AZURE_AD_TOKEN"),
    route=azure_route,
    aliases=("azure-openai", "azureopenai"),
    docs="https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference",
    notes="MODEL is the deployment; `OPENAI_API_VERSION` picks the older, dated API",
)
"""A resource of one's own on Azure; the model is the name of a deployment."""
