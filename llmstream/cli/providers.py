"""`llmstream providers`: who is known, and whose key is set; never a key's value."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any

import msgspec

from llmstream.cli.exits import FINE
from llmstream.cli.terminal import complain, safe, write_bytes
from llmstream.errors import LLMStreamError
from llmstream.providers.abilities import Abilities, abilities
from llmstream.providers.base import Provider
from llmstream.providers.registry import find_provider, provider_names

__all__ = ["configure", "is_set", "run"]

_HEADS = ("NAME", "TITLE", "DIALECT", "KEY", "ADDRESS", "NOTES")

_EPILOG = """\
KEY names the variable and says whether it is set. A provider may be named by its aliases too.
More can be added by other packages (entry points of the group llmstream.providers).
--matrix is found out by asking each wire for it; nothing is sent, and a single model may know less.

examples:
  llmstream providers
  llmstream providers --matrix
  llmstream providers --json | jq -r '.[] | select(.keySet) | .name'
  llmstream providers --json | jq -r '.[] | select(.abilities.audio != []) | .name'
"""


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    """What is told of one provider."""

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
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("--matrix", action="store_true", help="what requests to each may ask for")
    parser.add_argument("--json", action="store_true", help="a JSON array, one object a provider")


def run(arguments: argparse.Namespace) -> int:
    """Prints the table, or the same as JSON."""
    rows = []
    for name in provider_names():
        try:
            rows.append(_row(find_provider(name)))
        except LLMStreamError as error:  # it belongs to another package, which is broken
            complain(f"warning: the provider {name} cannot be loaded: {error}")
    if arguments.json:
        write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    else:
        table = _matrix(rows) if arguments.matrix else [_HEADS, *map(_cells, rows)]
        for line in _table(table):
            print(line)
    return FINE


def is_set(variable: str) -> bool:
    """Whether an environment variable holds anything but white space."""
    return bool(os.environ.get(variable, "").strip())


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
        key_set=any(map(is_set, names)),
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
    """A column for each ability: yes, or how files may be given; - where there is nothing."""
    fields = Abilities.__struct_fields__
    heads = ("NAME", *(name.upper().replace("_", "-") for name in fields))
    return [heads, *((row.name, *(_said(getattr(row.abilities, name)) for name in fields)) for row in rows)]


def _said(value: bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return "+".join(value) or "-"
    return "yes" if value else "-"


def _key(row: _Row) -> str:
    if not row.key_env:
        return "" if row.key_required else "none needed"
    name = next(filter(is_set, row.key_env), row.key_env[0])
    state = "set" if row.key_set else "not set" if row.key_required else "not needed"
    return f"{name}: {state}"


def _table(rows: list[Any]) -> list[str]:
    """Aligned columns; on a terminal no line is longer than the window."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        return [safe(line if len(line) <= columns else line[: columns - 1] + "…") for line in lines]
    return lines
