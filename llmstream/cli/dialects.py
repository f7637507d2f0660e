"""Dialects by the names of the command line, with the quirks of a provider where one is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from llmstream.dialects.base import Dialect
from llmstream.dialects.names import DIALECTS, dialect_class
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
"""Name of a dialect to the provider whose own it is. A new dialect is one line here."""

_HOSTED: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("anthropic", "bedrock-invoke"): {"framing": "aws-event-stream"},
    ("anthropic", "vertex"): {},
}
"""Clouds that serve another vendor's wire: (dialect, provider) to the dialect's arguments."""


class Wire(NamedTuple):
    """A dialect as one provider speaks it.

    warning: what is not known of this provider; None where all is
    """

    dialect: Dialect
    provider: str
    warning: str | None = None


def wire_of(name: str, provider: str | None) -> Wire:
    """The dialect of that name, with the quirks of the provider; by default of the wire's inventor.

    raises: InvalidRequest for an unknown dialect; an unknown provider only gives a warning
    """
    if name not in DIALECTS:
        raise InvalidRequest(f"no dialect is called {name!r}. Dialects: {', '.join(DIALECTS)}.")
    make = dialect_class(name)
    if provider is None:
        return Wire(make(), INVENTORS[name])
    hosted = _HOSTED.get((name, provider))
    if hosted is not None:
        return Wire(make(**hosted), provider)
    from llmstream.providers.registry import find_provider

    try:
        known = find_provider(provider)
    except InvalidRequest:
        return Wire(make(), provider, f"no provider is called {provider!r}; reading it as plain {name}")
    if known.dialect.name != name:
        speaks = f"{provider} is known to speak {known.dialect.name}; reading it as plain {name}"
        return Wire(make(), provider, speaks)
    return Wire(known.dialect, known.name)


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
