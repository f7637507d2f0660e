"""The matrix: requests of every kind for every model, held to the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from drift.requests import combinations, sent
from drift.rules import TYPICAL, broken

__all__ = ["Violation", "models", "violations"]

# Providers to the wire whose SDK names their models, and how they name them.
_SAME_MODELS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "openai": ("openai-chat", str),
    "azure": ("openai-chat", str),
    "openai-responses": ("openai-responses", str),
    "azure-responses": ("openai-responses", str),
    "anthropic": ("anthropic", str),
    "vertex-anthropic": ("anthropic", str),
    "bedrock": ("anthropic", "us.anthropic.{}-v1:0".format),
    "bedrock-invoke": ("anthropic", "us.anthropic.{}-v1:0".format),
    "google": ("gemini", str),
    "vertex": ("gemini", str),
    "google-interactions": ("gemini", str),
}


class Violation(NamedTuple):
    """A rule that requests for one model break.

    example: one of the requests
    """

    rule: str
    provider: str
    model: str
    example: str


def models(named: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Provider and model: the names that the SDKs know, by wire, and the typical ones."""
    for provider, typical in TYPICAL.items():
        wire, spelled = _SAME_MODELS.get(provider, ("", str))
        yield from (
            (provider, name) for name in dict.fromkeys((*map(spelled, named.get(wire, ())), *typical))
        )


def violations(
    named: Mapping[str, tuple[str, ...]],
    *,
    every: bool = True,
    seen: Callable[[str], None] = lambda provider: None,
) -> list[Violation]:
    """All that is broken, by provider, model and rule.

    every: all combinations for the typical models; for the others, which follow them, those of effort
           and tools, as for all without it
    seen:  is called with each provider before its requests are tried
    """
    found: dict[tuple[str, str, str], str] = {}
    last = ""
    for provider, model in models(named):
        if provider != last:
            seen(provider)
            last = provider
        for wanted in combinations(provider, model, every=every and model in TYPICAL[provider]):
            for rule in broken(wanted, sent(wanted)):
                found.setdefault((provider, model, rule.name), str(wanted))
    return [
        Violation(rule, provider, model, example)
        for (provider, model, rule), example in sorted(found.items())
    ]
