"""What OpenTelemetry's conventions for generative AI call vendors, attributes and instruments."""

from __future__ import annotations

from typing import Any, Final, Protocol

__all__ = [
    "DURATION_BOUNDS_S",
    "GAP_BOUNDS_S",
    "RATE_BOUNDS",
    "TOKEN_BOUNDS",
    "bounded",
    "known",
    "provider_name",
    "tool_name",
    "whom",
]

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

_MAX_CHARS: Final = 256

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
GAP_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5)
RATE_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


class Asked(Protocol):
    """Anything that says which model of whom was asked."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...


def provider_name(provider: str) -> str:
    """The conventions' name of one of our providers; ours where they have none."""
    return _NAMES.get(provider, provider)


def whom(operation: str, asked: Asked) -> dict[str, Any]:
    """What spans and metrics have in common. `gen_ai.system` is what older backends look for."""
    name = provider_name(asked.provider)
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": name,
        "gen_ai.system": name,
        "gen_ai.request.model": asked.model,
    }


class Run(Protocol):
    """A call of a tool."""

    @property
    def name(self) -> str: ...

    @property
    def is_known(self) -> bool: ...


def tool_name(call: Run) -> str:
    """The tool's name; one word for all names that the model invented, which may be any number."""
    return call.name if call.is_known else "_OTHER"


def bounded(value: str) -> str:
    """What the other side chose, short enough for an attribute."""
    return value[:_MAX_CHARS]


def known(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes that have a value."""
    return {name: value for name, value in attributes.items() if value is not None}
