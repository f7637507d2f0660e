"""Where a simulator's paths begin for each dialect, as the vendors' own clients want it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llmstream.cli.dialects import INVENTORS
from llmstream.streams import Model

__all__ = ["SIMULATED", "base_url", "model_at"]

SIMULATED: Final[Mapping[str, str]] = {
    "openai-chat": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
    "gemini-interactions": "/v1beta",
    "bedrock-converse": "",
    "cohere": "",
    "mistral": "/mistral",
    "ollama": "",
}
"""What the simulator speaks: dialect to what its clients put between the host and their own paths."""


def base_url(url: str, dialect: str) -> str:
    """The address to give to a client of that dialect."""
    return url + SIMULATED[dialect]


def model_at(url: str, dialect: str, *, name: str, key: str) -> Model:
    """A model of the simulator there, asked in that dialect."""
    return Model(f"{INVENTORS[dialect]}:{name}", base_url=base_url(url, dialect), api_key=key)
