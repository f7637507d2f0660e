"""What tokens cost, estimated from the price list of `genai-prices` (extra `prices`)."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Final

import msgspec

from llmstream.dialects.model_facts import ListedModel
from llmstream.errors import Unsupported
from llmstream.usage import Usage

__all__ = ["estimated_price", "installed_price", "known_models", "price", "priced"]

# Our providers by their names in the price list. Others have no public price per token.
_SELLERS: Final = {
    "anthropic": "anthropic",
    "azure": "azure",
    "azure-responses": "azure",
    "baseten": "baseten",
    "bedrock": "aws",
    "bedrock-invoke": "aws",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "copilot": "github-copilot",
    "deepseek": "deepseek",
    "doubleword": "doubleword",
    "fireworks": "fireworks",
    "gemini-openai": "google",
    "google": "google",
    "google-interactions": "google",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "openai": "openai",
    "openai-responses": "openai",
    "openrouter": "openrouter",
    "openrouter-responses": "openrouter",
    "perplexity": "perplexity",
    "together": "together",
    "vertex": "google",
    "vertex-anthropic": "google",
    "xai": "x-ai",
    "xai-responses": "x-ai",
    "zai": "zai",
}


def price(model: str, usage: Usage) -> float | None:
    """An estimate, in US dollars, of what the tokens of a model cost; for `Agent(price=price)`.

    Tokens read from and written to a cache are priced at the vendor's rates for these; so is reasoning, if it
    has a separate price. An estimate because it knows list prices of the day the installed price list was
    made: no discounts, no batch or priority tier, no price of searches or other things that are not counted
    in tokens. Where long prompts cost more, the usage has to be that of one response; an agent asks for each
    and adds up.

    model:   "provider:model"
    usage:   of one response; counts that the vendor did not report count as 0
    returns: None if the provider or the model has no known price, or nothing was counted
    raises:  Unsupported if genai-prices is not installed
    """
    provider, _, name = model.partition(":")
    seller = _SELLERS.get(provider)
    if seller is None or (usage.input_tokens is None and usage.output_tokens is None):
        # Without the list, which takes a tenth of a second to load.
        if not _is_installed():
            raise _missing()
        return None
    try:
        import genai_prices
    except ImportError:
        raise _missing() from None
    try:
        counted = genai_prices.Usage(**_counted(usage))
        found = genai_prices.calc_price(counted, name, provider_id=seller)
    except LookupError:
        # A model that is not in the list.
        return None
    return float(found.total_price)


def estimated_price(model: str, usage: Usage) -> float | None:
    """As `price`; None also if genai-prices is not installed."""
    try:
        return price(model, usage)
    except Unsupported:
        return None


def installed_price() -> Callable[[str, Usage], float | None] | None:
    """`price`; None if genai-prices is not installed. Does not load the list."""
    return price if _is_installed() else None


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("genai_prices") is not None


def _missing() -> Unsupported:
    return Unsupported("prices need genai-prices: pip install 'llmstream-sdk[prices]'")


def known_models(provider: str) -> list[ListedModel]:
    """The current models of a provider in the price list; [] for a provider that is not in it.

    raises: Unsupported where genai-prices is not installed
    """
    seller = _SELLERS.get(provider)
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        raise _missing() from None
    found = next((one for one in get_snapshot().providers if one.id == seller), None)
    models = found.models if found is not None else []
    return [
        priced(provider, ListedModel(name=model.id, context_tokens=model.context_window))
        for model in models
        # Prefixes of the names of fine-tuned models are no names.
        if not model.deprecated and not model.id.endswith("-") and not model.id.startswith("ft:")
    ]


def priced(provider: str, model: ListedModel) -> ListedModel:
    """The model, with missing prices and context size filled in from the price list."""
    name = f"{provider}:{model.name}"
    return msgspec.structs.replace(
        model,
        context_tokens=model.context_tokens or _context_tokens(name),
        input_usd=model.input_usd
        if model.input_usd is not None
        else _by_million(name, Usage(input_tokens=_FEW, output_tokens=0)),
        output_usd=model.output_usd
        if model.output_usd is not None
        else _by_million(name, Usage(input_tokens=0, output_tokens=_FEW)),
    )


# Below the size from which on long prompts cost more.
_FEW: Final = 1_000


def _by_million(model: str, usage: Usage) -> float | None:
    cost = price(model, usage)
    return None if cost is None else round(cost * 1e6 / _FEW, 6)


def _context_tokens(model: str) -> int | None:
    from genai_prices.data_snapshot import get_snapshot

    provider, _, name = model.partition(":")
    try:
        _, found = get_snapshot().find_provider_model(name, None, _SELLERS[provider], None)
    except LookupError:
        return None
    return found.context_window


def _counted(usage: Usage) -> dict[str, int]:
    """The counts by the list's names; what is a part of another count never exceeds it."""
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    read = min(usage.cached_input_tokens or 0, input_tokens)
    return {
        "input_tokens": input_tokens,
        "cache_read_tokens": read,
        "cache_write_tokens": min(usage.cache_write_tokens or 0, input_tokens - read),
        "output_tokens": output_tokens,
        "output_reasoning_tokens": min(usage.reasoning_tokens or 0, output_tokens),
    }
