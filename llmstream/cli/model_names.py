"""Checks model names of the form "provider:model" and suggests likely ones for others."""

from __future__ import annotations

import re
from difflib import SequenceMatcher, get_close_matches
from typing import Final

from llmstream.errors import InvalidRequest
from llmstream.providers.registry import all_providers, find_provider, provider_names

__all__ = ["checked_model", "likely_models"]

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
"""Prefixes of the names of a model family, and its provider: the vendor, or Ollama for open models."""

_MIN_SIMILARITY: Final = 0.75
"""Similarity of a suggested name: opnai and openai have 0.91, opnai and azureopenai 0.63."""
_MAX_DIFFERENCE: Final = 0.05
"""Further suggestions are about as similar as the first."""
_OLLAMA_TAG: Final = re.compile(r"\d+(\.\d+)?[bm](-.*)?|latest|cloud")
"""Tag after the colon of an Ollama name, such as llama3.2:1b."""


def checked_model(spec: str) -> str:
    """Returns the name if it has a known provider and a model.

    raises: InvalidRequest that suggests likely names
    """
    name, colon, model = spec.partition(":")
    if name and colon and model.strip():
        try:
            find_provider(name)
        except InvalidRequest as error:
            found = likely_models(spec)
            if not found:
                raise
            raise InvalidRequest(
                f"unknown provider {name!r}. {_did_you_mean(found)}`llmstream providers` lists all."
            ) from error
        return spec
    found = likely_models(spec)
    example = "" if found else ", such as openai:gpt-5-mini"
    raise InvalidRequest(
        f"{spec!r} does not name a provider. {_did_you_mean(found)}Write provider:model{example}; "
        "`llmstream providers` lists the providers."
    )


def likely_models(spec: str) -> list[str]:
    """Suggests up to three names of the form "provider:model" for another name, likeliest first."""
    name, colon, model = spec.strip().partition(":")
    if colon and model:
        by_tag = _of_family(spec) if _OLLAMA_TAG.fullmatch(model) else []
        return by_tag or [f"{provider}:{model}" for provider in _near(name)]
    vendor, slash, rest = name.partition("/")
    if not slash:
        return _of_family(name) or [f"{provider}:MODEL" for provider in _near(name)]
    if vendor == "models":
        return _of_family(rest)
    return [f"{provider}:{rest}" for provider in _near(vendor)] or [f"openrouter:{name}"]


def _of_family(model: str) -> list[str]:
    name = model.lower()
    if "gpt-oss" in name:
        return [f"ollama:{model}"]
    found = (provider for prefixes, provider in _FAMILIES if name.startswith(prefixes))
    provider = next(found, "")
    return [f"{provider}:{model}"] if provider else []


def _near(name: str) -> list[str]:
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


def _did_you_mean(models: list[str]) -> str:
    return f"Did you mean {' or '.join(models)}? " if models else ""
