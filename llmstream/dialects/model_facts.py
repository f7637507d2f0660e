"""Facts about models, pages that list them, and requests that count tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from llmstream.exchange import HttpRequest

__all__ = [
    "ListedModel",
    "ModelFacts",
    "ModelPage",
    "count_in",
    "listed_in",
    "names_in",
    "with_fields",
]


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts known about a model from its name; None for unknown ones.

    reasoning: whether it can think before it answers
    efforts:   supported reasoning efforts, in order; () if none, or a budget only
    context_tokens: of the input, or of input and output together, as its vendor counts
    max_output_tokens: of one response
    """

    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    context_tokens: int | None = None
    max_output_tokens: int | None = None


class ModelPage(msgspec.Struct, frozen=True):
    """Where a vendor lists its models.

    alone: the page is about one model, and is missing if the model does not exist; else it is a list
    """

    http: HttpRequest
    alone: bool


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a vendor's list of models; None where the list does not have a fact.

    context_tokens, max_output_tokens: sizes, as in `ModelFacts`
    input_usd, output_usd: price of a million tokens, in US dollars
    """

    name: str
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    input_usd: float | None = None
    output_usd: float | None = None


class _Page(msgspec.Struct):
    """A list of models, or the requested one."""

    id: str = ""
    name: str = ""
    model: str = ""
    data: list[_Page] = []
    models: list[_Page] = []


class _Count(msgspec.Struct):
    input_tokens: int | None = None
    total: int | None = msgspec.field(default=None, name="totalTokens")


_pages = msgspec.json.Decoder(_Page)
_counts = msgspec.json.Decoder(_Count)


def names_in(body: bytes) -> set[str]:
    """Reads the names on a page of models, in the forms of OpenAI, Anthropic, Cohere, Google and Ollama."""
    try:
        page = _pages.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return set()
    entries = (page, *page.data, *page.models)
    names = {name for entry in entries for name in (entry.id, entry.name, entry.model) if name}
    return {name.removeprefix("models/") for name in names}


_CONTEXT: Final = (
    # OpenRouter, Together and Cohere; Groq; Mistral; Google; Anthropic; vLLM
    *("context_length", "context_window", "max_context_length"),
    *("inputTokenLimit", "max_input_tokens", "max_model_len"),
)
_OUTPUT: Final = ("max_completion_tokens", "outputTokenLimit", "max_output_tokens", "max_tokens")
# Field with the token of the next page, and the parameter that takes it: Google, Cohere.
_NEXT: Final = (("nextPageToken", "pageToken"), ("next_page_token", "page_token"))


def listed_in(body: bytes) -> tuple[list[ListedModel], str]:
    """Reads a page of models, in the forms of `names_in` or as an array.

    returns: the models, and the query of the next page, or "" after the last
    """
    try:
        page = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return [], ""
    lists = [page] if isinstance(page, list) else []
    if isinstance(page, dict):
        lists = [found for name in ("data", "models") if isinstance(found := page.get(name), list)]
    entries = [_listed(entry) for found in lists for entry in found if isinstance(entry, dict)]
    return [entry for entry in entries if entry.name], _next_query(page) if isinstance(page, dict) else ""


def _listed(entry: dict[str, Any]) -> ListedModel:
    names = (entry.get(field) for field in ("id", "name", "model"))
    name = next((name for name in names if isinstance(name, str) and name), "")
    return ListedModel(
        name=name.removeprefix("models/"),
        context_tokens=_first_count(entry, _CONTEXT),
        max_output_tokens=_first_count(entry, _OUTPUT),
        input_usd=_usd(entry, "prompt"),
        output_usd=_usd(entry, "completion"),
    )


def _first_count(entry: dict[str, Any], names: Iterable[str]) -> int | None:
    counts = (entry.get(name) for name in names)
    return next((int(count) for count in counts if isinstance(count, int | float) and count > 0), None)


def _usd(entry: dict[str, Any], kind: str) -> float | None:
    """Reads OpenRouter's price, a decimal string in dollars a token; below 0 where it varies."""
    prices = entry.get("pricing")
    try:
        price = float(prices[kind]) * 1e6 if isinstance(prices, dict) else -1.0
    except (KeyError, TypeError, ValueError):
        return None
    return round(price, 6) if price >= 0 else None


def _next_query(page: dict[str, Any]) -> str:
    for field, parameter in _NEXT:
        token = page.get(field)
        if isinstance(token, str) and token:
            return f"{parameter}={quote(token, safe='')}"
    last = page.get("last_id")
    if page.get("has_more") is not True or not isinstance(last, str) or not last:
        return ""
    return f"after_id={quote(last, safe='')}"


def count_in(body: bytes) -> int | None:
    """Reads the number of tokens that a vendor counted; None if the response has none."""
    try:
        found = _counts.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found.total if found.input_tokens is None else found.input_tokens


def with_fields(http: HttpRequest, url: str, names: Iterable[str]) -> HttpRequest:
    """Returns the request for another path, with only these fields of its body."""
    body: dict[str, Any] = http.json()
    kept = {name: body[name] for name in names if name in body}
    return msgspec.structs.replace(http, url=url, body=msgspec.json.encode(kept))
