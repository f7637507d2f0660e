"""The workspace that every request to the Claude Platform on AWS names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.bedrock.provider import BedrockProvider

__all__ = ["WORKSPACE_ENV", "WORKSPACE_HEADER", "WorkspaceProvider"]

WORKSPACE_ENV: Final = "ANTHROPIC_AWS_WORKSPACE_ID"
WORKSPACE_HEADER: Final = "anthropic-workspace-id"


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
        if WORKSPACE_HEADER not in given and not env.get(WORKSPACE_ENV):
            raise InvalidRequest(
                f"No workspace for {self.name}. Set {WORKSPACE_ENV}, "
                f"or pass headers={{{WORKSPACE_HEADER!r}: ...}}."
            )
        return super().prepare(
            http, model=model, base_url=base_url, api_key=api_key, headers=headers, env=env
        )
