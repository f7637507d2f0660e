"""`python -m benchmarks.plots FILE DIRECTORY`: figures saved as JSON lines, as plots in SVG.

The file is what `python -m benchmarks --save` and `scripts/bench_peers --json` wrote, in any order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.arguments import arguments
from llmstream.display.plot import bars, lines

Figures = list[dict[str, Any]]


def peers(figures: Figures) -> str:
    """CPU an event of each client, one event a write."""
    found: dict[str, float] = {}
    for figure in figures:
        if "peer" in figure and figure["writes"] == "events":
            found[f"{figure['package']}, {figure['dialect']}"] = figure["us_per_event"]["peer"]
            found[f"llmstream, {figure['dialect']}"] = figure["us_per_event"]["message"]
    ranked = sorted(found.items(), key=lambda item: item[1])
    return bars("CPU an event, each event a write", ranked, x_title="microseconds", ours="llmstream")


def curves(figures: Figures) -> str:
    """Cost a fragment at growing lengths."""
    made = [
        (figure["curve"], [(int(n), ns / 1e3) for n, ns in figure["ns_per_fragment"].items()])
        for figure in figures
        if figure.get("section") == "curves"
    ]
    title = "CPU a fragment by the number of fragments"
    return lines(title, made, x_title="fragments", y_title="microseconds a fragment")


def concurrency(figures: Figures) -> str:
    """Events a second by streams at once."""
    found: dict[str, list[tuple[float, float]]] = {}
    for figure in figures:
        if figure.get("section") == "concurrency":
            for reader, rate in figure["events_per_s"].items():
                name = f"{reader}, {figure['writes']}"
                found.setdefault(name, []).append((figure["streams"], rate))
    title = "Events a second by streams at once, one process"
    return lines(title, [*found.items()], x_title="streams at once", y_title="events a second")


def store(figures: Figures) -> str:
    """What a store takes by how much is in it."""
    made = [
        (
            f"{figure['work']} ({figure['store']})",
            [(int(n.replace(",", "")), ms) for n, ms in figure["ms"].items()],
        )
        for figure in figures
        if figure.get("section") == "store" and len(figure["ms"]) > 1
    ]
    title = "Time by the number of conversations of ten messages"
    return lines(title, made, x_title="conversations", y_title="milliseconds")


PLOTS = {"peers": peers, "curves": curves, "concurrency": concurrency, "store": store}


def figures_of(rows: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The figures among the lines; others, such as a program's remarks, are passed over."""
    for row in rows:
        if row.startswith("{"):
            yield json.loads(row)


def main() -> None:
    """Writes a plot for each kind of figure that the file has."""
    source, target = map(Path, arguments("FILE DIRECTORY", __doc__))
    figures = list(figures_of(source.read_text(encoding="utf-8").splitlines()))
    target.mkdir(parents=True, exist_ok=True)
    for name, plot in PLOTS.items():
        drawn = plot(figures)
        if drawn:
            (target / f"{name}.svg").write_text(drawn, encoding="utf-8")
            print(target / f"{name}.svg")


if __name__ == "__main__":
    main()
