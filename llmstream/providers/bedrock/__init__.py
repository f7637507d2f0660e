"""Amazon Bedrock's Converse API."""

from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.region import ADDRESS, bedrock_route
from llmstream.providers.bedrock.signing import sign_for_bedrock

BEDROCK = BedrockProvider(
    name="bedrock",
    title="Amazon Bedrock",
    dialect=BedrockConverse(),
    base_url=ADDRESS,
    base_url_env=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"),
    key_env=("AWS_BEARER_TOKEN_BEDROCK",),
    key_required=False,  # without one, requests are signed
    route=bedrock_route,
    sign=sign_for_bedrock,
    aliases=("bedrock-converse", "aws-bedrock", "amazon-bedrock"),
    docs="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html",
    notes="without a bearer key, AWS credentials sign (extra `bedrock`); `AWS_REGION` is the region",
)
"""Every vendor's models on Bedrock, by one API."""
