"""What a benchmark found, as one versioned JSON document, and two of them side by side."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from llmstream import __version__
from llmstream.chats.content import read_whole
from llmstream.errors import InvalidRequest

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
    "histogram",
    "percentile",
    "read_report",
    "report_of",
    "spread",
]

FORMAT: Final = "llmstream-bench"
VERSION: Final = 1


class Load(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was asked, how often and when. rate_per_s: of an open loop; else so many at a time."""

    model: str
    requests: int
    concurrency: int | None = None
    rate_per_s: float | None = None
    warmup: int = 0
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    seed: int = 0


class Sample(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What one request took. Times are seconds and count from when the request was due.

    due_s:          since the benchmark began
    late_s:         how much later than due it was sent
    first_event_s:  first event of the answer; None where nothing came
    first_token_s:  first content: text, reasoning, arguments of a tool, a file
    end_s:          the stream was over, well or not
    writing_s:      from the first content to the last
    gaps_s:         between neighbouring fragments of content; not kept in a report
    fragments:      of content
    error:          the code of what went wrong, or None
    message:        what went wrong; a report has it once for each code
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
        """Of the answer, as the vendor counted; its fragments where the vendor did not."""
        return self.fragments if self.output_tokens is None else self.output_tokens


class Overhead(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The harness's own costs.

    cpu_share:  of one core, user and system time of this process; a simulator in it included
    loop_lag_s: how late the event loop woke a task, sampled a hundred times a second
    """

    cpu_share: float
    loop_lag_s: Spread | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A benchmark's outcome. Times are seconds, counted from when each request was due.

    The spreads are over requests without an error; None where there were none. `between_tokens_s`
    is over all fragments of all of them: those that one read brought are 0 apart.
    messages:  of errors by their code, that of the first with it
    address:   where the requests went, without a query; None where that is not known
    tokens_by: "usage" where vendors said how many tokens there were, else "fragments"
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
        """The document, indented, with a line feed at its end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


class Change(NamedTuple):
    """One figure of two runs; ratio is new over old, None where there is nothing to divide."""

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
    """The sums, rates and spreads of the samples."""
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
            msgspec.structs.replace(s, gaps_s=[], message=None)
            for s in sorted(samples, key=lambda s: s.number)
        ],
    )


def read_report(file: str) -> Report:
    """A report that `--json` wrote.

    raises: InvalidRequest for a file that cannot be read or is none
    """
    try:
        data = read_whole(file)
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.") from None
    try:
        report = msgspec.json.decode(data, type=Report)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{file} is no report of `llmstream bench --json`: {error}") from None
    if report.format != FORMAT or report.version != VERSION:
        raise InvalidRequest(
            f"{file} is a {report.format} of version {report.version}; this llmstream reads "
            f"{FORMAT} of version {VERSION}. Make it anew."
        )
    return report


def compare(old: Report, new: Report) -> list[Change]:
    """The figures that both runs have."""
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


_LOGARITHMIC_FROM = 20
"""Where the largest value is so many times the smallest, bins of equal width would hide the most."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a quantity is distributed; the unit is that of the values."""

    count: int
    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float


class Bin(NamedTuple):
    """A histogram's bar: low <= value < high, the last one with its end."""

    low: float
    high: float
    size: int


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value below which so many percent lie, interpolated linearly between neighbours.

    ordered: ascending, not empty
    source:  Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996, definition 7
    """
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(values: Sequence[float]) -> Spread | None:
    """The distribution of the values; None where there are none."""
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
    """The values counted in bins of equal width, or of equal ratio where they span a wide range.

    One bin where all values are equal, none where there are no values.
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
