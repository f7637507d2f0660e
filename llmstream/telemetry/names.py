"""Names and bucket bounds of OpenTelemetry's conventions for generative AI, and shared attributes."""

from __future__ import annotations

from typing import Any, Final, Protocol

__all__ = [
    "DURATION_BOUNDS_S",
    "GAP_BOUNDS_S",
    "RATE_BOUNDS",
    "TOKEN_BOUNDS",
    "bounded",
    "known",
    "model_attributes",
    "provider_name",
    "tool_name",
]

# Values of gen_ai.provider.name in the conventions; other providers have their own name there, too.
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

# Each distinct value of an attribute is a time series that a backend keeps.
_MAX_CHARS: Final = 256

# The conventions advise these bounds of durations and tokens.
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
# Ours: fast models send a token in a few milliseconds, slow ones in a second.
GAP_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5)
RATE_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


class _HasModel(Protocol):
    """An observation with a provider and a model."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...


def provider_name(provider: str) -> str:
    """Returns the conventions' name of a provider, else its own name."""
    return _NAMES.get(provider, provider)


def model_attributes(operation: str, source: _HasModel) -> dict[str, Any]:
    """Returns the attributes of operation, provider and model; older backends need `gen_ai.system`."""
    name = provider_name(source.provider)
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": name,
        "gen_ai.system": name,
        "gen_ai.request.model": source.model,
    }


class _ToolCall(Protocol):
    """An observation of a tool call."""

    @property
    def name(self) -> str: ...

    @property
    def is_known(self) -> bool: ...


def tool_name(call: _ToolCall) -> str:
    """Returns the name of a known tool, else "_OTHER": a model may invent any number of names."""
    return call.name if call.is_known else "_OTHER"


def bounded(value: str) -> str:
    """Shortens a value that the vendor or model chose."""
    return value[:_MAX_CHARS]


def known(attributes: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes without those that are None."""
    return {name: value for name, value in attributes.items() if value is not None}
