"""Finds providers: the folders beside this file, then entry points of other packages."""

from __future__ import annotations

import functools
import importlib
import logging
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from llmstream.errors import InvalidRequest, LLMStreamError, Unsupported
from llmstream.providers.base import Provider

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ENTRY_POINT_GROUP", "all_providers", "find_provider", "provider_names"]

ENTRY_POINT_GROUP: Final = "llmstream.providers"
"""Entry points of this group name a `Provider`: `acme = "acme_llm:ACME"`."""

_RETIRED: Final = {
    **dict.fromkeys(
        ("github", "github-models"),
        "GitHub ended GitHub Models on 2026-07-30. Use copilot:MODEL with a GitHub Copilot subscription, "
        "azure:DEPLOYMENT, or the vendor of the model.",
    ),
}
"""Names of services that are gone, and what to use in their place."""

_NEAR: Final = 0.75
"""How alike a near miss is: opnai is 0.91 like openai and 0.63 like azureopenai, an alias of another."""

_log = logging.getLogger("llmstream")


def provider_names() -> tuple[str, ...]:
    """Every provider's name: ours, then others', each in alphabetical order."""
    ours = _folders()
    return ours + tuple(sorted(name for name in _entry_points() if name not in ours))


def find_provider(name: str) -> Provider:
    """The provider of that name or alias; case does not matter, and `_` is `-`.

    raises: InvalidRequest that lists names close to it; Unsupported where another package's
        provider cannot be loaded
    """
    wanted = _canonical(name)
    if wanted in _folders():
        return _from_folder(wanted)
    for provider in map(_from_folder, _folders()):
        if wanted in provider.aliases:
            return provider
    entries = _entry_points()
    if wanted in entries:
        return _from_entry_point(entries[wanted])
    for provider in _loadable(entries):
        if wanted in provider.aliases:
            return provider
    if wanted in _RETIRED:
        raise InvalidRequest(_RETIRED[wanted])
    raise InvalidRequest(
        f"No provider is called {name!r}. {_hint(wanted)}`llmstream providers` lists all; "
        "for another OpenAI-compatible server use openai:MODEL with base_url=."
    )


def all_providers() -> Iterator[Provider]:
    """Every provider that is known and can be loaded; one that cannot is logged and left out."""
    ours = _folders()
    yield from map(_from_folder, ours)
    yield from _loadable({name: entry for name, entry in _entry_points().items() if name not in ours})


def _canonical(name: str) -> str:
    return name.strip().lower().replace("_", "-")


@functools.cache
def _folders() -> tuple[str, ...]:
    package = importlib.import_module("llmstream.providers")
    return tuple(sorted(_canonical(m.name) for m in pkgutil.iter_modules(package.__path__) if m.ispkg))


def _entry_points() -> dict[str, EntryPoint]:
    """Others' providers by name, in alphabetical order; of two packages with one name, the first found."""
    from importlib.metadata import entry_points  # it costs as much as all of this package

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        found.setdefault(_canonical(entry.name), entry)
    return dict(sorted(found.items()))


@functools.cache
def _from_folder(name: str) -> Provider:
    module = importlib.import_module(f"llmstream.providers.{name.replace('-', '_')}")
    for value in vars(module).values():
        if isinstance(value, Provider) and value.name == name:
            return value
    raise Unsupported(f"the module {module.__name__} holds no provider called {name!r}")


@functools.cache
def _from_entry_point(entry: EntryPoint) -> Provider:
    """raises: Unsupported that names the package, where it holds no such provider."""
    where = f"the entry point {entry.name!r} ({entry.value}) of {entry.dist.name if entry.dist else '?'}"
    try:
        value = entry.load()
    except Exception as error:
        raise Unsupported(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(value, Provider):
        raise Unsupported(f"{where} is no Provider but {type(value).__name__}")
    if value.name != _canonical(entry.name):
        raise Unsupported(f"{where} is a provider that calls itself {value.name!r}; the two have to agree")
    return value


def _loadable(entries: dict[str, EntryPoint]) -> Iterator[Provider]:
    for entry in entries.values():
        try:
            yield _from_entry_point(entry)
        except LLMStreamError as error:
            _log.warning("%s", error)


def _hint(wanted: str) -> str:
    from difflib import get_close_matches

    known = {name: name for name in provider_names()}
    for provider in all_providers():
        known.update(dict.fromkeys(provider.aliases, provider.name))
    close = dict.fromkeys(known[match] for match in get_close_matches(wanted, known, n=3, cutoff=_NEAR))
    return f"Did you mean {' or '.join(close)}? " if close else ""
