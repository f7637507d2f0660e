"""OpenAI's Responses on Amazon Bedrock."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.bedrock_openai import BEDROCK_OPENAI

BEDROCK_RESPONSES = replace(
    BEDROCK_OPENAI,
    name="bedrock-responses",
    title="Amazon Bedrock (Responses)",
    # On bedrock-runtime requests are synchronous, and images come from s3 or as bytes (seen 2026-11).
    dialect=OpenAIResponses(Quirks(background=False, urls=False)),
    aliases=("bedrock-openai-responses",),
    docs="https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html",
    notes="OpenAI's GPT models on AWS; as `bedrock-openai` for region and key",
)
"""OpenAI's GPT models on Bedrock, spoken to in Responses."""
