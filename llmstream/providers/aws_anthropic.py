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

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from llmstream.dialects.anthropic import Anthropic
from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.base import filled, key_header, without_version
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.signing import signing_for

_WORKSPACE_ENV: Final = "ANTHROPIC_AWS_WORKSPACE_ID"
_WORKSPACE_HEADER: Final = "anthropic-workspace-id"


@dataclass(frozen=True, kw_only=True)
class WorkspaceProvider(BedrockProvider):
    """A provider on AWS whose requests need a workspace, from the environment or by `headers=`."""

    def prepare(
        self,
        http: HttpRequest,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> HttpRequest:
        """As any provider's.

        raises: InvalidRequest where no workspace is named; MissingKey
        """
        given = {name.lower() for group in (http.headers, headers or {}) for name in group}
        if _WORKSPACE_HEADER not in given and not env.get(_WORKSPACE_ENV):
            raise InvalidRequest(
                f"No workspace for {self.name}. Set {_WORKSPACE_ENV}, "
                f"or pass headers={{{_WORKSPACE_HEADER!r}: ...}}."
            )
        return super().prepare(
            http, model=model, base_url=base_url, api_key=api_key, headers=headers, env=env
        )


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
    header_env={_WORKSPACE_HEADER: _WORKSPACE_ENV},
    route=filled(region=("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_REGION_NAME")),
    sign=signing_for("aws-external-anthropic", key="ANTHROPIC_AWS_API_KEY"),
    aliases=("anthropic-aws", "claude-platform-aws"),
    docs="https://docs.aws.amazon.com/claude-platform/latest/userguide/making-requests.html",
    notes="`AWS_REGION`, `ANTHROPIC_AWS_WORKSPACE_ID`; without a key, AWS credentials sign",
)
