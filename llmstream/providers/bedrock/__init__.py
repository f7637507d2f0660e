"""AWS serves models of many vendors by one API, Converse, whose answers come in binary frames.

- The region is that of `AWS_REGION`, then `AWS_DEFAULT_REGION`, then that of an ARN given as MODEL, then
  the profile's in `~/.aws/config`, else us-east-1.
- Without a bearer key, requests are signed.

Signing:

Requests without a bearer key carry AWS Signature Version 4, made again by botocore for each attempt: `pip
install 'llmstream-sdk[bedrock]'`. Credentials are those of AWS's own tools: `AWS_ACCESS_KEY_ID`,
`AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, then `AWS_PROFILE` and whatever else botocore knows (shared
files, single sign-on, the role of a container or machine).

- MODEL is the id or ARN of a model or of an inference profile. Newer models are there by profile only:
  "on-demand throughput isn't supported" asks for an id such as `us.anthropic.claude-...`.
- The id is percent-encoded once in the URL; slashes of an ARN stay inside one segment.
- Text and reasoning have no start on the wire. Errors arrive as exception frames inside a 200.
- Images, documents and videos are sent as bytes or lie in a bucket (`s3://`); other URLs are refused.
- A cache point follows a part with the metadata `{"bedrock": {"cache_point": True}}`, or that carries
  Anthropic's `cache_control`.
- `provider_options={"bedrock": {...}}` is merged into the body: `guardrailConfig`, `performanceConfig`,
  `serviceTier`, `additionalModelRequestFields` and so on.
- A signature holds for minutes. Where AWS refuses one for its time, this machine's clock is off: it is set
  by the `date` of the answer, for all requests of the process, and the request is signed once more.
- What a model does not know depends on its id (see `dialects/bedrock_converse/quirks.py`).

Sources:

- <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html> (seen 2026-11)
- <https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html>
  (seen 2026-11)
- <https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html> (seen 2026-11)
"""

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
