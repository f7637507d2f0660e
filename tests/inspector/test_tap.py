"""Frames are found wherever chunks are cut, and events belong to the frame that made them."""

from __future__ import annotations

import itertools

import pytest

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.events import TextDelta
from llmstream.inspector.tap import FrameCutter, FrameTap, TappedDecoder
from tests.inspector.conftest import END, chunk


def frames(body: bytes, content_type: str, cuts: list[int]) -> list[bytes]:
    """The frames of a body that comes in pieces."""
    cutter, ends, start = FrameCutter(content_type), [0], 0
    for cut in [*cuts, len(body)]:
        ends += [start + end for end in cutter.feed(body[start:cut])]
        start = cut
    return [body[begin:end] for begin, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_sse_frames_at_every_cut(eol: bytes) -> None:
    whole = [b"data: 1" + 2 * eol, b"event: x" + eol + b"data: 2" + 2 * eol, b": ping" + 2 * eol]
    body = b"".join(whole)
    for cut in range(1, len(body)):
        found = frames(body, "text/event-stream", [cut])
        # A CRLF that is cut in two ends its frame at the CR.
        assert b"".join(found).rstrip() == body.rstrip()
        assert [frame.strip() for frame in found] == [frame.strip() for frame in whole]
    assert frames(body, "text/event-stream", []) == whole


def test_ndjson_and_aws_at_every_cut() -> None:
    lines = [b'{"a":1}\n', b'{"b":2}\n']
    messages = [(20).to_bytes(4, "big") + 16 * b"a", (24).to_bytes(4, "big") + 20 * b"\n"]
    for kind, whole in (("application/x-ndjson", lines), ("application/vnd.amazon.eventstream", messages)):
        body = b"".join(whole)
        for one in range(1, len(body)):
            for two in range(one, len(body)):
                assert frames(body, kind, [one, two]) == whole


def test_a_broken_length_ends_nothing() -> None:
    """An AWS length of four gigabytes, or of none."""
    for length in (b"\xff\xff\xff\xff", b"\0\0\0\0"):
        assert b"".join(frames(length + b"x" * 40, "application/vnd.amazon.eventstream", [2, 9])) is not None


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_events_have_their_frame(size: int) -> None:
    """Whatever the size of the reads."""
    parts = [chunk("one"), b": ping\n\n", chunk("two") + chunk("three"), END]
    body = b"".join(parts)
    noted: list[tuple[int, bytes, bool]] = []
    tap = FrameTap(
        "text/event-stream", lambda offset, data, *, complete: noted.append((offset, data, complete))
    )
    decoder = TappedDecoder(OpenAIChat().decoder(provider="x"), tap)
    found: dict[str, int] = {}
    for start in range(0, len(body), size):
        events = decoder.feed(body[start : start + size])
        for event, place in zip(events, tap.places(events), strict=True):
            if isinstance(event, TextDelta):
                found[event.delta] = place
    assert found == {text: body.index(chunk(text)) for text in ("one", "two", "three")}
    assert b"".join(data for _, data, _ in noted) == body
    assert all(body[offset : offset + len(data)] == data and whole for offset, data, whole in noted)


def test_the_rest_of_a_body_is_noted() -> None:
    noted: list[tuple[int, bytes, bool]] = []
    tap = FrameTap(
        "text/event-stream", lambda offset, data, *, complete: noted.append((offset, data, complete))
    )
    decoder = TappedDecoder(OpenAIChat().decoder(provider="x"), tap)
    decoder.feed(chunk("a") + b"data: {")
    tap.end_body()
    tap.end_body()
    assert noted[1:] == [(len(chunk("a")), b"data: {", False)]
    decoder.feed(b'"half": 1}\n\n')
    assert noted[2][0] == len(chunk("a")) + len(b"data: {")
