"""Anthropic's own service, with accounts, credentials and bills of AWS. It is not Bedrock: models and
features are those of `anthropic`.

- `AWS_REGION`, then `AWS_DEFAULT_REGION` or `AWS_REGION_NAME`, completes the address.
- Every request needs the workspace `ANTHROPIC_AWS_WORKSPACE_ID`, sent as the header
  `anthropic-workspace-id`.
- `ANTHROPIC_AWS_API_KEY` is a key of the workspace; without one, requests are signed as for `bedrock`, for
  the service `aws-external-anthropic`.
- A workspace lies in one region, so there is no usual region: without one there is no address.
- `ANTHROPIC_API_KEY` is not read; keys of Anthropic's own console are not known there.

Sources:

- <https://docs.aws.amazon.com/claude-platform/latest/userguide/making-requests.html> (seen 2026-11)
- <https://github.com/anthropics/anthropic-sdk-python/tree/main/src/anthropic/lib/aws> (seen 2026-11):
  anthropic 2.12, address, key, workspace, service of signatures
"""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.base import filled, key_header, without_version
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.signing import signing_for

AWS_ANTHROPIC = BedrockProvider(
    name="aws-anthropic",
    title="Claude Platform on AWS",
    dialect=Anthropic(),
    base_url="https://aws-external-anthropic.{region}.api.aws",
    base_url_env=("ANTHROPIC_AWS_BASE_URL", "ANTHROPIC_AWS_API_BASE"),
    normalize=without_version,
    key_env=("ANTHROPIC_AWS_API_KEY",),
    auth=key_header("x-api-key"),
    key_required=False,  # without one, requests are signed
    header_env={"anthropic-workspace-id": "ANTHROPIC_AWS_WORKSPACE_ID"},
    required_headers={"anthropic-workspace-id": "workspace"},
    route=filled(region=("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_REGION_NAME")),
    sign=signing_for("aws-external-anthropic", key="ANTHROPIC_AWS_API_KEY"),
    aliases=("anthropic-aws", "claude-platform-aws"),
    docs="https://docs.aws.amazon.com/claude-platform/latest/userguide/making-requests.html",
    notes="`AWS_REGION`, `ANTHROPIC_AWS_WORKSPACE_ID`; without a key, AWS credentials sign",
)
