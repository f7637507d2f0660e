"""Finds providers: the modules beside this one, the simulator's, then entry points of other packages.

`acme-eu` is `providers/acme_eu.py`, or the folder `providers/acme_eu/` where the vendor needs code of its
own. One provider a module keeps the first call cheap: only the dialect that it uses is loaded.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from llmstream.dialects.base import DIALECTS
from llmstream.errors import InvalidRequest, LLMStreamError, Unsupported
from llmstream.providers.base import Provider

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ENTRY_POINT_GROUP",
    "all_providers",
    "find_provider",
    "our_provider_names",
    "provider_names",
    "provider_notes",
]

# Entry points of this group name a `Provider`: `acme = "acme_llm:ACME"`.
ENTRY_POINT_GROUP: Final = "llmstream.providers"

# Modules beside this one without a `Provider` of their name.
_NOT_VENDORS: Final = frozenset({"abilities", "base", "likely_models", "registry", "sim"})

_SHORT: Final = {"openai-chat": "sim", "bedrock-converse": "sim-bedrock"}

# Name of a simulated provider to the name of its dialect.
_SIMULATED: Final = {_SHORT.get(dialect, f"sim-{dialect}"): dialect for dialect in DIALECTS}

# Names of services that ended, and what to use instead.
_RETIRED: Final = {
    **dict.fromkeys(
        ("github", "github-models"),
        "GitHub ended GitHub Models on 2026-07-30. Use copilot:MODEL with a GitHub Copilot subscription, "
        "azure:DEPLOYMENT, or the vendor of the model.",
    ),
}

_log = logging.getLogger("llmstream")


def provider_names() -> tuple[str, ...]:
    """Every provider's name: ours, then others', each in alphabetical order."""
    ours = our_provider_names()
    return ours + tuple(sorted(name for name in _entry_points() if name not in ours))


def find_provider(name: str, model: str = "") -> Provider:
    """The provider of that name or alias; case does not matter, and `_` is `-`.

    model:  for which it is looked up, for the error's suggestion only
    raises: InvalidRequest that lists names close to it; Unsupported where another package's
        provider cannot be loaded
    """
    wanted = _canonical(name)
    # Ours come first: another package cannot take over a vendor's name, and with it the key.
    if wanted in our_provider_names():
        return _ours(wanted)
    # Only for names that are no provider's: this loads all of them.
    for provider in map(_ours, our_provider_names()):
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
        f"No provider is called {name!r}. {_hint(name, model)}`llmstream providers` lists all; "
        "for another OpenAI-compatible server use openai:MODEL with base_url=."
    )


def all_providers() -> Iterator[Provider]:
    """Every provider that is known and can be loaded; one that cannot is logged and left out."""
    ours = our_provider_names()
    yield from map(_ours, ours)
    yield from _loadable({name: entry for name, entry in _entry_points().items() if name not in ours})


@functools.cache
def our_provider_names() -> tuple[str, ...]:
    """The names of the providers that come with llmstream, in alphabetical order; none is loaded."""
    package = importlib.import_module("llmstream.providers")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)} - _NOT_VENDORS
    return tuple(sorted([*map(_canonical, modules), *_SIMULATED]))


def provider_notes(name: str) -> str:
    """What is different about a provider of ours, as Markdown: the docstring of its module.

    "" for other packages' providers, and where Python runs without docstrings (-OO).
    """
    if name not in our_provider_names():
        return ""
    return inspect.getdoc(importlib.import_module(_module(name))) or ""


def _canonical(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _entry_points() -> dict[str, EntryPoint]:
    """Others' providers by name, in alphabetical order; of two packages with one name, the first found."""
    from importlib.metadata import entry_points  # it costs as much as all of this package

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        found.setdefault(_canonical(entry.name), entry)
    return dict(sorted(found.items()))


def _module(name: str) -> str:
    return f"llmstream.providers.{'sim' if name in _SIMULATED else name.replace('-', '_')}"


@functools.cache
def _ours(name: str) -> Provider:
    if name in _SIMULATED:
        from llmstream.providers.sim import simulated  # loaded by those who simulate

        return simulated(name, _SIMULATED[name])
    module = importlib.import_module(_module(name))
    for value in vars(module).values():
        if isinstance(value, Provider) and value.name == name:
            return value
    raise Unsupported(f"the module {module.__name__} has no provider called {name!r}")


@functools.cache
def _from_entry_point(entry: EntryPoint) -> Provider:
    """raises: Unsupported that names the package, where it holds no such provider."""
    where = f"the entry point {entry.name!r} ({entry.value}) of {entry.dist.name if entry.dist else '?'}"
    try:
        value = entry.load()
    # A package of others may raise anything on import.
    except Exception as error:
        raise Unsupported(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(value, Provider):
        raise Unsupported(f"{where} is not a Provider but {type(value).__name__}")
    if value.name != _canonical(entry.name):
        raise Unsupported(f"{where} is a Provider with the name {value.name!r}. Give both the same name.")
    return value


def _loadable(entries: dict[str, EntryPoint]) -> Iterator[Provider]:
    for entry in entries.values():
        try:
            yield _from_entry_point(entry)
        except LLMStreamError as error:
            # A package that is broken must not take the other providers away.
            _log.warning("%s", error)


def _hint(wanted: str, model: str) -> str:
    from llmstream.providers.likely_models import did_you_mean, likely_models, near_providers  # for an error

    return did_you_mean(likely_models(f"{wanted}:{model}") if model else near_providers(wanted))
