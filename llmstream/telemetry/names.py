"""What OpenTelemetry's conventions for generative AI call vendors, attributes and instruments."""

from __future__ import annotations

from typing import Final

__all__ = ["DURATION_BOUNDS_S", "TOKEN_BOUNDS", "provider_name"]

_NAMES: Final = {
    "azure": "azure.ai.openai",
    "azure-responses": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock-invoke": "aws.bedrock",
    "gemini-openai": "gcp.gemini",
    "google": "gcp.gemini",
    "google-interactions": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
    "vertex-anthropic": "gcp.vertex_ai",
    "xai": "x_ai",
    "xai-responses": "x_ai",
}

DURATION_BOUNDS_S: Final = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
TOKEN_BOUNDS: Final = tuple(4**power for power in range(14))


def provider_name(provider: str) -> str:
    """The conventions' name of one of our providers; ours where they have none."""
    return _NAMES.get(provider, provider)
