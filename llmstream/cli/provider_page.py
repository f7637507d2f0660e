"""One provider in full: names, key, address, what it takes, and what is different about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from llmstream.cli.terminal import safe
from llmstream.cli.wrapping import columns, wrapped
from llmstream.providers.abilities import Abilities
from llmstream.providers.base import Provider
from llmstream.providers.registry import provider_notes

__all__ = ["is_set", "key_state", "marks", "print_page"]

_INDENT: Final = 11
_MARKS: Final = {"set": "✓", "not set": "–", "not needed": "·"}
_PLAIN_MARKS: Final = {"set": "yes", "not set": "no", "not needed": "-"}

_SOURCES: Final = "\n\nSources:\n"


def is_set(variable: str) -> bool:
    """Whether an environment variable holds anything but white space."""
    return bool(os.environ.get(variable, "").strip())


def key_state(provider: Provider) -> str:
    """ "set", "not set" or "not needed"."""
    if any(map(is_set, (*provider.key_env, *provider.token_env))):
        return "set"
    return "not set" if provider.key_required else "not needed"


def marks() -> dict[str, str]:
    """A mark for each state of a key, that the terminal can show."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return _MARKS if encoding.replace("-", "") == "utf8" else _PLAIN_MARKS


def print_page(provider: Provider, abilities: Abilities, related: Sequence[str]) -> None:
    """Prints everything that is known.

    related: names of other providers with the same key
    """
    print(safe(f"{provider.name}: {provider.title or provider.name}"))
    print()
    for name, value in _facts(provider, abilities, related):
        for place, line in enumerate(wrapped(value, width=columns() - _INDENT).splitlines()):
            print(safe(f"{name if not place else '':<{_INDENT}}{line}"))
    notes = _notes(provider)
    if notes:
        print()
        _print_markdown(notes)


def _facts(provider: Provider, abilities: Abilities, related: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "models", f"{provider.name}:MODEL" + "".join(f", {alias}:MODEL" for alias in provider.aliases)
    yield "key", _key(provider)
    found = next(filter(is_set, provider.base_url_env), None)
    if found:
        yield "address", f"from {found}"
    else:
        yield "address", provider.base_url or "none of its own: pass --base-url or set a variable"
    if provider.base_url_env:
        yield "", f"another: --base-url, {', '.join(provider.base_url_env)}"
    yield "dialect", provider.dialect.name
    can, cannot = _abilities(abilities)
    yield "takes", ", ".join(can)
    if cannot:
        yield "not", ", ".join(cannot)
    if related:
        yield "same key", ", ".join(related)
    if provider.docs:
        yield "docs", provider.docs
    if provider.notes:
        yield "note", provider.notes


def _key(provider: Provider) -> str:
    names = [*provider.key_env, *provider.token_env]
    state = key_state(provider)
    if not names:
        return "none needed" if not provider.key_required else "not from the environment"
    found = next(filter(is_set, names), None)
    if found:
        others = [name for name in names if name != found]
        return f"{marks()[state]} {found} is set" + (f" (also read: {', '.join(others)})" if others else "")
    return f"{marks()[state]} {state}: {' or '.join(names)}"


def _abilities(abilities: Abilities) -> tuple[list[str], list[str]]:
    """What can be asked for, and what cannot."""
    can, cannot = [], []
    for field in abilities.__struct_fields__:
        value, name = getattr(abilities, field), field.replace("_", " ")
        if value:
            can.append(f"{name} ({', '.join(value)})" if isinstance(value, tuple) else name)
        else:
            cannot.append(name)
    return can, cannot


def _notes(provider: Provider) -> str:
    """What is different about it, without the sources."""
    return provider_notes(provider.name).partition(_SOURCES)[0].strip()


def _print_markdown(text: str) -> None:
    """Rendered on a terminal, with rich (extra `cli`); as it is anywhere else."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        try:
            from rich.console import Console
            from rich.markdown import Markdown
        except ModuleNotFoundError:
            pass
        else:
            Console(highlight=False).print(Markdown(text, hyperlinks=False))
            return
    print(safe(text))
