"""NDJSON framing: every cut, blank lines, the last line, the cap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.errors import LimitExceeded
from llmstream.framing.ndjson import NDJSONDecoder

CASES: list[tuple[str, bytes, list[bytes]]] = [
    ("lines", b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
    ("crlf", b'{"a":1}\r\n{"a":2}\r\n', [b'{"a":1}', b'{"a":2}']),
    ("last line without an end", b'{"a":1}\n{"a":2}', [b'{"a":1}', b'{"a":2}']),
    ("blank lines", b"\n\r\n1\n \t\n\n2\n\n", [b"1", b"2"]),
    ("white space at the ends", b' {"a": 1} \r\n2', [b'{"a": 1}', b"2"]),
    ("mark at the start", b"\xef\xbb\xbf1\n\xef\xbb\xbf2\n", [b"1", b"\xef\xbb\xbf2"]),
    ("only a mark", b"\xef\xbb\xbf", []),
    ("a lone CR ends nothing", b"1\r2\n", [b"1\r2"]),
    ("separators of Unicode end nothing", '"a\u2028\x85\x0b"\n'.encode(), ['"a\u2028\x85\x0b"'.encode()]),
    ("nothing", b"", []),
]


def run(chunks: list[bytes], max_bytes: int = 1 << 20) -> tuple[list[bytes], bool]:
    """The texts, and whether the cap was passed."""
    decoder = NDJSONDecoder(max_bytes)
    texts: list[bytes] = []
    try:
        for chunk in chunks:
            texts += decoder.feed_data(chunk)
        texts += decoder.close()
    except LimitExceeded:
        assert decoder.error is not None
    return texts, decoder.error is not None


@pytest.mark.parametrize(("body", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_lines_at_every_cut(body: bytes, expected: list[bytes]) -> None:
    assert run([body])[0] == expected
    assert run([body[i : i + 1] for i in range(len(body))])[0] == expected
    for at in range(1, len(body)):
        assert run([body[:at], body[at:]])[0] == expected


def test_lines_come_as_soon_as_they_end() -> None:
    decoder = NDJSONDecoder()
    chunks = (b"1", b"\n2\n3", b"", b"\n")
    assert [decoder.feed_data(chunk) for chunk in chunks] == [[], [b"1", b"2"], [], [b"3"]]


def test_pending_tells_an_unfinished_line() -> None:
    decoder = NDJSONDecoder()
    seen = []
    for chunk in (b"1", b"\n", b" \r", b"2"):
        decoder.feed_data(chunk)
        seen.append(decoder.pending)
    assert seen == [True, False, False, True]
    assert decoder.close() == [b"2"]
    assert not decoder.pending
    assert decoder.close() == []


def test_first_line_past_cap_raises_at_once() -> None:
    for body in (b"12345678", b"12345678\n", b"\n12345678\n"):
        decoder = NDJSONDecoder(max_bytes=7)
        with pytest.raises(LimitExceeded, match="max_bytes") as raised:
            decoder.feed_data(body)
        assert raised.value.reason == "limit"
        assert not decoder.pending


def test_complete_lines_before_cap_survive() -> None:
    decoder = NDJSONDecoder(max_bytes=7)
    assert decoder.feed_data(b"1\n12345678\n2\n") == [b"1"]
    assert isinstance(decoder.error, LimitExceeded)
    with pytest.raises(LimitExceeded):
        decoder.feed_data(b"3\n")
    with pytest.raises(LimitExceeded):
        decoder.close()


def test_unfinished_long_line_waits_for_call() -> None:
    """After complete lines the cap error waits for the next call."""
    decoder = NDJSONDecoder(max_bytes=7)
    assert decoder.feed_data(b"1\n12345678") == [b"1"]
    with pytest.raises(LimitExceeded):
        decoder.close()


pieces = st.sampled_from([b"{}", b"1", b" ", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"\xff"])


@given(
    body=st.lists(pieces).map(b"".join) | st.binary(max_size=40),
    data=st.data(),
    max_bytes=st.sampled_from([4, 6, 1 << 20]),
)
def test_any_cut_gives_the_same_lines(body: bytes, data: Any, max_bytes: int) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert run(chunks, max_bytes) == run([body], max_bytes)
