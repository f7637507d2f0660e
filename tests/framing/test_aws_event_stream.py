"""AWS event stream framing: known bytes, every cut, every flipped bit, typed errors, and the reverse."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.errors import IncompleteStream, InvalidRequest, LimitExceeded, LLMStreamError, ProtocolError
from llmstream.framing.aws_event_stream import EventStreamDecoder, HeaderValue, Message, encode_message

EMPTY = bytes.fromhex("00000010 00000000 05c248eb 7d98c8ff")  # the example of the AWS documents
EVENT = Message(
    {":message-type": "event", ":event-type": "contentBlockDelta", ":content-type": "application/json"},
    b'{"contentBlockIndex":0,"delta":{"text":"Hi"}}',
)
TYPED = Message(
    {
        "t": True,
        "f": False,
        "i": -5,
        "l": -(1 << 40),
        "y": b"\0\xff",
        "x": "h\u00e9\u2026",
        "ts": datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC),
        "id": UUID("00112233-4455-6677-8899-aabbccddeeff"),
    },
    b"p",
)


def bytes_of(message: Message) -> bytes:
    return encode_message(message.headers, message.payload)


def frame(
    header_block: bytes, payload: bytes = b"", total: int | None = None, headers: int | None = None
) -> bytes:
    """A frame with right checksums around contents that need not be right."""
    total = 16 + len(header_block) + len(payload) if total is None else total
    prelude = struct.pack(">II", total, len(header_block) if headers is None else headers)
    message = prelude + crc32(prelude).to_bytes(4, "big") + header_block + payload
    return message + crc32(message).to_bytes(4, "big")


def run(chunks: list[bytes], max_bytes: int = 1 << 24) -> tuple[list[Message], str | None]:
    """The messages, and the reason of the error if there is one."""
    decoder = EventStreamDecoder(max_bytes)
    messages: list[Message] = []
    try:
        for chunk in chunks:
            messages += decoder.feed(chunk)
        decoder.close()
    except LLMStreamError as error:
        reason = error.reason
    else:
        reason = None
    assert reason == (decoder.error.reason if decoder.error else None)
    assert not decoder.pending
    return messages, reason


def cuts_of(body: bytes) -> Iterator[list[bytes]]:
    yield [body]
    yield [body[i : i + 1] for i in range(len(body))]
    for at in range(1, len(body), 1 + len(body) // 2000):
        yield [body[:at], body[at:]]


def test_the_documented_empty_message() -> None:
    assert encode_message({}, b"") == EMPTY
    assert run([EMPTY]) == ([Message({}, b"")], None)


def test_messages_at_every_cut() -> None:
    messages = [EVENT, TYPED, Message({}, b""), EVENT]
    for chunks in cuts_of(b"".join(map(bytes_of, messages))):
        assert run(chunks) == (messages, None)


@pytest.mark.parametrize("message", [Message({}, b""), EVENT, TYPED])
def test_flipped_bit_gives_no_other_message(message: Message) -> None:
    body = bytes_of(message)
    for bit in range(8 * len(body)):
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        messages, reason = run([bytes(damaged)])
        assert messages == []
        assert reason in {"prelude_crc", "message_crc", "limit", "truncated"}


@pytest.mark.parametrize(
    ("body", "reason", "error"),
    [
        (b'{"message": "no stream"}', "prelude_crc", ProtocolError),
        (EMPTY[:-1] + b"\0", "message_crc", ProtocolError),
        (frame(b"\x01a\x0a"), "header", ProtocolError),  # no such type
        (frame(b"\x01a\x00\x01a\x00"), "header", ProtocolError),  # twice
        (frame(b"\x01a\x07\x00\x09x"), "header", ProtocolError),  # string past the block
        (frame(b"\x01a\x07\x00\x01\xff"), "header", ProtocolError),  # not UTF-8
        (frame(b"\x01\xff\x00"), "header", ProtocolError),
        (frame(b"\x09a"), "header", ProtocolError),  # name past the block
        (frame(b"\x01a"), "header", ProtocolError),  # no type
        (frame(b"\x01a\x04\x00\x00"), "header", ProtocolError),  # integer cut
        (frame(b"\x01a\x06\x00"), "header", ProtocolError),  # length cut
        (frame(b"\x01a\x08" + b"\x7f" * 8), "header", ProtocolError),  # a time beyond the calendar
        (frame(b"\x01a\x09" + b"\0" * 15), "header", ProtocolError),
        (frame(b"", total=15), "limit", LimitExceeded),
        (frame(b"", headers=1), "limit", LimitExceeded),
        (frame(b"", total=16 + 131073, headers=131073)[:12], "limit", LimitExceeded),
        (frame(b"", total=0x7FFFFFFF)[:12], "limit", LimitExceeded),
        (EMPTY[:1], "truncated", IncompleteStream),
        (EMPTY[:-1], "truncated", IncompleteStream),
    ],
)
def test_faults_typed_at_each_cut_no_loss(body: bytes, reason: str, error: type[LLMStreamError]) -> None:
    for chunks in cuts_of(body):
        assert run(chunks) == ([], reason)
    for chunks in cuts_of(EMPTY + body):
        assert run(chunks) == ([Message({}, b"")], reason)
    decoder = EventStreamDecoder()
    assert len(decoder.feed(EMPTY + body)) == 1
    with pytest.raises(error):
        decoder.close()
    with pytest.raises(error):
        decoder.feed(EMPTY)


def test_payload_cap_holds_from_the_prelude() -> None:
    assert run([encode_message({"a": "b"}, b"12345678")], max_bytes=8)[1] is None
    assert run([encode_message({"a": "b"}, b"123456789")[:12]], max_bytes=8)[1] == "limit"


def test_pending_tells_an_unfinished_message() -> None:
    decoder = EventStreamDecoder()
    decoder.feed(EMPTY[:5])
    assert decoder.pending
    decoder.feed(EMPTY[5:])
    assert not decoder.pending
    decoder.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"": "x"},
        {"n" * 256: "x"},
        {"a": "x" * 65536},
        {"a": 1 << 63},
        {"a": datetime(2026, 1, 1)},
        {f"{n}": "x" * 65000 for n in range(3)},
    ],
    ids=["no name", "long name", "long value", "large integer", "naive time", "many"],
)
def test_values_beyond_format_are_refused(headers: dict[str, HeaderValue]) -> None:
    with pytest.raises(InvalidRequest):
        encode_message(headers, b"")


values = (
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.binary(max_size=20)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.uuids()
    | st.integers(-(10**13), 10**13).map(
        lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    )
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(
    headers=st.dictionaries(names, values, max_size=4), payload=st.binary(max_size=50), at=st.integers(0, 100)
)
def test_encode_and_decode_are_inverse(headers: dict[str, HeaderValue], payload: bytes, at: int) -> None:
    body = encode_message(headers, payload)
    assert run([body[:at], body[at:]]) == ([Message(headers, payload)], None)


@given(body=st.binary(max_size=40), at=st.integers(0, 40), sound=st.booleans())
def test_any_bytes_at_any_cut_give_the_same(body: bytes, at: int, sound: bool) -> None:
    body = frame(body) if sound else body
    assert run([body[:at], body[at:]]) == run([body])


def plain(value: HeaderValue) -> Any:
    """A header value as the shared cases write it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        case UUID():
            return str(value)
    return value


@pytest.mark.slow
def test_shared_cases_hold_at_every_cut(shared_dir: Path) -> None:
    for case in json.loads((shared_dir / "aws_eventstream_cases.json").read_text())["cases"]:
        body = b"".join(base64.b64decode(chunk) for chunk in case["chunks"])
        expected = [
            ({name: value for name, _, value in message["headers"]}, base64.b64decode(message["payload"]))
            for message in case["messages"]
        ]
        for chunks in cuts_of(body):
            messages, reason = run(chunks)
            got = [({name: plain(value) for name, value in m.headers.items()}, m.payload) for m in messages]
            assert (got, reason) == (expected, case["error"]), case["name"]
        whole = run([body])[0]
        if case["error"] is None and not any(isinstance(v, int) for m in whole for v in m.headers.values()):
            assert b"".join(map(bytes_of, whole)) == body, case["name"]


def test_equal_header_blocks_share_nothing() -> None:
    first, second = EventStreamDecoder().feed(bytes_of(TYPED) * 2)
    first.headers.clear()
    assert second == TYPED


def test_header_blocks_beyond_cache_are_read() -> None:
    messages = [Message({"number": number}, b"p") for number in range(100)] * 2
    assert EventStreamDecoder().feed(b"".join(map(bytes_of, messages))) == messages
