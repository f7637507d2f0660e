"""Dialects by the names of the command line, with the quirks of a provider where one is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from llmstream.dialects.base import Dialect
from llmstream.errors import InvalidRequest

__all__ = ["DIALECTS", "Wire", "wire_of"]

DIALECTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "openai-chat": ("llmstream.dialects.openai_chat", "OpenAIChat", "openai"),
    "openai-responses": ("llmstream.dialects.openai_responses", "OpenAIResponses", "openai-responses"),
    "anthropic": ("llmstream.dialects.anthropic", "Anthropic", "anthropic"),
    "gemini": ("llmstream.dialects.gemini", "Gemini", "google"),
    "gemini-interactions": (
        "llmstream.dialects.gemini_interactions",
        "GeminiInteractions",
        "google-interactions",
    ),
    "bedrock-converse": ("llmstream.dialects.bedrock_converse", "BedrockConverse", "bedrock"),
    "cohere": ("llmstream.dialects.cohere", "Cohere", "cohere"),
    "mistral": ("llmstream.dialects.mistral", "Mistral", "mistral"),
    "ollama": ("llmstream.dialects.ollama", "Ollama", "ollama"),
}
"""Name to module, class, and the provider whose own wire it is. A new dialect is one line here."""

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
    module, kind, inventor = DIALECTS[name]
    make: Callable[..., Dialect] = getattr(importlib.import_module(module), kind)
    if provider is None:
        return Wire(make(), inventor)
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
