"""Suggests names of the form "provider:model" for others: gpt-5, openai/gpt-5, opnai:gpt-5."""

from __future__ import annotations

import re
from difflib import SequenceMatcher, get_close_matches
from typing import Final

from llmstream.providers.registry import all_providers, provider_names

__all__ = ["did_you_mean", "likely_models", "near_providers"]

# Prefixes of the names of a model family, and its provider: the vendor, or Ollama for open models.
_FAMILIES: Final = (
    (("gpt-", "chatgpt-", "o1", "o3", "o4", "codex-", "computer-use-"), "openai"),
    (("claude-", "claude"), "anthropic"),
    (("gemini-", "gemini", "learnlm"), "google"),
    (("mistral-", "ministral-", "magistral-", "codestral-", "devstral-", "pixtral-", "voxtral-"), "mistral"),
    (("command-", "c4ai-"), "cohere"),
    (("deepseek-chat", "deepseek-reasoner"), "deepseek"),
    (("grok-",), "xai"),
    (("sonar",), "perplexity"),
    (("kimi-", "moonshot-"), "moonshot"),
    (("glm-",), "zai"),
    (("minimax-",), "minimax"),
    (("mercury-",), "inception"),
    (("llama", "qwen", "gemma", "phi", "gpt-oss", "deepseek-", "mistral", "smollm", "granite"), "ollama"),
)

# A suggested name is at least this similar: opnai and openai have 0.91, opnai and azureopenai 0.63.
_MIN_SIMILARITY: Final = 0.75
# Further suggestions are about as similar as the first.
_MAX_DIFFERENCE: Final = 0.05
# The tag after the colon of an Ollama name, such as llama3.2:1b.
_OLLAMA_TAG: Final = re.compile(r"\d+(\.\d+)?[bm](-.*)?|latest|cloud")


def likely_models(spec: str) -> list[str]:
    """Suggests up to three names of the form "provider:model" for another name, likeliest first."""
    name, colon, model = spec.strip().partition(":")
    if colon and model:
        # Ollama's own names have a colon, before which no provider stands.
        by_tag = _of_family(spec) if _OLLAMA_TAG.fullmatch(model) else []
        return by_tag or [f"{provider}:{model}" for provider in near_providers(name)]
    vendor, slash, rest = name.partition("/")
    if not slash:
        return _of_family(name) or [f"{provider}:MODEL" for provider in near_providers(name)]
    if vendor == "models":
        return _of_family(rest)
    # vendor/model is how OpenRouter names models.
    return [f"{provider}:{rest}" for provider in near_providers(vendor)] or [f"openrouter:{name}"]


def _of_family(model: str) -> list[str]:
    name = model.lower()
    # Its name begins like those of OpenAI's own service, which does not serve it.
    if "gpt-oss" in name:
        return [f"ollama:{model}"]
    found = (provider for prefixes, provider in _FAMILIES if name.startswith(prefixes))
    provider = next(found, "")
    return [f"{provider}:{model}"] if provider else []


def near_providers(name: str) -> list[str]:
    """Finds the provider of that name or alias, else those with similar ones."""
    name = name.strip().lower().replace("_", "-")
    known = {known: known for known in provider_names()}
    for provider in all_providers():
        known.update({alias: provider.name for alias in provider.aliases if alias not in known})
    if name in known:
        return [known[name]]
    close = get_close_matches(name, known, n=3, cutoff=_MIN_SIMILARITY)
    similarities = {match: SequenceMatcher(None, match, name).ratio() for match in close}
    least = max(similarities.values(), default=0.0) - _MAX_DIFFERENCE
    return list(dict.fromkeys(known[match] for match in close if similarities[match] >= least))


def did_you_mean(models: list[str]) -> str:
    """The suggestions as a question with a space at its end; "" for none."""
    return f"Did you mean {' or '.join(models)}? " if models else ""
