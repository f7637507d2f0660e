"""The results of a benchmark: samples, statistics, a versioned JSON document, and a comparison of two.

They are shown as text with a table and histograms, and as an SVG plot.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from llmstream import __version__
from llmstream.display.plot import COLORS, Curve, distribution, percentile, seconds
from llmstream.display.terminal_text import one_line
from llmstream.errors import InvalidRequest
from llmstream.files import read_file
from llmstream.first_use import prepared

__all__ = [
    "FORMAT",
    "VERSION",
    "Bin",
    "Change",
    "Load",
    "Overhead",
    "Report",
    "Sample",
    "Spread",
    "compare",
    "comparison_lines",
    "histogram",
    "read_report",
    "report_lines",
    "report_of",
    "seconds",
    "spread",
    "svg",
]

FORMAT: Final = "llmstream-bench"
VERSION: Final = 1


class Load(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The requests of a run: their number, shape and schedule.

    concurrency: requests in flight in a closed loop, or None
    rate_per_s:  arrivals in an open loop, or None
    """

    model: str
    requests: int
    concurrency: int | None = None
    rate_per_s: float | None = None
    warmup: int = 0
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    seed: int = 0


class Sample(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Measurements of one request. Times are in seconds from when the request was due.

    due_s:          when it was due, from the start of the run
    late_s:         delay until it was sent
    first_event_s:  time to the first event; None without one
    first_token_s:  time to the first content: text, reasoning, tool input or a file
    end_s:          time to the end of the stream or its error
    writing_s:      from the first content to the last
    gaps_s:         times between fragments of content; not stored in a report
    fragments:      number of fragments of content
    error:          error code, or None
    message:        error message; a report has one for each code
    """

    number: int
    due_s: float = 0.0
    late_s: float = 0.0
    first_event_s: float | None = None
    first_token_s: float | None = None
    end_s: float = 0.0
    writing_s: float = 0.0
    gaps_s: list[float] = []
    fragments: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    message: str | None = None

    @property
    def tokens(self) -> int:
        """Output tokens as reported by the vendor, else the number of fragments."""
        return self.fragments if self.output_tokens is None else self.output_tokens


class Overhead(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The load of the measuring process itself: a late event loop makes the measured times too long.

    cpu_share:  user and system time as a share of one core; includes a simulator in this process
    loop_lag_s: delay of the event loop in waking a task, sampled a hundred times per second
    """

    cpu_share: float
    loop_lag_s: Spread | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The results of a run. Times are in seconds from when each request was due.

    Spreads cover the requests without an error, and are None without any. `between_tokens_s`
    covers all fragments of these; fragments of one network read are 0 s apart.
    errors:    number of errors by code
    messages:  first error message of each code
    address:   base URL of the requests, without a query; None if unknown
    tokens_by: "usage" if vendors reported token counts, else "fragments"
    """

    load: Load
    wall_s: float
    completed: int
    errors: dict[str, int]
    messages: dict[str, str] = {}
    address: str | None = None
    unfinished: int
    requests_per_s: float
    tokens_per_s: float
    tokens_by: str
    first_event_s: Spread | None = None
    first_token_s: Spread | None = None
    between_tokens_s: Spread | None = None
    end_to_end_s: Spread | None = None
    request_tokens_per_s: Spread | None = None
    late_s: Spread | None = None
    overhead: Overhead
    samples: list[Sample]
    format: str = msgspec.field(name="format", default_factory=lambda: FORMAT)
    version: int = msgspec.field(name="version", default_factory=lambda: VERSION)
    llmstream: str = msgspec.field(name="llmstream", default_factory=lambda: __version__)
    python: str = msgspec.field(name="python", default_factory=platform.python_version)
    when: str = msgspec.field(
        name="when", default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )

    def to_json(self) -> bytes:
        """Returns the document, indented and with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


class Change(NamedTuple):
    """One figure of two runs; ratio is new divided by old, None if old is 0."""

    name: str
    old: float
    new: float
    ratio: float | None


def report_of(
    load: Load,
    samples: Sequence[Sample],
    *,
    wall_s: float,
    unfinished: int,
    overhead: Overhead,
    address: str | None = None,
) -> Report:
    """Computes the sums, rates and spreads of the samples."""
    good = [s for s in samples if s.error is None]
    tokens = sum(s.tokens for s in good)
    return Report(
        load=load,
        wall_s=wall_s,
        completed=len(good),
        errors=dict(Counter(s.error for s in samples if s.error is not None).most_common()),
        messages={s.error: s.message for s in reversed(samples) if s.error and s.message},
        address=address,
        unfinished=unfinished,
        requests_per_s=len(good) / wall_s if wall_s > 0 else 0.0,
        tokens_per_s=tokens / wall_s if wall_s > 0 else 0.0,
        tokens_by="usage" if good and all(s.output_tokens is not None for s in good) else "fragments",
        first_event_s=spread([s.first_event_s for s in good if s.first_event_s is not None]),
        first_token_s=spread([s.first_token_s for s in good if s.first_token_s is not None]),
        between_tokens_s=spread([gap for s in good for gap in s.gaps_s]),
        end_to_end_s=spread([s.end_s for s in good]),
        request_tokens_per_s=spread([s.tokens / s.writing_s for s in good if s.tokens and s.writing_s > 0]),
        late_s=spread([s.late_s for s in samples]),
        overhead=overhead,
        samples=[
            # Gaps would be most of the file; their spread, and a message of each code, are in it.
            msgspec.structs.replace(s, gaps_s=[], message=None)
            for s in sorted(samples, key=lambda s: s.number)
        ],
    )


def read_report(file: str) -> Report:
    """Reads a report that `--json` wrote.

    raises: InvalidRequest if the file cannot be read or is not a report
    """
    try:
        data = read_file(file)
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.") from None
    try:
        report = msgspec.json.decode(data, type=prepared(Report))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{file} is not a report of `llmstream bench --json`: {error}") from None
    if report.format != FORMAT or report.version != VERSION:
        raise InvalidRequest(
            f"{file} has format {report.format} version {report.version}; this llmstream reads "
            f"{FORMAT} version {VERSION}. Run the benchmark again."
        )
    return report


def compare(old: Report, new: Report) -> list[Change]:
    """Compares the figures that both runs have."""
    found = [
        _change("requests/s", old.requests_per_s, new.requests_per_s),
        _change("tokens/s", old.tokens_per_s, new.tokens_per_s),
    ]
    for name, field in (
        ("first event", "first_event_s"),
        ("first token", "first_token_s"),
        ("between tokens", "between_tokens_s"),
        ("end to end", "end_to_end_s"),
    ):
        before, after = getattr(old, field), getattr(new, field)
        if before is not None and after is not None:
            found += [_change(f"{name} {p}", getattr(before, p), getattr(after, p)) for p in ("p50", "p99")]
    return [*found, _change("errors", sum(old.errors.values()), sum(new.errors.values()))]


def _change(name: str, old: float, new: float) -> Change:
    return Change(name, old, new, new / old if old > 0 else None)


# Ratio of the largest to the smallest value above which bins of equal width would hide most of them.
_LOGARITHMIC_FROM = 20


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The distribution of a quantity, in the unit of its values."""

    count: int
    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float


class Bin(NamedTuple):
    """A bar of a histogram: low <= value < high; the last one includes high."""

    low: float
    high: float
    size: int


def spread(values: Sequence[float]) -> Spread | None:
    """Returns the distribution of the values; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    p50, p90, p99 = (percentile(ordered, percent) for percent in (50, 90, 99))
    return Spread(
        count=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        min=ordered[0],
        p50=p50,
        p90=p90,
        p99=p99,
        max=ordered[-1],
    )


def histogram(values: Sequence[float], bins: int = 10) -> list[Bin]:
    """Counts the values in bins of equal width, or of equal ratio if they span a wide range.

    Returns one bin if all values are equal, none without values.
    """
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [Bin(low, high, len(values))]
    wide = low > 0 and high / low >= _LOGARITHMIC_FROM
    edges = [low * (high / low) ** (i / bins) if wide else low + (high - low) * i / bins for i in range(bins)]
    edges.append(high)
    counts = [0] * bins
    for value in values:
        counts[_bin_of(value, edges)] += 1
    return [Bin(a, b, count) for (a, b), count in zip(pairwise(edges), counts, strict=True)]


def _bin_of(value: float, edges: Sequence[float]) -> int:
    for place in range(len(edges) - 2, 0, -1):
        if value >= edges[place]:
            return place
    return 0


# Shows the report of a benchmark: as text with a table and histograms, and as an SVG plot.


_COLUMNS = ("p50", "p90", "p99", "max", "mean")
_BAR_CHARS = 40
_LATE_LOOP_S = 0.02
_BUSY = 0.8
_MESSAGE_CHARS = 400
# In less time, the event loop is sampled at most twenty times, and startup takes most of the CPU time.
_SHORTEST_MEASURED_S = 0.2


def report_lines(report: Report) -> Iterator[str]:
    """Formats the report as lines without colours."""
    yield _headline(report)
    if report.completed:
        yield from _times(report)
    yield ""
    yield from _troubles(report)
    if report.completed:
        yield from _overhead(report)


def _times(report: Report) -> Iterator[str]:
    yield ""
    yield f"{'':<16}" + "".join(f"{name:>11}" for name in _COLUMNS)
    yield from _row("first event", report.first_event_s)
    yield from _row("first token", report.first_token_s)
    yield from _row("between tokens", report.between_tokens_s)
    yield from _row("end to end", report.end_to_end_s)
    rates = report.request_tokens_per_s
    if rates is not None:
        cells = "".join(f"{getattr(rates, name):>11,.0f}" for name in _COLUMNS)
        yield f"{report.tokens_by.replace('usage', 'tokens') + '/s each':<16}{cells}"
    good = [s for s in report.samples if s.error is None]
    yield from _bars("first token", [s.first_token_s for s in good if s.first_token_s is not None])
    yield from _bars("end to end", [s.end_s for s in good])


def comparison_lines(old: Report, new: Report) -> Iterator[str]:
    """Formats each figure of both runs and their ratio; first a warning if the loads differ."""
    yield ""
    yield f"compared with the run of {one_line(old.when, 40)} ({_load(old.load)})"
    if old.load != new.load:
        yield "  warning: the runs had different loads"
    yield f"  {'':<22}{'before':>12}{'now':>12}{'ratio':>9}"
    for change in compare(old, new):
        shown = [_figure(change, value) for value in (change.old, change.new)]
        ratio = "-" if change.ratio is None else f"{change.ratio:.2f}x"
        yield f"  {change.name:<22}{shown[0]:>12}{shown[1]:>12}{ratio:>9}"


def _figure(change: Change, value: float) -> str:
    if change.name.endswith("/s"):
        return f"{value:,.1f}"
    return f"{value:.0f}" if change.name == "errors" else seconds(value)


def _load(load: Load) -> str:
    how = f"{load.rate_per_s:g} a second" if load.rate_per_s else f"{load.concurrency} at a time"
    return f"{one_line(load.model, 60)}, {load.requests} requests, {how}"


def _headline(report: Report) -> str:
    return (
        f"{_load(report.load)}: {seconds(report.wall_s)}, "
        f"{report.requests_per_s:,.1f} requests/s, {report.tokens_per_s:,.0f} tokens/s"
    )


def _row(name: str, values: Spread | None) -> Iterator[str]:
    if values is not None:
        yield f"{name:<16}" + "".join(f"{seconds(getattr(values, column)):>11}" for column in _COLUMNS)


def _bars(name: str, values: list[float]) -> Iterator[str]:
    bins = histogram(values)
    if not bins:
        return
    yield ""
    yield f"{name} ({len(values)} requests)"
    most = max(found.size for found in bins)
    for found in bins:
        # A single request shows too.
        bar = "█" * max(round(_BAR_CHARS * found.size / most), found.size > 0)
        yield f"  {seconds(found.low):>8} to {seconds(found.high):>8}  {bar} {found.size}"


def _troubles(report: Report) -> Iterator[str]:
    if report.unfinished:
        yield f"stopped: {report.unfinished} of {report.load.requests} requests did not finish"
    failed = sum(report.errors.values())
    if failed:
        codes = ", ".join(f"{count} {one_line(code, 40)}" for code, count in report.errors.items())
        yield f"errors: {failed} of {failed + report.completed}: {codes} (excluded from the times)"
        for code, message in report.messages.items():
            yield f"  {one_line(code, 40)}: {one_line(message, _MESSAGE_CHARS)}"
        if report.address:
            yield f"  address: {one_line(report.address, _MESSAGE_CHARS)}"
    else:
        yield "errors: none"
    if report.completed and report.tokens_by == "fragments":
        yield "tokens: number of fragments, because not every response reported its token count"


def _overhead(report: Report) -> Iterator[str]:
    """Describes the load of this process, which is part of the measured times."""
    found = report.overhead
    lag = found.loop_lag_s
    if report.wall_s < _SHORTEST_MEASURED_S:
        yield "overhead: not measured, the run was too short"
        return
    included = ", including its simulator" if report.load.model.startswith("sim") else ""
    yield f"overhead: this process used {found.cpu_share:.0%} of a core{included}"
    if lag is not None:
        yield f"  event loop delay: {seconds(lag.p50)} (p50), {seconds(lag.p99)} (p99);"
        yield "  the times above may be too long by as much"
    if found.cpu_share > _BUSY or (lag is not None and lag.p99 > _LATE_LOOP_S):
        yield "  warning: this process was too busy, so the results include its own delays"


# Length of a model name that fits into the title.
_MODEL_CHARS: Final = 48


def svg(report: Report, other: Report | None = None) -> str:
    """Draws the share of requests that had their first token, or ended, by a given time.

    other:   an earlier run, drawn with dashed lines
    returns: a complete SVG document
    """
    load = report.load
    how = f"{load.rate_per_s:g} a second" if load.rate_per_s else f"{load.concurrency} at a time"
    title = f"{one_line(load.model, _MODEL_CHARS)}: {load.requests} requests, {how}"
    return distribution(
        title.encode("ascii", "replace").decode(),
        [*_curves(report, "", dashed=False), *(_curves(other, ", before", dashed=True) if other else ())],
        x_title="time since the request was due (logarithmic scale)",
        y_title="share of requests",
    )


def _curves(report: Report, suffix: str, *, dashed: bool) -> list[Curve]:
    good = [sample for sample in report.samples if sample.error is None]
    first = [s.first_token_s for s in good if s.first_token_s is not None]
    return [
        Curve(f"first token{suffix}", first, COLORS[0], dashed),
        Curve(f"end to end{suffix}", [s.end_s for s in good], COLORS[1], dashed),
    ]
