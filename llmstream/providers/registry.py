"""Finds providers: the folders beside this file, then entry points of other packages."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import pkgutil
from collections.abc import Iterator

from llmstream.errors import InvalidRequest, Unsupported
from llmstream.providers.base import Provider

__all__ = ["ENTRY_POINT_GROUP", "all_providers", "find_provider", "provider_names"]

ENTRY_POINT_GROUP = "llmstream.providers"
"""Entry points of this group name a `Provider`: `acme = "acme_llm:ACME"`."""


@functools.cache
def provider_names() -> tuple[str, ...]:
    """Every provider's name: ours, then others', each in alphabetical order."""
    package = importlib.import_module("llmstream.providers")
    ours = sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(package.__path__) if m.ispkg)
    others = sorted(e.name for e in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))
    return tuple(ours) + tuple(name for name in others if name not in ours)


@functools.cache
def find_provider(name: str) -> Provider:
    """The provider of that name or alias.

    raises: InvalidRequest that lists names close to it
    """
    if name in provider_names():
        return _load(name)
    for provider in all_providers():
        if name in provider.aliases:
            return provider
    close = difflib.get_close_matches(name, provider_names(), n=3)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise InvalidRequest(
        f"No provider is called {name!r}. {hint}`llmstream providers` lists all; "
        "for another OpenAI-compatible server use openai:MODEL with base_url=."
    )


def all_providers() -> Iterator[Provider]:
    """Every provider that is known and can be loaded."""
    for name in provider_names():
        yield _load(name)


@functools.cache
def _load(name: str) -> Provider:
    module_name = f"llmstream.providers.{name.replace('-', '_')}"
    if importlib.util.find_spec(module_name) is not None:
        module = importlib.import_module(module_name)
        for value in vars(module).values():
            if isinstance(value, Provider) and value.name == name:
                return value
        raise Unsupported(f"the module {module_name} holds no provider called {name!r}")
    (entry, *_) = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP, name=name)
    value = entry.load()
    if not isinstance(value, Provider):
        raise Unsupported(f"the entry point {name!r} of group {ENTRY_POINT_GROUP} is no Provider")
    return value
