"""Objects of a JSON array, cut anywhere."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream.dialects.gemini.wire import ArrayElements, GeminiFraming
from llmstream.errors import LimitExceeded

TRICKY = [{"a": '}]"\\'}, {"b": [{"c": "{"}, []], "d": "\\\\"}, {}]


def cut(framing, body, size):
    return [out for at in range(0, len(body), size) for out in framing.feed_data(body[at : at + size])]


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 80), st.sampled_from([None, 2]))
def test_objects_come_whole_at_any_cut(size, indent):
    body = json.dumps(TRICKY, indent=indent).encode()
    assert [json.loads(one) for one in cut(ArrayElements(max_bytes=1000), body, size)] == TRICKY


def test_an_object_alone_is_one():
    assert cut(GeminiFraming(max_bytes=100), b' \n{"a": 1}\n', 3) == [b'{"a": 1}']


def test_what_begins_otherwise_is_sse():
    assert cut(GeminiFraming(max_bytes=100), b'\ndata: [1]\n\n: x\n\ndata: {"a": 1}\n\n', 4) == [
        b"[1]",
        b'{"a": 1}',
    ]


def test_a_byte_order_mark_before_an_array():
    assert GeminiFraming(max_bytes=100).feed_data(b'\xef\xbb\xbf[{"a": 1}]') == [b'{"a": 1}']


def test_an_object_past_the_cap_is_an_error():
    framing = GeminiFraming(max_bytes=20)
    assert cut(framing, b'[{"a": 1}, {"b": "' + b"x" * 50, 7) == [b'{"a": 1}']
    assert isinstance(framing.error, LimitExceeded)
    assert framing.feed_data(b'"}') == []


def test_space_between_objects_is_not_kept():
    framing = ArrayElements(max_bytes=20)
    assert cut(framing, b"[" + b" " * 1000 + b'{"a": 1}' + b"\n" * 1000 + b"]", 10) == [b'{"a": 1}']
    assert framing.error is None


def test_cut_escape_in_a_string_still_holds() -> None:
    body = b'["a\\" {}", {"text": 1}]'
    for at in range(len(body)):
        elements = ArrayElements(max_bytes=100)
        assert elements.feed_data(body[:at]) + elements.feed_data(body[at:]) == [b'{"text": 1}'], at
