"""Framings: the same whole and in pieces, and as a plain reading of the standard has it."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from zlib import crc32

from fuzz.inputs import read
from llmstream.errors import LLMStreamError
from llmstream.framing.aws_event_stream import EventStreamDecoder, encode_message
from llmstream.framing.ndjson import NDJSONDecoder
from llmstream.framing.sse import SSEDecoder

TIGHT = 1  # mode: a small cap on lines and events
MENDED = 2  # mode of the AWS event stream: checksums are made right first

_TIGHT_BYTES = 24
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


def sse(data: bytes) -> None:
    """`feed` and `feed_data` agree with each other, at any cut, and with the standard read line by line."""
    given = read(data)
    make = _capped(SSEDecoder, given.mode)
    pieces = given.pieces(given.body)
    whole, cut, bare = make(), make(), make()
    frames, error = _fed(whole.feed, (given.body,))
    assert (frames, error) == _fed(cut.feed, pieces)
    payloads, bare_error = _fed(bare.feed_data, pieces)
    assert [frame.data for frame in frames] == [payload.decode("utf-8", "replace") for payload in payloads]
    assert error == bare_error
    state = (whole.last_event_id, whole.retry, whole.pending)
    assert state == (cut.last_event_id, cut.retry, cut.pending)
    assert state == (bare.last_event_id, bare.retry, bare.pending)
    if error is None:
        assert [(f.event, f.data, f.id) for f in frames] == list(_sse_by_the_standard(given.body))


def _sse_by_the_standard(body: bytes) -> Iterable[tuple[str, str, str]]:
    *lines, _ = _LINE_END.split(body.removeprefix(_BOM))
    data: list[bytes] = []
    event, committed, last_id = b"", "", ""
    for line in lines:
        if not line:
            committed = last_id
            if data:
                yield _text(event) or "message", _text(b"\n".join(data)), committed
            data, event = [], b""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value
        elif name == b"id" and b"\0" not in value:
            last_id = _text(value)


def ndjson(data: bytes) -> None:
    """Every non-blank line, at any cut."""
    given = read(data)
    make = _capped(NDJSONDecoder, given.mode)
    whole, cut = make(), make()
    texts = _closed(whole, *_fed(whole.feed_data, (given.body,)))
    assert texts == _closed(cut, *_fed(cut.feed_data, given.pieces(given.body)))
    lines = [line.strip(b" \t\r") for line in given.body.removeprefix(_BOM).split(b"\n")]
    assert texts[1] is not None or texts[0] == [line for line in lines if line]


def aws_event_stream(data: bytes) -> None:
    """The same messages at any cut; a message that was read can be written and read again."""
    given = read(data)
    body = mended(given.body) if given.mode & MENDED else given.body
    make = _capped(EventStreamDecoder, given.mode)
    whole, cut = make(), make()
    messages, error = _fed(whole.feed, (body,))
    assert (messages, error) == _fed(cut.feed, given.pieces(body))
    assert whole.pending == cut.pending
    for message in messages:
        if "" not in message.headers:
            assert EventStreamDecoder().feed(encode_message(message.headers, message.payload)) == [message]


def mended(body: bytes) -> bytes:
    """The body with right lengths and checksums, as far as its messages go: else nothing is ever read."""
    out = bytearray()
    while len(body) >= 16:
        total, headers = struct.unpack_from(">II", body)
        total = 16 + total % (len(body) - 15)
        headers %= total - 15
        prelude = struct.pack(">II", total, headers)
        message = prelude + struct.pack(">I", crc32(prelude)) + body[12 : total - 4]
        out += message + struct.pack(">I", crc32(message))
        body = body[total:]
    return bytes(out + body)


def _capped(kind: Callable[..., object], mode: int) -> Callable[[], object]:
    return (lambda: kind(_TIGHT_BYTES)) if mode & TIGHT else kind


def _fed(feed: Callable[[bytes], list], pieces: Iterable[bytes]) -> tuple[list, str | None]:
    """Everything that came, and the words of the error after it."""
    out: list = []
    try:
        for piece in pieces:
            out += feed(piece)
        feed(b"")  # an error that waited comes now
    except LLMStreamError as error:
        return out, str(error)
    return out, None


def _closed(decoder: NDJSONDecoder, texts: list[bytes], error: str | None) -> tuple[list[bytes], str | None]:
    return (texts, error) if error else (texts + decoder.close(), None)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
