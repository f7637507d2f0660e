"""What a model can do, as far as its name and its wire tell, before anything is asked."""

from __future__ import annotations

import msgspec

from llmstream.chats.message import Message
from llmstream.dialects.base import Dialect, keeps_answers, output_abilities, takes_prefix
from llmstream.dialects.model_facts import CountsTokens, KnowsModels, ListsModels, ModelFacts
from llmstream.errors import LLMStreamError
from llmstream.providers.base import Provider
from llmstream.request import Request

__all__ = ["Capabilities", "capabilities_of"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """None is what nothing says; a model newer than the tables has the newest rules of its family.

    reasoning:    it can think before it answers
    efforts:      those it knows, in order; () where it takes none, or a budget only
    schemas:      an answer can be held to a JSON schema
    json:         an answer can be held to JSON of any shape
    forced_tools: it can be told that it has to call a tool, while it is not asked to think
    prefix:       it goes on with an answer that is begun for it
    kept_answers: an answer can be kept at the vendor, and read on after a break
    counts_tokens: the vendor counts; else `Model.count_tokens` estimates
    lists_models: the vendor tells which models it has; else `Model.check` does not know
    context_tokens, max_output_tokens: sizes
    """

    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    schemas: bool = False
    json: bool = False
    forced_tools: bool = False
    prefix: bool = False
    kept_answers: bool = False
    counts_tokens: bool = False
    lists_models: bool = False
    context_tokens: int | None = None
    max_output_tokens: int | None = None


def capabilities_of(model: str, provider: Provider) -> Capabilities:
    """What is known of a model of a provider."""
    dialect = provider.dialect
    counter = provider.counter() if provider.counter else dialect
    request = Request(model=model)
    abilities = output_abilities(dialect, request)
    facts = dialect.facts(model) if isinstance(dialect, KnowsModels) else ModelFacts()
    return Capabilities(
        reasoning=facts.reasoning,
        efforts=facts.efforts,
        schemas="json_schema" in abilities,
        json=bool({"json_object", "json_schema"} & set(abilities)),
        forced_tools="tool" in abilities,
        prefix=takes_prefix(dialect, request),
        kept_answers=keeps_answers(dialect) and dialect.keep(request, provider="") is not None,
        counts_tokens=_counts(model, counter),
        lists_models=isinstance(dialect, ListsModels) and dialect.model_page(model) is not None,
        context_tokens=facts.context_tokens,
        max_output_tokens=facts.max_output_tokens,
    )


def _counts(model: str, dialect: Dialect) -> bool:
    """Whether the dialect makes a request that counts tokens of one to this model."""
    if not isinstance(dialect, CountsTokens):
        return False
    try:
        http = dialect.encode(Request(model=model, messages=(Message.user("?"),)), provider="").http
    except LLMStreamError:  # a name that no request can be made of
        return False
    return dialect.count_request(http) is not None
