"""The results of a benchmark: samples, statistics, a versioned JSON document, and a comparison of two."""

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
from llmstream.display.plot import percentile
from llmstream.errors import InvalidRequest
from llmstream.files import read_file

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
    "read_report",
    "report_of",
    "spread",
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
        report = msgspec.json.decode(data, type=Report)
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
