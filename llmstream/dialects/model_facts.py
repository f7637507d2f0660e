"""Facts about models, pages that list them, and requests that count tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from llmstream.exchange import HttpRequest

__all__ = [
    "ModelFacts",
    "ModelPage",
    "count_in",
    "names_in",
    "with_fields",
]


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a model from its name; None where it is unknown.

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


class _Entry(msgspec.Struct):
    id: str = ""
    name: str = ""
    model: str = ""


class _Page(_Entry):
    data: list[_Entry] = []
    models: list[_Entry] = []


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
