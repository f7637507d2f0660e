"""Rules: what vendors refuse, read from their pages and from issues, and not from our encoder.

They stand apart from `llmstream/model_rules` on purpose: a slip in one of the two shows. Sources
by short name: "PA" is pydantic-ai-slim 2.68, "AI SDK" the catalogs of @ai-sdk/* of 2026-11.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

from drift.requests import Sent, Wanted
from drift.rules import claude, google, openai, others
from drift.rules.rule import Rule

__all__ = ["RULES", "TYPICAL", "Rule", "broken"]

TYPICAL: Mapping[str, tuple[str, ...]] = {
    **openai.TYPICAL,
    **claude.TYPICAL,
    **google.TYPICAL,
    **others.TYPICAL,
}
"""Provider to at least one name for each line of a rule; SDKs add the names that they know."""


def _refused_without_need(wanted: Wanted, sent: Sent) -> bool:
    """Only Chat Completions has to refuse: models that it does not serve, and functions for some."""
    pattern = openai.NEEDS_RESPONSES
    if wanted.tools:
        pattern += "|" + openai.TOOLS_NEED_RESPONSES
    needed = wanted.provider in ("openai", "azure") and re.search(pattern, wanted.model)
    return sent.refusal is not None and not needed


RULES: tuple[Rule, ...] = (
    *openai.RULES,
    *claude.RULES,
    *google.RULES,
    *others.RULES,
    Rule(
        "a request is refused that could be sent",
        tuple(TYPICAL),
        "",
        _refused_without_need,
        "what users expect",
        refused=True,
    ),
)


def broken(wanted: Wanted, sent: Sent) -> Iterator[Rule]:
    """The rules that a request breaks."""
    for rule in _about(wanted.provider, wanted.model):
        if (sent.refusal is None or rule.refused) and rule.fails(wanted, sent):
            yield rule


@functools.cache
def _about(provider: str, model: str) -> tuple[Rule, ...]:
    """The rules for a model, of which each is asked for a hundred requests."""
    return tuple(rule for rule in RULES if rule.is_about(provider, model))
