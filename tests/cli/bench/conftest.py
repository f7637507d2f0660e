"""Reports whose samples are known."""

from __future__ import annotations

import pytest

from llmstream.cli.bench.report import (
    Load,
    Overhead,
    Report,
    Sample,
    report_of,
    spread,
)


def _sample(number: int, **fields) -> Sample:
    given = {"first_event_s": 0.1, "first_token_s": 0.2, "end_s": 1.2, "writing_s": 1.0, "fragments": 11}
    return Sample(**{"number": number, "gaps_s": [0.1] * 10, "output_tokens": 20, **given, **fields})


def _report(*samples: Sample, requests: int = 0, wall_s: float = 2.0) -> Report:
    load = Load(model="sim:<a&b>", requests=requests or len(samples), concurrency=2)
    return report_of(
        load,
        samples,
        wall_s=wall_s,
        unfinished=load.requests - len(samples),
        overhead=Overhead(cpu_share=0.25, loop_lag_s=spread([0.001])),
    )


@pytest.fixture
def sample():
    """`sample(number, **fields)`: a sample of round figures."""
    return _sample


@pytest.fixture
def report():
    """`report(*samples)`: the report of them."""
    return _report
