"""Anthropic's own Messages API behind AWS: the same events, each in base64 inside a binary frame.

- The region is that of `AWS_REGION`, then `AWS_DEFAULT_REGION`, then that of an ARN given as MODEL, then
  the profile's in `~/.aws/config`, else us-east-1.
- Without a bearer key, requests are signed as for `bedrock`.
- The model is in the path; `anthropic_version` and beta features are in the body.
- URLs and file ids as sources, and web search, are not supported.
- Use it if Converse lacks a feature of Claude; otherwise, `bedrock` serves every model.

Sources:

- <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html>
  (seen 2026-11)
- <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html>
  (seen 2026-11)
"""

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
