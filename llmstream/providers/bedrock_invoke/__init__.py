"""Claude on Amazon Bedrock by InvokeModel: Anthropic's own API in AWS frames."""

from llmstream.dialects.anthropic import BEDROCK_INVOKE as DIALECT
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.region import ADDRESS, bedrock_route
from llmstream.providers.bedrock.signing import sign_for_bedrock

BEDROCK_INVOKE = BedrockProvider(
    name="bedrock-invoke",
    title="Claude on Amazon Bedrock",
    dialect=DIALECT,
    base_url=ADDRESS,
    base_url_env=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "ANTHROPIC_BEDROCK_BASE_URL", "AWS_ENDPOINT_URL"),
    key_env=("AWS_BEARER_TOKEN_BEDROCK",),
    key_required=False,  # without one, requests are signed
    route=bedrock_route,
    sign=sign_for_bedrock,
    aliases=("anthropic-bedrock", "bedrock-anthropic"),
    docs="https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html",
    notes="without a bearer key, AWS credentials sign (extra `bedrock`); `AWS_REGION` is the region",
)
"""Claude alone, with everything that its Messages API knows and Converse does not."""
