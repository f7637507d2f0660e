"""`llmstream providers`: tables of the providers, and the page of one. Never prints a key."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from llmstream.cli.errors import SUCCESS
from llmstream.cli.keys import stored_places
from llmstream.cli.terminal import columns, print_message, wrapped, write_bytes
from llmstream.display.terminal_text import safe
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.providers.abilities import Abilities, abilities
from llmstream.providers.base import Provider
from llmstream.providers.likely_models import likely_models
from llmstream.providers.registry import find_provider, provider_names, provider_notes

__all__ = ["configure", "is_set", "key_state", "marks", "print_page", "run"]

_HEADS = ("NAME", "TITLE", "DIALECT", "KEY", "ADDRESS", "NOTES")

_GAP: Final = "  "
# Order of the list on a terminal.
_STATES: Final = ("set", "not needed", "not set")

_EPILOG = """\
With PROVIDER, shows one provider: its environment variables, address, abilities and notes. Any
other text lists the providers whose names contain it.

On a terminal, providers whose key is set come first and simulators are hidden. In a pipe, there is
one line per provider, in alphabetical order and with all columns. Keys are never shown.

--matrix shows what the provider's API accepts; a model may support less. No request is sent. Other
packages can add providers (entry points of the group llmstream.providers).

exit status: 0 success, 2 usage error, 130 interrupted (Ctrl-C), 141 the reader of the pipe closed it

examples:
  llmstream providers
  llmstream providers anthropic
  llmstream providers azure --matrix
  llmstream providers --json --set | jq -r '.[].name'
  llmstream providers --json | jq -r '.[] | select(.abilities.usage) | .name'
"""


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    """One provider in the table and in JSON."""

    name: str
    title: str
    aliases: list[str]
    dialect: str
    base_url: str
    base_url_env: list[str]
    base_url_from: str | None
    key_env: list[str]
    key_required: bool
    key_set: bool
    docs: str
    notes: str
    abilities: Abilities


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("name", metavar="PROVIDER", nargs="?", help="provider to show, or text to search the names for")
    add("--set", dest="only_set", action="store_true", help="list only providers whose key is set")
    add("--simulators", action="store_true", help="list the simulators as well")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--matrix", action="store_true", help="show the abilities of each provider")
    output.add_argument("--json", action="store_true", help="print a JSON array with one object per provider")
    output.add_argument("-q", "--quiet", action="store_true", help="print names alone")


def run(arguments: argparse.Namespace) -> int:
    """Prints the table, one provider, or JSON."""
    word = (arguments.name or "").strip().lower().replace("_", "-")
    found = list(_known())
    exact = [provider for provider in found if word in (provider.name, *provider.aliases)]
    if exact and not (arguments.json or arguments.matrix or arguments.quiet):
        _print_one(exact[0], found)
        return SUCCESS
    found = [p for p in exact or found if _has(p, word) and (_is_set(p) or not arguments.only_set)]
    if word and not found and not arguments.only_set:
        near = " or ".join(model.partition(":")[0] for model in likely_models(f"{word}:MODEL"))
        raise InvalidRequest(
            f"no provider matches {arguments.name!r}. {f'Did you mean {near}? ' if near else ''}"
            "`llmstream providers` lists all."
        )
    shown = sys.stdout.isatty() and not arguments.json
    if shown:
        hidden = not (word or arguments.simulators)
        found = [p for p in found if not (hidden and _is_simulator(p))]
        # A stable sort: names stay in alphabetical order within a state.
        found.sort(key=lambda p: (_is_simulator(p), _STATES.index(key_state(p))))
    if arguments.json:
        rows = [_row(provider) for provider in found]
        write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    elif arguments.quiet:
        print("".join(f"{provider.name}\n" for provider in found), end="")
    elif arguments.matrix:
        _print_table(_matrix([_row(provider) for provider in found]))
    elif shown:
        _print_short(found)
    else:
        _print_table([_HEADS, *(_cells(_row(provider)) for provider in found)])
    return SUCCESS


def _known() -> Iterator[Provider]:
    for name in provider_names():
        try:
            yield find_provider(name)
        # A broken third-party provider must not hide the others.
        except LLMStreamError as error:
            print_message(f"warning: the provider {name} cannot be loaded: {error}")


def _has(provider: Provider, word: str) -> bool:
    return any(word in text.lower() for text in (provider.name, provider.title, *provider.aliases))


def _is_set(provider: Provider) -> bool:
    return key_state(provider) == "set"


def _is_simulator(provider: Provider) -> bool:
    return provider.name.partition("-")[0] == "sim"


def _print_one(provider: Provider, known: list[Provider]) -> None:
    keys = {*provider.key_env, *provider.token_env}
    related = [p.name for p in known if p is not provider and keys & {*p.key_env, *p.token_env}]
    print_page(provider, abilities(provider), related)


def _print_short(found: list[Provider]) -> None:
    """Prints the table for a terminal: name, key, its variable, title."""
    mark = marks()
    rows = [("NAME", "KEY", "VARIABLE", "TITLE")]
    for provider in found:
        names = (*provider.key_env, *provider.token_env)
        variable = next(filter(_has_key, names), names[0] if names else "")
        rows.append((provider.name, mark[key_state(provider)], variable, provider.title))
    columns = shutil.get_terminal_size().columns
    for line in _aligned(rows):
        print(safe(line if len(line) <= columns else line[: columns - 1] + "…"))
    print(f"\n{', '.join(f'{sign} {state}' for state, sign in mark.items())}")
    print(wrapped("llmstream providers NAME shows details, --set lists those whose key is set."))


def _row(provider: Provider) -> _Row:
    names = [*provider.key_env, *provider.token_env]
    return _Row(
        name=provider.name,
        title=provider.title,
        aliases=list(provider.aliases),
        dialect=provider.dialect.name,
        base_url=provider.base_url,
        base_url_env=list(provider.base_url_env),
        base_url_from=next(filter(is_set, provider.base_url_env), None),
        key_env=names,
        key_required=provider.key_required,
        key_set=any(map(_has_key, names)),
        docs=provider.docs,
        notes=provider.notes,
        abilities=abilities(provider),
    )


def _cells(row: _Row) -> tuple[str, ...]:
    address = f"from {row.base_url_from}" if row.base_url_from else row.base_url
    if not address:
        address = f"set {' or '.join(row.base_url_env)}" if row.base_url_env else "needs --base-url"
    also = f"also {', '.join(row.aliases)}" if row.aliases else ""
    notes = "; ".join(filter(None, (also, row.notes or row.docs)))
    return (row.name, row.title, row.dialect, _key(row), address, notes)


def _matrix(rows: list[_Row]) -> list[tuple[str, ...]]:
    """Builds a column per ability: yes, or the ways to pass files; - if unsupported."""
    fields = Abilities.__struct_fields__
    heads = ("NAME", *(name.upper().replace("_", "-") for name in fields))
    return [heads, *((row.name, *(_cell(getattr(row.abilities, name)) for name in fields)) for row in rows)]


def _cell(value: bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return "+".join(value) or "-"
    return "yes" if value else "-"


def _key(row: _Row) -> str:
    if not row.key_env:
        return "" if row.key_required else "none needed"
    name = next(filter(_has_key, row.key_env), row.key_env[0])
    state = "set" if row.key_set else "not set" if row.key_required else "not needed"
    return f"{name}: {state}"


def _print_table(rows: list[tuple[str, ...]]) -> None:
    """Prints a table; on a narrow terminal, its columns as several tables below each other."""
    if not sys.stdout.isatty():
        for line in _aligned(rows):
            print(line)
        return
    columns = shutil.get_terminal_size().columns
    for place, part in enumerate(_parts(rows, columns)):
        if place:
            print()
        for line in _aligned(part):
            print(safe(line))


def _parts(rows: list[tuple[str, ...]], columns: int) -> Iterator[list[tuple[str, ...]]]:
    """Cuts the table between columns so that each part fits; all parts have the first column."""
    widths = [max(map(len, column)) + len(_GAP) for column in zip(*rows, strict=True)]
    first, at = widths[0], 1
    while at < len(widths):
        end, room = at + 1, columns - first - widths[at] + len(_GAP)
        while end < len(widths) and widths[end] <= room:
            room -= widths[end]
            end += 1
        yield [(row[0], *row[at:end]) for row in rows]
        at = end


def _aligned(rows: list[Any]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_GAP.join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


_INDENT: Final = 11
_MARKS: Final = {"set": "✓", "not set": "–", "not needed": "·"}
_PLAIN_MARKS: Final = {"set": "yes", "not set": "no", "not needed": "-"}

_SOURCES: Final = "\n\nSources:\n"


def is_set(variable: str) -> bool:
    """Whether an environment variable is set and not blank."""
    return bool(os.environ.get(variable, "").strip())


def _has_key(variable: str) -> bool:
    """Whether a key is in the environment or stored."""
    return is_set(variable) or variable in stored_places()


def key_state(provider: Provider) -> str:
    """Returns "set", "not set" or "not needed"."""
    if any(map(_has_key, (*provider.key_env, *provider.token_env))):
        return "set"
    return "not set" if provider.key_required else "not needed"


def marks() -> dict[str, str]:
    """Returns a mark for each key state that the terminal's encoding has."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    # Check marks would be question marks elsewhere.
    return _MARKS if encoding.replace("-", "") == "utf8" else _PLAIN_MARKS


def print_page(provider: Provider, abilities: Abilities, related: Sequence[str]) -> None:
    """Prints the page of one provider.

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
    yield "key", _key_of(provider)
    found = next(filter(is_set, provider.base_url_env), None)
    if found:
        yield "address", f"from {found}"
    else:
        yield "address", provider.base_url or "none: pass --base-url or set a variable"
    if provider.base_url_env:
        yield "", f"to change it: --base-url, {', '.join(provider.base_url_env)}"
    yield "dialect", provider.dialect.name
    can, cannot = _abilities(abilities)
    yield "supports", ", ".join(can)
    if cannot:
        yield "lacks", ", ".join(cannot)
    if related:
        yield "same key", ", ".join(related)
    if provider.docs:
        yield "docs", provider.docs
    if provider.notes:
        yield "note", provider.notes


def _key_of(provider: Provider) -> str:
    names = [*provider.key_env, *provider.token_env]
    state = key_state(provider)
    if not names:
        return "none needed" if not provider.key_required else "not from the environment"
    found = next(filter(is_set, names), None)
    stored = next(filter(_has_key, names), None)
    if not found and stored:
        return f"{marks()[state]} stored by llmstream keys, in place of {stored}"
    if found:
        others = [name for name in names if name != found]
        return f"{marks()[state]} {found} is set" + (f" (also read: {', '.join(others)})" if others else "")
    return f"{marks()[state]} {state}: {' or '.join(names)}"


def _abilities(abilities: Abilities) -> tuple[list[str], list[str]]:
    """Returns the names of the abilities that the provider has, and of those that it lacks."""
    can, cannot = [], []
    for field in abilities.__struct_fields__:
        value, name = getattr(abilities, field), field.replace("_", " ")
        if value:
            can.append(f"{name} ({', '.join(value)})" if isinstance(value, tuple) else name)
        else:
            cannot.append(name)
    return can, cannot


def _notes(provider: Provider) -> str:
    """Returns the notes without their sources."""
    return provider_notes(provider.name).partition(_SOURCES)[0].strip()


def _print_markdown(text: str) -> None:
    """Prints Markdown, rendered by rich (extra `cli`) on a terminal."""
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
