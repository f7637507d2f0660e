"""Chat Completions on Amazon Bedrock."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.address_forms import with_path
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.region import ADDRESS, bedrock_route
from llmstream.providers.bedrock.signing import sign_for_bedrock

BEDROCK_OPENAI = BedrockProvider(
    name="bedrock-openai",
    title="Amazon Bedrock (Chat Completions)",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            open_model_rules=True,
            files=False,
            audio_formats=frozenset(),
            image_urls=False,
            # Tried by litellm on 2026-10-09: GPT-5.6, GPT-6 and Grok refuse stop, gpt-oss stops unseen
            # in its thoughts; calls are numbered anew in each answer; gpt-oss is held to no schema and
            # puts its thoughts between tags.
            unsupported_settings=frozenset({"top_k", "stop"}),
            numbered_call_ids=True,
            think_tags="tags",
            think_tag="reasoning",
            by_model=(
                ModelQuirks("gpt-oss", {"response_format": "none"}),
                ModelQuirks(
                    r"xai\.",
                    {
                        "reasoning_model_rules": False,
                        "unsupported_settings": frozenset(
                            {"top_k", "stop", "presence_penalty", "frequency_penalty"}
                        ),
                    },
                ),
            ),
        )
    ),
    base_url=f"{ADDRESS}/openai/v1",
    base_url_env=("AWS_BEDROCK_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
    normalize=with_path("/openai/v1"),
    key_env=("AWS_BEARER_TOKEN_BEDROCK",),
    key_required=False,  # without one, requests are signed
    route=bedrock_route,
    sign=sign_for_bedrock,
    aliases=("bedrock-chat",),
    docs="https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html",
    notes="as `bedrock`: `AWS_REGION`, and without a bearer key AWS credentials sign",
)
"""OpenAI's and open models on Bedrock, by the wire of OpenAI."""
