"""Dialects by name, with the quirks of a provider if one is given, and their simulated addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from llmstream.dialects.base import DIALECTS, Dialect, dialect_class
from llmstream.errors import InvalidRequest

__all__ = ["INVENTORS", "SIMULATED", "Wire", "base_url", "wire_of"]

INVENTORS: Final[Mapping[str, str]] = {
    "openai-chat": "openai",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "google",
    "gemini-interactions": "google-interactions",
    "bedrock-converse": "bedrock",
    "cohere": "cohere",
    "mistral": "mistral",
    "ollama": "ollama",
}
"""Name of a dialect to the provider that invented it. A new dialect is one line here."""

# Clouds that serve another vendor's API: (dialect, provider) to the dialect's arguments.
_HOSTED: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("anthropic", "bedrock-invoke"): {"framing": "aws-event-stream"},
    ("anthropic", "vertex"): {},
}


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
"""Dialects of the simulator: name to the path in the base URL of its clients."""


class Wire(NamedTuple):
    """A dialect with the quirks of one provider.

    warning: why the provider's quirks are missing, or None
    """

    dialect: Dialect
    provider: str
    warning: str | None = None


def wire_of(name: str, provider: str | None) -> Wire:
    """Returns the dialect of that name, with the quirks of the provider or else of its inventor.

    An unknown provider only gives a warning.
    raises: InvalidRequest for an unknown dialect
    """
    if name not in DIALECTS:
        raise InvalidRequest(f"unknown dialect {name!r}. Dialects: {', '.join(DIALECTS)}.")
    make = dialect_class(name)
    if provider is None:
        return Wire(make(), INVENTORS[name])
    hosted = _HOSTED.get((name, provider))
    if hosted is not None:
        return Wire(make(**hosted), provider)
    from llmstream.providers.registry import find_provider

    try:
        known = find_provider(provider)
    # Recordings may be older than a provider, or of another package: the dialect suffices to decode.
    except InvalidRequest:
        return Wire(make(), provider, f"unknown provider {provider!r}; decoding as plain {name}")
    if known.dialect.name != name:
        speaks = f"{provider} speaks {known.dialect.name}, not {name}; decoding as plain {name}"
        return Wire(make(), provider, speaks)
    return Wire(known.dialect, known.name)


def base_url(url: str, dialect: str) -> str:
    """Returns the base URL for a client of that dialect at a simulator."""
    return url + SIMULATED[dialect]
