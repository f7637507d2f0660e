"""Claude on Bedrock by Anthropic's own wire, with its events as they are.

- An example is `bedrock-messages:anthropic.claude-sonnet-5`.
- The region is that of `AWS_REGION`, then `AWS_DEFAULT_REGION`, then the profile's in `~/.aws/config`, else
  us-east-1.
- Without a bearer key, requests are signed as for `bedrock`, for the service `bedrock-mantle`.
- The request is Anthropic's, with model and version in the same places. `bedrock-invoke`, whose alias is
  `bedrock-anthropic`, is the older API, with events inside AWS frames.
- AWS also serves this wire at `base_url="https://bedrock-runtime.{region}.amazonaws.com/anthropic"`, which
  a newer copy of its page recommends; then requests are signed for `bedrock`. Anthropic's SDK 2.12 and
  litellm 1.109.1 call the address above.
- Images and documents are sent as bytes.

Sources:

- <https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html> (seen 2026-11)
- <https://github.com/anthropics/anthropic-sdk-python/tree/main/src/anthropic/lib/bedrock> (seen 2026-11):
  anthropic 2.12, address, key, service of signatures
"""

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.base import without_version
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.region import MANTLE, bedrock_route
from llmstream.providers.bedrock.signing import signing_for

BEDROCK_MESSAGES = BedrockProvider(
    name="bedrock-messages",
    title="Claude on Amazon Bedrock (Messages)",
    # Files are sent as bytes only, and fewer Claudes are held to schemas than at Anthropic (seen 2026-11).
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
