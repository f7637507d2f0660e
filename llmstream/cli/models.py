"""`llmstream models`: the models that providers offer, and the default model of the commands."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from llmstream.cli.config import checked_model, default_model, stored_model, write_default
from llmstream.cli.errors import SUCCESS, error_message
from llmstream.cli.keys import api_key_for
from llmstream.cli.providers import key_state
from llmstream.cli.terminal import columns, print_message, wrapped, write_bytes
from llmstream.dialects.model_facts import ListedModel
from llmstream.display.terminal_text import one_line
from llmstream.errors import ConnectionFailed, InvalidRequest, LLMStreamError, MissingKey, Unsupported
from llmstream.prices import known_models, priced
from llmstream.providers.base import Provider, is_local
from llmstream.providers.likely_models import likely_models
from llmstream.providers.registry import all_providers, find_provider
from llmstream.streams import Model
from llmstream.streams.lookups import list_models

__all__ = ["configure", "run"]

_EPILOG: Final = """\
Asks the provider's API for its list. Without PROVIDER, asks all providers whose key is set, and the
local servers that are running. Without a key, lists the models that the price list of genai-prices
knows (pip install 'llmstream-sdk[prices]').

CONTEXT is in tokens, IN and OUT are US dollars for a million tokens, from the provider's list or the
price list; blank where neither has them.

default NAME stores the model that commands use without -m; $LLMSTREAM_MODEL takes precedence. default
alone shows it, and default --remove removes it.

exit status: 0 success, 2 usage error, 3 no provider returned a list, 130 interrupted (Ctrl-C), 141 the reader
of the pipe closed it

examples:
  llmstream models
  llmstream models openai
  llmstream models openrouter claude sonnet     names that contain both
  llmstream models --json groq | jq -r '.[].model'
  llmstream models default openai:gpt-5-mini
"""

# A list needs no model, but `Model` needs a name.
_ANY: Final = "any"


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    """One model in JSON.

    source: "api" if the provider listed it, "price-list" if only genai-prices knows it
    """

    model: str
    provider: str
    name: str
    context_tokens: int | None
    max_output_tokens: int | None
    input_usd_per_million: float | None
    output_usd_per_million: float | None
    source: Literal["api", "price-list"]


class _Found(NamedTuple):
    """The models of one provider, or why they could not be listed."""

    provider: Provider
    models: Sequence[ListedModel]
    source: Literal["api", "price-list"] = "api"
    error: LLMStreamError | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("provider", metavar="PROVIDER", nargs="?", help="name of a provider, or: default")
    add("text", metavar="TEXT", nargs="*", help="list only names that contain all of these")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print a JSON array with one object per model")
    output.add_argument("-q", "--quiet", action="store_true", help="print names alone, and no warnings")
    add("--remove", action="store_true", help="with default: remove the stored default model")
    add("--base-url", metavar="URL", help="base URL of the API, in place of the provider's")


def run(arguments: argparse.Namespace) -> int:
    """Lists models, or shows or stores the default."""
    if arguments.provider == "default":
        _default(arguments.text, remove=arguments.remove)
        return SUCCESS
    if arguments.remove:
        raise InvalidRequest("--remove is an option of `llmstream models default`")
    if arguments.provider:
        results = [asyncio.run(_ask_one(_provider(arguments.provider), arguments.base_url))]
    elif arguments.base_url:
        raise InvalidRequest("--base-url needs a provider: llmstream models openai --base-url URL")
    else:
        results = _ask_all()
    rows = [row for found in results for row in _rows(found) if _has(row, arguments.text)]
    if arguments.quiet:
        print("".join(f"{one_line(row.model)}\n" for row in rows), end="")
    else:
        _print(rows, as_json=arguments.json)
    errors = [found.error for found in results if found.error is not None]
    # A failing vendor must not hide the lists of the others.
    if errors and len(errors) == len(results):
        raise errors[0]
    for error in errors if not arguments.quiet else ():
        print_message(f"warning: {error_message(error)}")
    if not rows and not errors and arguments.text:
        raise InvalidRequest(f"no model's name contains {' and '.join(arguments.text)}")
    return SUCCESS


def _default(given: list[str], *, remove: bool) -> None:
    if len(given) > 1 or (given and remove):
        raise InvalidRequest("give one model, such as `llmstream models default openai:gpt-5-mini`")
    if remove:
        write_default("")
        print("Removed the default model.")
        return
    if given:
        write_default(checked_model(given[0]))
        print(f"The default model is {one_line(given[0])}.")
    elif default_model():
        print(default_model())
    else:
        print_message("no default model. To choose one: llmstream models default openai:gpt-5-mini")
    if os.environ.get("LLMSTREAM_MODEL", "").strip() not in ("", stored_model()) and (
        given or stored_model()
    ):
        print_message("LLMSTREAM_MODEL of the environment takes precedence over the stored default")


def _provider(name: str) -> Provider:
    try:
        return find_provider(name)
    except InvalidRequest:
        near = [model.partition(":")[0] for model in likely_models(f"{name}:MODEL")]
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise InvalidRequest(f"unknown provider {name!r}. {hint}`llmstream providers` lists all.") from None


def _ask_all() -> list[_Found]:
    """Queries every available provider concurrently; only one of those that share a key."""
    asked: dict[object, Provider] = {}
    for provider in sorted(all_providers(), key=lambda provider: (len(provider.name), provider.name)):
        if key_state(provider) == "set" or _is_local(provider):
            # The shortest name comes first: the vendor's own, not that of another wire.
            asked.setdefault(provider.key_env or provider.base_url, provider)
    if not asked:
        raise InvalidRequest("no keys are set. Name a provider, or store a key: llmstream keys set openai")
    providers = sorted(asked.values(), key=lambda provider: provider.name)

    async def ask() -> list[_Found]:
        return await asyncio.gather(*(_ask_one(provider, None) for provider in providers))

    results = asyncio.run(ask())
    # A local server that is not running is not a failure.
    results = [r for r in results if not (isinstance(r.error, ConnectionFailed) and _is_local(r.provider))]
    if not results:
        raise InvalidRequest(
            "no keys are set, and no local server is running. Name a provider, or store a key: "
            "llmstream keys set openai"
        )
    return results


def _is_local(provider: Provider) -> bool:
    simulated = provider.name.partition("-")[0] == "sim"
    return not provider.key_required and not simulated and is_local(provider.base_url)


async def _ask_one(provider: Provider, base_url: str | None) -> _Found:
    """Queries one provider; without a key or a list, falls back to the price list."""
    try:
        model = Model(f"{provider.name}:{_ANY}", base_url=base_url, api_key=api_key_for(provider.name))
        models = await list_models(model)
    except MissingKey as error:
        known = _known(provider)
        return _Found(provider, known, "price-list") if known else _Found(provider, (), error=error)
    except LLMStreamError as error:
        return _Found(provider, (), error=error)
    if models is None:
        known = _known(provider)
        missing = Unsupported(f"{provider.name} has no list of models. {provider.docs}".strip())
        return _Found(provider, known, "price-list", None if known else missing)
    return _Found(provider, models)


def _known(provider: Provider) -> list[ListedModel]:
    try:
        return known_models(provider.name)
    except Unsupported:
        return []


def _rows(found: _Found) -> Iterable[_Row]:
    name = found.provider.name
    for model in found.models:
        try:
            model = priced(name, model)
        # Without the price list, the list has what the provider reported.
        except Unsupported:
            pass
        facts = found.provider.dialect.facts(model.name)
        yield _Row(
            model=f"{name}:{model.name}",
            provider=name,
            name=model.name,
            context_tokens=model.context_tokens or facts.context_tokens,
            max_output_tokens=model.max_output_tokens or facts.max_output_tokens,
            input_usd_per_million=model.input_usd,
            output_usd_per_million=model.output_usd,
            source=found.source,
        )


def _has(row: _Row, texts: Iterable[str]) -> bool:
    return all(text.lower() in row.model.lower() for text in texts)


def _print(rows: Sequence[_Row], *, as_json: bool) -> None:
    if as_json:
        write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
        return
    if not rows:
        return
    names = max(max(len(one_line(row.model)) for row in rows), len("MODEL"))
    # Sizes and prices need 29 columns; on a narrow terminal the names matter more.
    is_wide = not sys.stdout.isatty() or names + 29 <= columns()
    if is_wide:
        print(f"{'MODEL':<{names}}{'CONTEXT':>10}{'IN':>9}{'OUT':>9}")
    for row in rows:
        line = f"{one_line(row.model):<{names}}"
        if is_wide:
            line += f"{_count(row.context_tokens):>10}"
            line += f"{_usd(row.input_usd_per_million):>9}{_usd(row.output_usd_per_million):>9}"
        print(line.rstrip())
    guessed = sorted({row.provider for row in rows if row.source == "price-list"})
    if guessed and sys.stdout.isatty():
        print(wrapped(f"\nFrom the price list, not from the API: {', '.join(guessed)}. "))
        print(wrapped("With a key, the list comes from the API: llmstream keys set " + guessed[0]))


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def _usd(price: float | None) -> str:
    return "" if price is None else f"{price:.4g}"
