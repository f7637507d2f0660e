"""`python -m benchmarks.page FILE PAGE ...`: puts saved figures into pages, between their marks.

The file is what `scripts/bench` wrote. In a page, what stands between `<!-- figures: SECTION -->` and
`<!-- end -->` becomes a table of that section; sections without figures stay as they are. The section
`summary` is three other clients: chat completions in blocks, the slowest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.arguments import arguments
from benchmarks.plots import figures_of

_MARKED: Final = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# How the readers' figures are headed, by the name of the group.
_UNITS: Final = {
    "us_per_event": "{}, us",
    "events_per_s": "{}, events/s",
    "first_ms": "{}, first ms",
    "of_single": "{}, of its single stream",
    "kib_per_stream": "{}, KiB",
    "kib_per_agent": "{}, KiB",
    "longest_wait_ms": "{}, ms",
    "ns_per_fragment": "{} fragments, ns",
    "ms": "{}, ms",
    "ms_per_step": "{}, ms",
    "us_per_call": "{}, us a call",
    "peak_mb": "{}, MB",
    "cores": "{}, cores",
    "size": "{}",
}

# Sections whose other columns say it.
_NO_RATIO: Final = frozenset({"curves", "concurrency", "blocking", "long_runs", "serving"})

# How the packages of the README's table begin.
_SUMMARY: Final = ("litellm ", "pydantic-ai", "openai ")


def page(text: str, figures: list[dict[str, Any]]) -> str:
    """The page with tables of these figures."""

    def filled(mark: re.Match[str]) -> str:
        if mark[2] == "summary":
            found = summary(figures)
        else:
            found = [figure for figure in figures if section_of(figure) == mark[2]]
        return f"{mark[1]}{table(mark[2], found)}{mark[3]}" if found else mark[0]

    return _MARKED.sub(filled, text)


def section_of(figure: dict[str, Any]) -> str:
    """Where a figure belongs; other clients' have no section of their own name."""
    return "peers" if "peer" in figure else str(figure.get("section"))


def summary(figures: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Python clients that most readers know; those of Python have a size. All figures: docs/benchmarks.md."""
    rows = []
    for figure in figures:
        read = (figure.get("dialect"), figure.get("writes"))
        named = str(figure.get("package")).startswith(_SUMMARY)
        if named and section_of(figure) == "peers" and "mb" in figure and read == ("openai-chat", "blocks"):
            us = figure["us_per_event"]
            rows.append(
                {
                    "package": figure["package"],
                    "CPU an event, us": us["peer"],
                    "llmstream in the same run, us": us["message"],
                    "times": figure["peer_over_llmstream"],
                    "import, ms": figure["import_ms"],
                    "packages": figure["distributions"],
                }
            )
    return sorted(rows, key=lambda row: -row["times"])


def table(section: str, figures: Iterable[dict[str, Any]]) -> str:
    """A row for each figure, a column for whatever any of them has; recommendations are for the text."""
    rows = [dict(_cells(section, figure)) for figure in figures if "recommendation" not in figure]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, ["---"] * len(columns), *([row.get(name, "") for name in columns] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(section: str, figure: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in figure.items():
        if name in ("section", "peer"):
            continue
        if not isinstance(value, dict):
            yield name.replace("_", " "), _shown(value)
        elif name != "ratio":
            for reader, number in value.items():
                yield _UNITS.get(name, "{}").format(reader), _shown(number)
        elif section not in _NO_RATIO:
            for reader, number in value.items():
                yield f"{reader} over floor", f"{number:.2f}x"


def _shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    """Fills the pages in their places."""
    source, *pages = map(Path, arguments("FILE PAGE ...", __doc__))
    figures = list(figures_of(source.read_text(encoding="utf-8").splitlines()))
    for target in pages:
        target.write_text(page(target.read_text(encoding="utf-8"), figures), encoding="utf-8")


if __name__ == "__main__":
    main()
