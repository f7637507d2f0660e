"""Arguments that several commands take: numbers, rates, an effort, whose errors name what fits; tools."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, get_args

from llmstream.request import Effort

__all__ = [
    "EFFORTS",
    "REASONING_HELP",
    "add_tool_options",
    "count",
    "decimal",
    "effort",
    "natural",
    "number",
    "positive",
    "shard",
]

# Far above any use; beyond 4,300 digits, int() raises an error of its own.
_MAX_DIGITS: Final = 15
# Of a wrong value, in an error.
_MAX_SHOWN: Final = 20

EFFORTS: Final = get_args(Effort)
REASONING_HELP: Final = f"{', '.join(EFFORTS)}, or a budget in tokens"


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of commands that offer tools; `cli.tool_sources.ToolSources` reads them."""
    add = parser.add_argument
    add(
        "--tools",
        metavar="FILE.py",
        action="append",
        default=[],
        help="offer the public functions of a Python file as tools; demo: a clock and an invented weather "
        "report; repeatable",
    )
    add(
        "--mcp",
        metavar="COMMAND",
        action="append",
        default=[],
        help="offer the tools of an MCP server: its command, or its URL; repeatable",
    )
    add("--yes", action="store_true", help="run tool calls without asking")


def number(low: int, high: int | None = None) -> Callable[[str], int]:
    """The type of an integer within bounds, such as 100, 10,000 or 10_000."""

    def read(text: str) -> int:
        plain = text.replace(",", "").replace("_", "")
        value = int(plain) if plain.isdecimal() and len(plain) <= _MAX_DIGITS else -1
        if value < low or (high is not None and value > high):
            bounds = f"from {low} on" if high is None else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"expected a number {bounds}, not {text[:_MAX_SHOWN]!r}")
        return value

    return read


count: Final = number(1)
natural: Final = number(0)


def decimal(text: str) -> float:
    """A number that is not negative, such as 0.2."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number such as 0.2, not {text[:_MAX_SHOWN]!r}")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = decimal(text)
    if not value:
        raise argparse.ArgumentTypeError("expected a number above 0")
    return value


def effort(text: str) -> str | int:
    """The value of --reasoning: an effort, or a budget in tokens."""
    if text.isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    if text not in EFFORTS:
        raise argparse.ArgumentTypeError(f"expected {REASONING_HELP}, not {text[:_MAX_SHOWN]!r}")
    return text


def shard(text: str) -> tuple[int, int]:
    """The value of --shard, such as 3/16: the third of sixteen."""
    first, slash, of = text.partition("/")
    if slash and first.isdecimal() and of.isdecimal() and len(text) <= _MAX_DIGITS:
        found = int(first), int(of)
        if 1 <= found[0] <= found[1]:
            return found
    raise argparse.ArgumentTypeError(f"expected I/N such as 3/16, I from 1 to N, not {text[:_MAX_SHOWN]!r}")
