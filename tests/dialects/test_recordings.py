"""Recordings of every dialect in SSE, decoded complete and in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmstream.events import Finish
from tests.dialects.recordings import SSE, expected, read_sse


@pytest.fixture(params=SSE, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def recording(request: pytest.FixtureRequest) -> Path:
    """A body made by hand in the vendor's format."""
    found: Path = request.param
    return found


def test_every_dialect_has_recordings() -> None:
    assert len({path.parts[-3] for path in SSE}) == 6


def test_recording_matches_expected_events(recording: Path) -> None:
    assert read_sse(recording, recording.read_bytes()) == expected(recording)


def test_byte_by_byte_it_means_the_same(recording: Path) -> None:
    body = recording.read_bytes()
    assert read_sse(recording, body, range(1, len(body))) == expected(recording)


@pytest.mark.slow
def test_every_two_way_cut_means_the_same(recording: Path) -> None:
    body, wanted = recording.read_bytes(), expected(recording)
    for cut in range(1, len(body)):
        assert read_sse(recording, body, [cut]) == wanted, cut


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_other_line_ends_mean_the_same(recording: Path, line_end: bytes) -> None:
    body = recording.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", line_end)
    assert read_sse(recording, body) == expected(recording)


@pytest.mark.slow
def test_byte_truncation_keeps_the_grammar(recording: Path) -> None:
    body = recording.read_bytes()
    for cut in range(len(body)):
        assert isinstance(read_sse(recording, body[:cut])[-1], Finish)
