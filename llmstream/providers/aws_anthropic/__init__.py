"""The Claude Platform on AWS."""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.address_forms import filled, without_version
from llmstream.providers.aws_anthropic.workspace import WORKSPACE_ENV, WORKSPACE_HEADER, WorkspaceProvider
from llmstream.providers.base import key_header
from llmstream.providers.bedrock.signing import signing_for

AWS_ANTHROPIC = WorkspaceProvider(
    name="aws-anthropic",
    title="Claude Platform on AWS",
    dialect=Anthropic(),
    base_url="https://aws-external-anthropic.{region}.api.aws",
    base_url_env=("ANTHROPIC_AWS_BASE_URL", "ANTHROPIC_AWS_API_BASE"),
    normalize=without_version,
    key_env=("ANTHROPIC_AWS_API_KEY",),
    auth=key_header("x-api-key"),
    key_required=False,  # without one, requests are signed
    header_env={WORKSPACE_HEADER: WORKSPACE_ENV},
    route=filled(region=("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_REGION_NAME")),
    sign=signing_for("aws-external-anthropic", key="ANTHROPIC_AWS_API_KEY"),
    aliases=("anthropic-aws", "claude-platform-aws"),
    docs="https://docs.aws.amazon.com/claude-platform/latest/userguide/making-requests.html",
    notes="`AWS_REGION`, `ANTHROPIC_AWS_WORKSPACE_ID`; without a key, AWS credentials sign",
)
"""Anthropic's own service, with accounts, credentials and bills of AWS."""
