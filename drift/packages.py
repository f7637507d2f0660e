"""The vendors' official SDKs by name: on PyPI, which are read, and on npm, which are only looked up."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NPM", "SDKS"]

SDKS: Mapping[str, str] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google-genai": "google",
    "cohere": "cohere",
    "mistralai": "mistral",
    "ollama": "ollama",
    "botocore": "bedrock",
}
"""Package of PyPI to the reader in `drift.vendors`. A new SDK is one line here and a reader."""

NPM = (
    "openai",
    "@anthropic-ai/sdk",
    "@google/genai",
    "cohere-ai",
    "@mistralai/mistralai",
    "ollama",
    "@aws-sdk/client-bedrock-runtime",
)
"""The vendors' packages for Node, which are sometimes ahead."""
