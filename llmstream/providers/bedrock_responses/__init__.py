"""OpenAI's Responses on Amazon Bedrock."""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.bedrock_openai import BEDROCK_OPENAI

BEDROCK_RESPONSES = replace(
    BEDROCK_OPENAI,
    name="bedrock-responses",
    title="Amazon Bedrock (Responses)",
    dialect=OpenAIResponses(Quirks(background=False)),  # on bedrock-runtime requests are synchronous
    aliases=(),
    docs="https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html",
    notes="OpenAI's GPT models on AWS; as `bedrock-openai` for region and key",
)
"""OpenAI's GPT models on Bedrock, spoken to in Responses."""
