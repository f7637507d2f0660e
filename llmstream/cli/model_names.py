"""Models as people write them: "provider:model", and what was probably meant by anything else."""

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
"""How the names of a family begin, and who serves it: the vendor itself, Ollama for open models."""

_CLOSE: Final = 0.75
"""How alike two names are to be called a near miss: opnai and openai are 0.91, opnai and azureopenai 0.63."""
_NO_WORSE: Final = 0.05
"""A second guess is given only if it is about as near as the first."""
_OLLAMA_TAG: Final = re.compile(r"\d+(\.\d+)?[bm](-.*)?|latest|cloud")
"""What stands behind the colon in an Ollama name, such as llama3.2:1b."""


def checked_model(spec: str) -> str:
    """The same name, if it names a provider and a model.

    raises: InvalidRequest that says what was probably meant
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
                f"no provider is called {name!r}. {_did_you_mean(found)}`llmstream providers` lists all."
            ) from error
        return spec
    found = likely_models(spec)
    example = "" if found else ", such as openai:gpt-5-mini"
    raise InvalidRequest(
        f"{spec!r} names no provider. {_did_you_mean(found)}A model is written provider:model{example}; "
        "`llmstream providers` lists the providers."
    )


def likely_models(spec: str) -> list[str]:
    """What may be meant by a name that is no "provider:model", the likeliest first; at most three."""
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
    wanted = model.lower()
    if "gpt-oss" in wanted:
        return [f"ollama:{model}"]
    found = (provider for beginnings, provider in _FAMILIES if wanted.startswith(beginnings))
    provider = next(found, "")
    return [f"{provider}:{model}"] if provider else []


def _near(name: str) -> list[str]:
    """Providers of that name or alias, or of one that is nearly the same."""
    wanted = name.strip().lower().replace("_", "-")
    known = {known: known for known in provider_names()}
    for provider in all_providers():
        known.update({alias: provider.name for alias in provider.aliases if alias not in known})
    if wanted in known:
        return [known[wanted]]
    close = get_close_matches(wanted, known, n=3, cutoff=_CLOSE)
    least = SequenceMatcher(None, close[0], wanted).ratio() - _NO_WORSE if close else 0.0
    return list(
        dict.fromkeys(known[name] for name in close if SequenceMatcher(None, name, wanted).ratio() >= least)
    )


def _did_you_mean(models: list[str]) -> str:
    return f"Did you mean {' or '.join(models)}? " if models else ""
