"""Claude in Microsoft Foundry."""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.address_forms import filled, without_version
from llmstream.providers.azure.route import token_or
from llmstream.providers.base import Provider

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
"""Anthropic's own API in a Foundry resource; the model is the name of a deployment."""
