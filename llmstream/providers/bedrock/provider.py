"""Providers on Amazon Bedrock: a bearer key where there is one, else a signature of the right time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from llmstream.errors import LLMStreamError
from llmstream.providers.base import Provider
from llmstream.providers.bedrock.clock import CLOCK, address_of
from llmstream.providers.bedrock.signing import credentials_of

__all__ = ["BedrockProvider"]


@dataclass(frozen=True, kw_only=True)
class BedrockProvider(Provider):
    """A provider that finds its credentials away from the event loop: files and the network hold them."""

    account_env: tuple[str, ...] = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE")

    async def ready(self, model: str, key: str | None) -> str | None:
        """Finds the credentials, so that signing does not wait for them; signing reports failures."""
        if self.key(key) is None:
            try:
                # Files, processes or a machine's metadata service may take seconds.
                await asyncio.to_thread(credentials_of, os.environ)
            except LLMStreamError:
                pass
        return None

    def learn(self, url: str, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Sets the clock by a refusal that blames this machine's, which is worth another signature."""
        return CLOCK.learn(address_of(url), status, headers, body)
