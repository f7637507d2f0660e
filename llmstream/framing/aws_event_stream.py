"""The AWS event stream: length-prefixed binary messages guarded by two CRC-32 sums.

    total u32 | headers u32 | CRC of those 8 bytes | headers | payload | CRC of all before      (big-endian)
    header:   name length u8 | name | type u8 | value

source: "Event stream encoding" in the AWS documents, and the Smithy event stream specification
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zlib import crc32

import msgspec

from llmstream.errors import IncompleteStream, InvalidRequest, LimitExceeded, LLMStreamError, ProtocolError

__all__ = ["EventStreamDecoder", "HeaderValue", "Message", "encode_message", "read_headers"]

HeaderValue = bool | int | bytes | str | datetime | uuid.UUID

_PRELUDE = struct.Struct(">III")
_PRELUDE_BYTES = _PRELUDE.size  # the attribute is computed at each access
_U32 = struct.Struct(">I")
_U16 = struct.Struct(">H")
_INTEGERS = {2: struct.Struct(">b"), 3: struct.Struct(">h"), 4: struct.Struct(">i"), 5: struct.Struct(">q")}
_I64 = _INTEGERS[5]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

# Prelude and message CRC.
_OVERHEAD = 16

# From the AWS documents.
_MAX_HEADERS_BYTES = 128 * 1024
# Each of Bedrock's six types of events has one block of headers, of some 90 bytes, in all responses; a
# hostile server may repeat none.
_REPEATED_BLOCKS = 64
_REPEATED_BLOCK_BYTES = 512


class Message(msgspec.Struct, frozen=True):
    """One message.

    headers: by name; integers of any width are int, a timestamp is an aware datetime in UTC
    payload: the bytes between headers and checksum
    """

    headers: dict[str, HeaderValue]
    payload: bytes


class EventStreamDecoder:
    """Splits a body into messages, however its chunks are cut.

    max_bytes: cap on one payload; a header block is capped at 128 KiB
    error:     set when the body breaks a rule. Messages that were complete before it in the same chunk are
               returned first; then every further call raises it. With none before it, it is raised at once.
    """

    __slots__ = ("_held", "_needed", "error", "max_bytes")

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        self.max_bytes = max_bytes
        self.error: LLMStreamError | None = None
        self._held = bytearray()  # the unfinished message
        self._needed = _PRELUDE_BYTES  # how many bytes must be held before there is something to read

    @property
    def pending(self) -> bool:
        """Whether bytes of an unfinished message are held."""
        return bool(self._held)

    def feed(self, chunk: bytes) -> list[Message]:
        """Splits a chunk; returns the messages that it completes.

        chunk:  any slice of the body
        raises: ProtocolError with reason "prelude_crc", "message_crc" or "header";
                LimitExceeded with reason "limit" for a length that is too large or impossible
        """
        messages: list[Message] = []
        for block, payload in self.split(chunk):
            try:
                # Callers may change the headers of a message.
                messages.append(Message(dict(read_headers(block)), payload))
            except LLMStreamError as error:
                self.fail(error)
                if not messages:
                    raise
                break
        return messages

    def fail(self, error: LLMStreamError) -> None:
        """Ends the body in an error, which every further call raises."""
        self.error = error
        self._held.clear()

    def split(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Splits a chunk as `feed`; returns the headers of each message as they were sent, and its payload.

        For who reads repeated headers once, with `read_headers`.
        """
        if self.error is not None:
            raise self.error
        self._held += chunk
        if len(self._held) < self._needed:
            return []
        data = bytes(self._held)
        messages: list[tuple[bytes, bytes]] = []
        start, size = 0, len(data)
        try:
            # A measured hot loop, without a call for each part of a message (`bench_guard --instructions`).
            read_prelude, read_checksum, most = _PRELUDE.unpack_from, _U32.unpack_from, self.max_bytes
            self._needed = _PRELUDE_BYTES
            while size - start >= _PRELUDE_BYTES:
                total, headers, checksum = read_prelude(data, start)
                crc = crc32(data[start : start + 8])
                # Before anything waits for `total` bytes: a damaged length would let the decoder wait for the
                # rest of the stream, or for gigabytes.
                if crc != checksum or not (
                    headers <= _MAX_HEADERS_BYTES and 0 <= total - headers - _OVERHEAD <= most
                ):
                    raise self._bad_prelude(headers, total, damaged=crc != checksum)
                end = start + total
                if size < end:
                    self._needed = total
                    break
                # The second checksum covers the first eight bytes as well: it continues theirs.
                if crc32(data[start + 8 : end - 4], crc) != read_checksum(data, end - 4)[0]:
                    raise ProtocolError(
                        "The checksum of a message is wrong: the body was damaged in transit. "
                        "Send the request again.",
                        reason="message_crc",
                    )
                begin = start + _PRELUDE_BYTES
                body = begin + headers
                messages.append((data[begin:body], data[body : end - 4]))
                start = end
        except LLMStreamError as error:
            self.fail(error)
            if not messages:
                raise
            return messages
        del self._held[:start]
        return messages

    def close(self) -> None:
        """Ends the body.

        raises: IncompleteStream with reason "truncated" inside a message; or the deferred `error`
        """
        if self.error is None and self._held:
            self.error = IncompleteStream(
                f"The event stream ended inside a message: {len(self._held)} of "
                f"{self._needed if self._needed > _PRELUDE_BYTES else 'at least 16'} bytes came. "
                "Send the request again.",
                reason="truncated",
            )
            self._held.clear()
        if self.error is not None:
            raise self.error

    def _bad_prelude(self, headers: int, total: int, *, damaged: bool) -> LLMStreamError:
        """The error of lengths with a wrong checksum, or past the limits."""
        if damaged:
            return ProtocolError(
                "The checksum of a message's prelude is wrong: the body is damaged, or it is not an AWS "
                "event stream. Check status and content type, and send the request again.",
                reason="prelude_crc",
            )
        return LimitExceeded(
            f"A message declares {total} bytes with {headers} bytes of headers; allowed are "
            f"{_MAX_HEADERS_BYTES} bytes of headers and {self.max_bytes} bytes of payload. "
            "Pass a larger max_bytes if payloads of this size are expected.",
            reason="limit",
        )


def encode_message(headers: Mapping[str, HeaderValue], payload: bytes) -> bytes:
    """Encodes one message, which `EventStreamDecoder` reads back as an equal Message.

    headers: an int is sent as i32 if it fits, else as i64; a datetime must be aware, and loses
             fractions of a ms
    raises:  InvalidRequest for a value that the format does not have
    """
    block = b"".join(_encode_header(name, value) for name, value in headers.items())
    total = _OVERHEAD + len(block) + len(payload)
    if len(block) > _MAX_HEADERS_BYTES or total > 0xFFFFFFFF:
        raise InvalidRequest(f"A message of {total} bytes with {len(block)} bytes of headers is too large.")
    prelude = struct.pack(">II", total, len(block))
    message = b"".join((prelude, _U32.pack(crc32(prelude)), block, payload))
    return message + _U32.pack(crc32(message))


def read_headers(block: bytes) -> Mapping[str, HeaderValue]:
    """Decodes the headers of a message; the result is shared with other messages.

    raises: ProtocolError with reason "header"
    """
    return _read_repeated(block) if len(block) <= _REPEATED_BLOCK_BYTES else _read_headers(block)


def _read_headers(block: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    at = 0
    try:
        while at < len(block):
            end = at + 1 + block[at]
            name = _slice(block, at + 1, end).decode()
            if name in headers:
                raise _header_error(f"the header {name!r} appears twice")
            headers[name], at = _read_value(block, end)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as cause:
        raise _header_error(str(cause)) from cause
    return headers


# To read a block costs as much as three events of text, and a short response has five different ones.
_read_repeated = lru_cache(_REPEATED_BLOCKS)(_read_headers)


def _read_value(block: bytes, at: int) -> tuple[HeaderValue, int]:
    """Reads the value whose type byte is at `at`; returns also where the next header begins."""
    kind = block[at]
    at += 1
    match kind:
        case 0 | 1:
            return kind == 0, at
        case 2 | 3 | 4 | 5:
            (number,) = _INTEGERS[kind].unpack_from(block, at)
            return int(number), at + _INTEGERS[kind].size
        case 6 | 7:
            (length,) = _U16.unpack_from(block, at)
            end = at + 2 + length
            value = _slice(block, at + 2, end)
            return (value if kind == 6 else value.decode()), end
        case 8:
            (since_epoch_ms,) = _I64.unpack_from(block, at)
            return _EPOCH + since_epoch_ms * _MS, at + 8
        case 9:
            return uuid.UUID(bytes=_slice(block, at, at + 16)), at + 16
    raise _header_error(f"there is no header type {kind}")


def _slice(block: bytes, start: int, end: int) -> bytes:
    if end > len(block):
        raise IndexError(f"a header runs {end - len(block)} bytes past the header block")
    return block[start:end]


def _header_error(what: str) -> ProtocolError:
    return ProtocolError(
        f"A message's headers cannot be read: {what}. The sender does not follow the event stream encoding.",
        reason="header",
    )


def _encode_header(name: str, value: HeaderValue) -> bytes:
    encoded = name.encode()
    if not 0 < len(encoded) < 256:
        raise InvalidRequest(f"A header name takes 1 to 255 bytes, not {len(encoded)}.")
    return bytes((len(encoded),)) + encoded + _encode_value(value)


def _encode_value(value: HeaderValue) -> bytes:
    # Before int, which bool is a subclass of.
    if isinstance(value, bool):
        return b"\x00" if value else b"\x01"
    if isinstance(value, int):
        for kind in (4, 5):
            bits = 8 * _INTEGERS[kind].size
            if -(1 << bits - 1) <= value < 1 << bits - 1:
                return bytes((kind,)) + _INTEGERS[kind].pack(value)
        raise InvalidRequest(f"The header value {value} does not fit 64 bits.")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidRequest("A header takes an aware datetime, not a naive one. Give it a tzinfo.")
        return b"\x08" + _I64.pack((value - _EPOCH) // _MS)
    if isinstance(value, uuid.UUID):
        return b"\x09" + value.bytes
    kind, raw = (7, value.encode()) if isinstance(value, str) else (6, value)
    if len(raw) > 0xFFFF:
        raise InvalidRequest(f"A header value takes at most 65535 bytes, not {len(raw)}.")
    return bytes((kind,)) + _U16.pack(len(raw)) + raw
