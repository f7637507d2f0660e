"""Anthropic's Messages on Amazon Bedrock, by its endpoint Mantle."""

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.address_forms import without_version
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.region import MANTLE, bedrock_route
from llmstream.providers.bedrock.signing import signing_for

BEDROCK_MESSAGES = BedrockProvider(
    name="bedrock-messages",
    title="Claude on Amazon Bedrock (Messages)",
    dialect=Anthropic(quirks=Quirks(url_sources=False, schemas="bedrock")),
    base_url=f"{MANTLE}/anthropic",
    base_url_env=("ANTHROPIC_BEDROCK_MANTLE_BASE_URL",),
    normalize=without_version,
    key_env=("AWS_BEARER_TOKEN_BEDROCK",),
    key_required=False,  # without one, requests are signed
    route=bedrock_route,
    sign=signing_for("bedrock-mantle"),
    aliases=("bedrock-mantle-anthropic", "anthropic-bedrock-mantle"),
    docs="https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html",
    notes="Anthropic's own wire on AWS; `bedrock-invoke` is the older way",
)
"""Claude on Bedrock by Anthropic's own wire, with its events as they are."""
