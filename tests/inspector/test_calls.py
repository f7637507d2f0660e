"""What is seen of a call: how it ended, what was slow, and who was."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.errors import ErrorInfo
from llmstream.inspector import inspect
from llmstream.inspector.app import gaps_svg
from llmstream.inspector.calls import CallTrace
from llmstream.inspector.trace import (
    CallBegan,
    CallEnded,
    EventsSeen,
    Line,
    Read,
    decode_line,
    encode_line,
    frame_of,
    lines_of,
)
from llmstream.testing import Do, FaultServer, answered
from tests.inspector.conftest import END, KEY, calls_of, chunk

S = 1_000_000_000


def call_of(*reads: tuple[float, float, int], error: str | None = None) -> CallTrace:
    """A call whose reads (at, waited, deltas) came as given."""
    call, offset = CallTrace("c"), 0
    call.feed(CallBegan(call="c", ns=0, provider="p", model="m"))
    at = 0.0
    for at, waited, deltas in reads:
        ns = round(at * S)
        data = [b"data: %d\n\n" % n for n in range(deltas)]
        size = sum(map(len, data))
        call.feed(Read(call="c", ns=ns, waited_ns=round(waited * S), offset=offset, size=size))
        raw = msgspec.Raw(b'{"type":"text-delta","id":"0","delta":"x"}')
        events = []
        for frame in data:
            call.feed(frame_of("c", offset, frame))
            events.append((offset, raw))
            offset += len(frame)
        call.feed(EventsSeen(call="c", ns=ns, events=events))
    info = None if error is None else ErrorInfo(error, "it ended", False)
    call.feed(CallEnded(call="c", ns=round(at * S), error=info))
    return call


def texts(call: CallTrace, kind: str) -> list[str]:
    return [finding.text for finding in call.findings() if finding.kind == kind]


def test_many_events_in_a_read_are_a_buffer() -> None:
    call = call_of((0.5, 0.5, 1), (3.0, 2.4, 40), (3.1, 0.1, 1))
    (text,) = texts(call, "buffer")
    assert text == (
        "40 events came in one read, after a wait of 2.4 s: something between model and program buffers."
    )
    assert texts(call, "silence") == ["The longest silence was 2.4 s, before read 2 of 3."]
    assert call.findings()[0].event == 1


def test_a_busy_program_is_named() -> None:
    """It did not read, so what came meanwhile was there at once."""
    call = call_of((0.5, 0.5, 1), (3.0, 0.0, 40), (3.1, 0.1, 1))
    assert "after this program had been busy for 2.5 s" in texts(call, "buffer")[0]
    assert texts(call, "busy") == [
        "This program did not read for 2.5 s of 3.1 s (2.5 s before read 2): its code was busy."
    ]
    assert call.summary().busy_s == pytest.approx(2.5)


def test_an_even_stream_has_no_findings() -> None:
    assert call_of(*[(0.1 * n, 0.1, 1) for n in range(1, 40)]).findings() == []


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (None, "complete"),
        ("connection-lost", "cut"),
        ("incomplete-stream", "cut"),
        ("overloaded", "failed"),
    ],
)
def test_how_a_call_ended(error: str | None, state: str) -> None:
    call = call_of((0.5, 0.5, 2), error=error)
    assert call.summary().state == state
    assert bool(texts(call, "cut")) == (state == "cut")


def test_a_call_without_its_end_is_open() -> None:
    call = call_of((0.5, 0.5, 2))
    call.ended = None
    assert call.summary().state == "open"


async def test_blocking_code_is_seen_as_busy(tmp_path: Path) -> None:
    """A program that blocks its loop, over a real socket."""
    with inspect(tmp_path / "t.jsonl"):
        async with FaultServer(answered(chunk("a"), *[chunk("b")] * 30, END)) as server:
            model = ls.Model("deepseek:m", base_url=server.url, api_key=KEY)
            async with model.stream("Hi") as stream:
                async for event in stream:
                    if isinstance(event, ls.TextDelta) and event.delta == "a":
                        time.sleep(0.4)  # noqa: ASYNC251
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert call.summary().busy_s >= 0.4
    assert len(texts(call, "busy")) == 1


async def test_a_frame_cut_by_the_end(traced: Callable[..., Any]) -> None:
    path = await traced([[chunk("a"), chunk("b")[:25], 0.05, Do.RESET]])
    (call,) = calls_of(path).list()
    assert "within a frame of which 25 bytes came" in texts(call, "cut")[0]


def test_lines_survive_the_file() -> None:
    lines: list[Line] = [
        CallBegan(call="c", ns=1, provider="p", model="m", request=msgspec.Raw(b'{"a":1}')),
        frame_of("c", 0, b"\xff\x00"),
        frame_of("c", 2, "é\n".encode()),
        EventsSeen(call="c", ns=5, events=[(0, msgspec.Raw(b'{"type":"x"}'))]),
        CallEnded(call="c", ns=6, error=ErrorInfo("e", "m", True)),
    ]
    data = b"".join(map(encode_line, lines))
    assert list(lines_of(data)) == lines
    assert data.count(b"\n") == len(lines)


def test_lines_of_later_versions() -> None:
    """A type that is not known is passed over; another format is refused."""
    assert decode_line(b'{"type":"mood","call":"c"}') is None
    with pytest.raises(ValueError, match="version 2; known"):
        decode_line(b'{"type":"trace","format":"llmstream.trace","version":2,"at":0,"ns":0}')
    with pytest.raises(ValueError):
        decode_line(b'{"type":"read","call":"c"}')


def test_gaps_are_drawn_with_their_marks() -> None:
    one, two = call_of(*[(0.1 * n, 0.1, 1) for n in range(1, 40)]), call_of((0.1, 0.1, 1))
    svg = gaps_svg(one, two)
    assert "p50 100 ms, p99 100 ms" in svg
    assert svg.count("<polyline") == 3  # the second has one read, and no gap
    assert gaps_svg(two).endswith("</svg>\n")
