"""Providers on Vertex AI: a key or a token where there is one, else the default credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from llmstream.errors import MissingKey
from llmstream.providers.base import Auth, Provider
from llmstream.providers.vertex.credentials import access_token, known_token

__all__ = ["VertexProvider"]


@dataclass(frozen=True, kw_only=True)
class VertexProvider(Provider):
    """A provider that requests a token from google-auth where the caller has none."""

    async def ready(self, model: str, key: str | None) -> str | None:
        """Fetches a token, if neither key nor token is set.

        raises: Unsupported without google-auth, AuthenticationError where no credentials are found
        """
        try:
            super()._credentials(key, os.environ)
        except MissingKey:
            await access_token()
        return None

    def _credentials(self, given: str | None, env: Mapping[str, str]) -> tuple[str | None, Auth]:
        """The caller's key or token, else the environment's, else the token fetched last."""
        try:
            return super()._credentials(given, env)
        except MissingKey:
            # Fetched by `ready`, which may await.
            token = known_token()
            if not token:
                raise
            return super()._credentials(token, env)
