"""SSE framing: the standard's rules, every cut, the fast path against the line path, the caps."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmstream.errors import LimitExceeded
from llmstream.framing.sse import Frame, SSEDecoder

# name, body, (event, data, id, retry) of each frame
OWN_CASES: list[tuple[str, bytes, list[tuple[str, str, str, int | None]]]] = [
    ("one block", b"data: a\n\n", [("message", "a", "", None)]),
    ("two data lines", b"data: a\ndata: b\n\n", [("message", "a\nb", "", None)]),
    ("no space", b"data:a\n\ndata: b\n\ndata:  c\n\n", [("message", c, "", None) for c in ("a", "b", " c")]),
    ("empty data", b"data\n\ndata:\n\ndata: \n\n", [("message", "", "", None)] * 3),
    ("names", b"event: x\ndata: 1\n\nevent: y\ndata: 2\n\n", [("x", "1", "", None), ("y", "2", "", None)]),
    ("name does not leak", b"event: x\n\ndata: 1\n\n", [("message", "1", "", None)]),
    ("crlf", b"event: x\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n",
     [("x", "1", "", None), ("message", "2", "", None)]),
    ("cr", b"event: x\rdata: 1\r\rdata: 2\r\r", [("x", "1", "", None), ("message", "2", "", None)]),
    ("mixed line ends", b"data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n",
     [("message", n, "", None) for n in "123"]),
    ("comments", b": hello\n\ndata: 1\n: ping\ndata: 2\n\n:\n\n", [("message", "1\n2", "", None)]),
    ("mark at the start", b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n", [("message", "1", "", None)]),
    ("ids", b"id: 7\ndata: 1\n\ndata: 2\n\nid\n\ndata: 3\n\n",
     [("message", "1", "7", None), ("message", "2", "7", None), ("message", "3", "", None)]),
    ("id with nul", b"id: 7\nid: 8\0\ndata: 1\n\n", [("message", "1", "7", None)]),
    ("retry", b"retry: 050\ndata: 1\n\nretry: +5\ndata: 2\n\n",
     [("message", "1", "", 50), ("message", "2", "", None)]),
    ("retry of absurd length", b"retry: " + b"9" * 5000 + b"\ndata: 1\n\n", [("message", "1", "", None)]),
    ("separators of Unicode are text", "data: a\u2028b\x0b\x0c\x1c\x85c\n\n".encode(),
     [("message", "a\u2028b\x0b\x0c\x1c\x85c", "", None)]),
    ("bad utf-8", b"data: a\xffb\xe2\x82\n\n", [("message", "a\ufffdb\ufffd", "", None)]),
    ("unfinished block", b"data: 1\n\nid: 9\ndata: 2\n", [("message", "1", "", None)]),
    ("surplus blank lines", b"\n\ndata: 1\n\n\n\nevent: e\ndata: 2\n\n\n",
     [("message", "1", "", None), ("e", "2", "", None)]),
    ("shapes in turn", b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\ndata: 3\ndata: 4\n\nid: 1\ndata: 5\n\n",
     [("a", "1", "", None), ("message", "2", "", None), ("b", "3\n4", "", None),
      ("message", "5", "1", None)]),
]  # fmt: skip

# Bodies that look like a run of one shape but are not; the fast path must notice.
NEAR_RUNS = [
    b"data: 1\n\ndata: 2\ndata: 3\n\ndata: 4\n\n",
    b"data: 1\n\ndata:2\n\ndata: 3\n\n",
    b"data:1\n\ndata: 2\n\ndata:3\n\n",
    b"data: 1\n\nid: 5\n\ndata: 3\n\n",
    b"data: 1\n\n\ndata: 2\n\n",
    b"data: 1\r\n\r\ndata: 2\n\ndata: 3\r\n\r\n",
    b"data: 1\rdata: 2\r\n\r\ndata: 3\r\n\r\n",
    b"data: 1\ndata: x\r\n\r\ndata: 3\r\n\r\n",
    b"event: a\ndata: 1\n\nevent: b\nid: 2\n\nevent: a\ndata: 3\n\n",
    b"event: a\ndata: 1\n\ndata: b\ndata: 2\n\nevent: a\ndata: 3\n\n",
    b"event: a\ndata: 1\n\nevent: a\ndata:2\n\nevent: c\ndata: 3\n\n",
    b"event: a\ndata: 1\n\nretry: 1\ndata: 2\n\nevent: c\ndata: 3\n\n",
    b"event: a\ndata: 1\n\nevent: b\nevent: c\n\nevent: c\ndata: 3\n\n",
    b"event: a\ndata: 1\n\n\ndata: 2\nevent: c\n\nevent: c\ndata: 3\n\n",
    b"event: a\nevent: b\n\nevent: c\ndata: 3\n\n",
    b"event: a\ndata: 1\n\ndata: 2\n\nevent: a\ndata: 3\n\n",
    b"event: a\ndata: 1\n\nevent: b\ndata:  2\n\nevent: a\ndata: 3\n\n",
    b"event: a\r\ndata: 1\r\n\r\nevent: b\ndata: 2\r\n\r\nevent: a\r\ndata: 3\r\n\r\n",
    b"data: 1\n\n: wait\n\ndata: 2\n\n: wait\n: more\n\ndata: 3\n\n",
    b"data: 1\n\n: data: 2\n\n\ndata: 3\n\ndata: 4\n\n",
    b"data:1\n\ndata: 2\n\ndata:3\n\n",
    b"event: a\ndata:1\n\nevent: a\ndata: 2\n\n",
    b"event: a\rdata: 1\r\n\r\nevent: a\r\ndata: 2\r\n\r\n",
    b"event: a\ndata: 1\r\ndata: 2\r\n\r\n",
    b"event: a\rdata: 1\r\ndata: 2\r\n\r\n",
    b"data:\n\ndata:\n\n",
    b"event:\n\ndata: 1\n\n",
    b"events: a\ndata: 1\n\n",
    b"eventdata: a\n\n",
]


def frames_of(chunks: Iterable[bytes]) -> tuple[list[Frame], SSEDecoder]:
    decoder = SSEDecoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)], decoder


def payloads_of(chunks: Iterable[bytes]) -> tuple[list[bytes], SSEDecoder]:
    decoder = SSEDecoder()
    return [data for chunk in chunks for data in decoder.feed_data(chunk)], decoder


def cuts_of(body: bytes) -> Iterator[list[bytes]]:
    """The body whole, byte by byte and at every two-way cut (of a large body, at a sample of them)."""
    yield [body]
    yield [body[i : i + 1] for i in range(len(body))]
    for at in range(1, len(body), 1 + len(body) // 600):
        yield [body[:at], body[at:]]


def check_at_every_cut(body: bytes, expected: list[tuple[str, str, str, int | None]]) -> None:
    for chunks in cuts_of(body):
        frames, decoder = frames_of(chunks)
        assert [(f.event, f.data, f.id, f.retry) for f in frames] == expected, chunks
        payloads, twin = payloads_of(chunks)
        assert [p.decode("utf-8", "replace") for p in payloads] == [case[1] for case in expected], chunks
        assert (twin.last_event_id, twin.retry, twin.pending) == (
            decoder.last_event_id,
            decoder.retry,
            decoder.pending,
        )


@pytest.mark.parametrize(("body", "expected"), [c[1:] for c in OWN_CASES], ids=[c[0] for c in OWN_CASES])
def test_own_cases_hold_at_every_cut(body: bytes, expected: list[tuple[str, str, str, int | None]]) -> None:
    check_at_every_cut(body, expected)


@pytest.fixture(scope="session")
def shared_sse_cases(shared_dir: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((shared_dir / "sse_cases.json").read_text())
    return cases


@pytest.mark.slow
def test_shared_cases_hold_at_every_cut(shared_sse_cases: list[dict[str, Any]]) -> None:
    for case in shared_sse_cases:
        body = b"".join(base64.b64decode(chunk) for chunk in case["chunks"])
        check_at_every_cut(body, [(e["event"], e["data"], e["id"], e["retry"]) for e in case["events"]])


def test_shared_cases_dispatch_earliest(shared_sse_cases: list[dict[str, Any]]) -> None:
    for case in shared_sse_cases:
        chunks = [base64.b64decode(chunk) for chunk in case["chunks"]]
        expected = [event["after_chunk"] for event in case["events"]]
        decoder, twin = SSEDecoder(), SSEDecoder()
        assert [i for i, chunk in enumerate(chunks) for _ in decoder.feed(chunk)] == expected, case["name"]
        assert [i for i, chunk in enumerate(chunks) for _ in twin.feed_data(chunk)] == expected, case["name"]
        assert {"last_event_id": decoder.last_event_id, "retry": decoder.retry} == case["final"]


@pytest.mark.parametrize("body", NEAR_RUNS)
def test_lookalike_run_is_read_by_lines(body: bytes) -> None:
    expected = [(f.event, f.data, f.id, f.retry) for f in frames_of([body])[0]]
    check_at_every_cut(body, expected)
    first = b"data: 0\n\n"  # after it the decoder is past the body's start
    texts = [frame.data.encode() for frame in frames_of([first, body])[0]]
    assert texts == payloads_of([first, body])[0] == payloads_of([first + body])[0]


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("names", [[], [b"a"], [b"a", b"b", b"a", b"c"]], ids=["data", "one name", "names"])
def test_long_runs_cut_into_blocks_of_bytes(names: list[bytes], eol: bytes) -> None:
    texts = [b'{"n":%d,"text":"data: x"}' % n for n in range(200)]
    body = b"".join(
        (b"event: " + names[n % len(names)] + eol if names else b"") + b"data: " + text + eol + eol
        for n, text in enumerate(texts)
    )
    for size in (1, 7, 64, 1000, 4096, len(body)):
        assert payloads_of(body[i : i + size] for i in range(0, len(body), size))[0] == texts


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([b"data: a", b"data: b"], [b"a", b"b"]),
        ([b"event: x\ndata: a", b"event: y\ndata: b"], [b"a", b"b"]),
        ([b"data: a", b"event: x\ndata: b"], [b"a", b"b"]),
        ([b"event: x\ndata: a", b"id: 1\ndata: b"], [b"a", b"b"]),
        ([b"data: a", b": comment"], [b"a"]),
        ([b"event: x\ndata: a", b"event: y\nretry: 1"], [b"a"]),
        ([b"data: a\ndata: b", b"data: c\ndata: d"], [b"a\nb", b"c\nd"]),
        ([b"data: a", b"", b"data: b"], [b"a", b"b"]),
        ([b"event: x", b"data: a"], [b"a"]),
        ([b"data: a", b"data:b"], [b"a", b"b"]),
        ([b"event: x\ndata:a", b"event: y\ndata: b"], [b"a", b"b"]),
        ([b"event: x\ndata: a\nid: 1\nevent: y\ndata: b"], [b"a\nb"]),
        ([b"event: x\ndata: a", b"data: b\ndata: c"], [b"a", b"b\nc"]),
    ],
)
@pytest.mark.parametrize("eol", [b"\n", b"\r\n"])
def test_a_few_blocks_in_one_chunk(blocks: list[bytes], expected: list[bytes], eol: bytes) -> None:
    """As the last events of a response arrive; what has another shape is read by lines."""
    chunk = b"".join(block.replace(b"\n", eol) + 2 * eol for block in blocks)
    found, decoder = payloads_of([b"data: 0\n\n", chunk])
    assert found == [b"0", *expected]
    assert decoder.last_event_id == ("1" if b"id: 1" in chunk else "")


def test_feed_and_feed_data_may_be_mixed() -> None:
    decoder = SSEDecoder()
    assert decoder.feed_data(b"event: a\ndata: 1\n\nevent: b\ndata: ") == [b"1"]
    assert decoder.feed(b"2\n\ndata: 3") == [Frame("b", "2", "", None)]
    assert decoder.feed_data(b"\n\n") == [b"3"]


@pytest.mark.parametrize(
    ("body", "pending"),
    [
        (b"", False),
        (b"data: 1\n\n", False),
        (b"data: 1\n", True),
        (b"data: 1\r\n\r", False),
        (b"da", True),
        (b"event: x\n", True),
        (b"id: 1\n", True),
        (b": ping\n", False),
        (b": pi", True),
        (b"\xef\xbb", True),
        (b"\xef\xbb\xbf", False),
    ],
)
def test_pending_tells_an_unfinished_block(body: bytes, pending: bool) -> None:
    for chunks in ([body], [body[i : i + 1] for i in range(len(body))]):
        decoder = frames_of(chunks)[1]
        assert decoder.pending is payloads_of(chunks)[1].pending is pending
        decoder.close()
        assert not decoder.pending


@pytest.mark.parametrize("method", ["feed", "feed_data"])
def test_first_line_past_cap_raises_at_once(method: str) -> None:
    for body in (b"data: 123456789", b"data: 123456789\n\n", b": 123456789 123\n"):
        decoder = SSEDecoder(max_bytes=14)
        with pytest.raises(LimitExceeded, match="max_bytes") as raised:
            getattr(decoder, method)(body)
        assert raised.value.reason == "limit"
        assert raised.value is decoder.error
        assert not decoder.pending


@pytest.mark.parametrize("method", ["feed", "feed_data"])
@pytest.mark.parametrize(
    "late", [b"data: 123456789", b"data: 123456789\n\n", b"data: 1234567\ndata: 12345678\n\ndata: 2\n\n"]
)
def test_complete_frames_before_cap_survive(method: str, late: bytes) -> None:
    decoder = SSEDecoder(max_bytes=14)
    assert len(getattr(decoder, method)(b"data: 1\n\n" + late)) == 1
    assert isinstance(decoder.error, LimitExceeded)
    for call in (lambda: getattr(decoder, method)(b"data: 2\n\n"), decoder.close):
        with pytest.raises(LimitExceeded):
            call()


def test_cap_ends_block_opened_before_chunk() -> None:
    decoder = SSEDecoder(max_bytes=8)
    assert decoder.feed_data(b"data: 1\n\ndata: 1\n") == [b"1"]
    with pytest.raises(LimitExceeded):
        decoder.feed_data(b"data: 123\n\ndata: 2\n\n")


def test_line_at_cap_passes_one_more_fails() -> None:
    body = b"data: 12345678\n\n"
    for chunks in cuts_of(body):
        for method in ("feed", "feed_data"):
            exact, short = SSEDecoder(max_bytes=14), SSEDecoder(max_bytes=13)
            assert sum(len(getattr(exact, method)(chunk)) for chunk in chunks) == 1
            with pytest.raises(LimitExceeded):
                deque(map(getattr(short, method), chunks))


def test_joined_data_capped_without_growth() -> None:
    decoder = SSEDecoder(max_bytes=1000)
    with pytest.raises(LimitExceeded, match="an event"):
        deque(map(decoder.feed_data, [b"data: x\n"] * 2000))
    assert not decoder.pending


wire_bytes = st.lists(
    st.sampled_from(
        b"data|data: |event: |id: |retry: 1|:| |x|\n|\r|\r\n|\n\n|\0|\xef\xbb\xbf|\xff|\xe2\x82|data: {}\n\n"
        b"|event: e\ndata: {}\n\n|event: f\ndata: {}\n\n|data: {}\r\n\r\n".split(b"|")
    ),
    max_size=30,
).map(b"".join)


@settings(deadline=None)
@given(
    body=wire_bytes | st.binary(max_size=60), data=st.data(), max_bytes=st.sampled_from([5, 9, 12, 1 << 24])
)
@example(body=b"data: 1\n\ndata: 22222222\n\n", data=None, max_bytes=9)
def test_any_cut_gives_the_same_frames(body: bytes, data: Any, max_bytes: int) -> None:
    def run(chunks: list[bytes], method: str) -> tuple[list[Any], bool, str, int | None]:
        decoder = SSEDecoder(max_bytes=max_bytes)
        got: list[Any] = []
        try:
            for chunk in chunks:
                got += getattr(decoder, method)(chunk)
            decoder.close()
        except LimitExceeded:
            pass
        return got, decoder.error is not None, decoder.last_event_id, decoder.retry

    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6))) if data else [9]
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    whole = run([body], "feed")
    assert run(chunks, "feed") == whole
    payloads = ([f.data for f in whole[0]], *whole[1:])
    for way in ([body], chunks):
        got = run(way, "feed_data")
        assert ([p.decode("utf-8", "replace") for p in got[0]], *got[1:]) == payloads


def test_late_line_end_copies_little() -> None:
    """The line end and the blank line after it are in two chunks."""
    size = 4 * 1024 * 1024
    body = b"data: " + b"x" * size + b"\n\n"
    decoder = SSEDecoder()
    tracemalloc.start()
    try:
        for at in range(0, len(body) - 1, 65536):
            decoder.feed_data(body[at : min(at + 65536, len(body) - 1)])
        found = decoder.feed_data(body[-1:])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [len(payload) for payload in found] == [size]
    assert peak < 3.3 * size
