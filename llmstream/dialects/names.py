"""The dialects by name, each loaded when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from llmstream.dialects.base import Dialect

__all__ = ["DIALECTS", "dialect_class"]

# Module and class by name. A new dialect is one line here.
DIALECTS: Final[Mapping[str, tuple[str, str]]] = {
    "openai-chat": ("llmstream.dialects.openai_chat", "OpenAIChat"),
    "openai-responses": ("llmstream.dialects.openai_responses", "OpenAIResponses"),
    "anthropic": ("llmstream.dialects.anthropic", "Anthropic"),
    "gemini": ("llmstream.dialects.gemini", "Gemini"),
    "gemini-interactions": ("llmstream.dialects.gemini_interactions", "GeminiInteractions"),
    "bedrock-converse": ("llmstream.dialects.bedrock_converse", "BedrockConverse"),
    "cohere": ("llmstream.dialects.cohere", "Cohere"),
    "mistral": ("llmstream.dialects.mistral", "Mistral"),
    "ollama": ("llmstream.dialects.ollama", "Ollama"),
}


def dialect_class(name: str) -> Callable[..., Dialect]:
    """Imports the class of a dialect.

    raises: KeyError for an unknown name
    """
    module, kind = DIALECTS[name]
    return cast(Callable[..., Any], getattr(importlib.import_module(module), kind))
