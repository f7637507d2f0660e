"""AWS event streams as framing, and AWS errors: exception messages inside a stream, and error responses.

AWS names an error by its exception, in `:exception-type` or `:error-code` of a message, or in the
header `x-amzn-errortype` of a response, where a colon and a URL may follow the name.
source: Amazon Bedrock API reference, ConverseStream and InvokeModelWithResponseStream, Errors
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.dialects.errors import error_from_value, vendor_error
from llmstream.errors import AuthenticationError, LLMStreamError, ProtocolError, ProviderError, ServerError
from llmstream.framing.aws_event_stream import EventStreamDecoder, HeaderValue, Message, read_headers

__all__ = [
    "AWSFrames",
    "answer_error",
    "exception_of",
    "is_exception_type",
    "status_of",
]


# Longest exception message that an error holds; a frame may have megabytes of it.
_MESSAGE_CHARS: Final = 4096

# AWS has no longer names; a name goes into messages and log lines.
_NAME_CHARS: Final = 128

# Bedrock has six types of events, each with one block of headers of some 90 bytes; a hostile server may
# repeat none.
_BLOCKS: Final = 16
_BLOCK_BYTES: Final = 512

# Of all responses of a process, on both of Bedrock's wires.
_SHARED_BLOCKS: Final = 64

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

# HTTP status by the exception's name in lower case, without "exception".
_STATUS: Final = {
    "accessdenied": 403,
    "conflict": 400,
    "expiredtoken": 403,
    "internalfailure": 500,
    "internalserver": 500,
    "internalservererror": 500,
    "modelerror": 424,
    "modelnotready": 429,
    "modelstreamerror": 424,
    "modeltimeout": 408,
    "resourcenotfound": 404,
    "servicequotaexceeded": 400,
    "serviceunavailable": 503,
    "throttling": 429,
    "toomanyrequests": 429,
    "unknownoperation": 404,
    "unrecognizedclient": 403,
    "validation": 400,
}


# Sent with status 403, although the cause is a wrong key.
_CREDENTIALS: Final = frozenset(
    {
        "expiredtoken",
        "incompletesignature",
        "invalidclienttokenid",
        "invalidsignature",
        "missingauthenticationtoken",
        "signaturedoesnotmatch",
        "unrecognizedclient",
    }
)

_RETRYABLE_ORIGINALS: Final = frozenset({408, 409, 424, 425, 429})


Reading: TypeAlias = Callable[[Mapping[str, HeaderValue]], Callable[[bytes], bytes]]


class AWSFrames:
    """Framing for `PayloadDecoder`: one payload for each message of an AWS event stream.

    reading: returns, for the headers of a message, what turns its bytes into the payload; a function of a
             module, because its results are shared by all responses
    error:   set by an exception message, or by bytes that cannot be decoded
    """

    def __init__(
        self,
        reading: Reading,
        *,
        provider: str,
        max_bytes: int,
    ) -> None:
        self.error: LLMStreamError | None = None
        self._reading = reading
        self._provider = provider
        self._messages = EventStreamDecoder(max_bytes=max_bytes)
        # What reads the payloads of events that are no exceptions, by the block of their headers: streams
        # repeat a few blocks.
        self._readers: dict[bytes, Callable[[bytes], bytes]] = {}

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """Decodes a slice; returns the payloads that it completes, none after an exception.

        raises: ProtocolError, LimitExceeded for bytes that are not an event stream
        """
        payloads: list[bytes] = []
        readers = self._readers
        for block, payload in self._messages.split(chunk):
            # A measured hot loop: to read headers, and to look for an exception, takes as long as all else.
            if (read := readers.get(block)) is None:
                small = len(block) <= _BLOCK_BYTES
                try:
                    found = (_known_reader if small else _reader)(self._reading, block)
                except ProtocolError as damage:
                    self._messages.fail(damage)
                    self.error = damage
                    return payloads
                if found is None:
                    message = Message(dict(read_headers(block)), payload)
                    self.error = exception_of(message, provider=self._provider)
                    return payloads
                read = found
                if small and len(readers) < _BLOCKS:
                    readers[block] = read
            payloads.append(read(payload))
        self.error = self._messages.error
        return payloads


def _reader(reading: Reading, block: bytes) -> Callable[[bytes], bytes] | None:
    """What reads the payloads of messages with these headers; None if they report an exception.

    raises: ProtocolError for headers that cannot be decoded
    """
    headers = read_headers(block)
    return None if _exception_name(headers) is not None else reading(headers)


# Each response has the same five or six blocks, and to read one takes as long as five events of text.
_known_reader: Final = lru_cache(_SHARED_BLOCKS)(_reader)


def _exception_name(headers: Mapping[str, HeaderValue]) -> str | None:
    """Name of the exception that a message reports; None for events.

    Older senders name an exception in `:event-type` alone.
    """
    kind = headers.get(":exception-type") or headers.get(":error-code")
    if headers.get(":message-type") not in ("exception", "error"):
        kind = headers.get(":event-type")
        if not isinstance(kind, str) or not kind.endswith("Exception"):
            return None
    return str(kind or "exception")[:_NAME_CHARS]


def exception_of(message: Message, *, provider: str) -> LLMStreamError | None:
    """Returns the error that a message of the stream reports; None for events."""
    headers, name = message.headers, _exception_name(message.headers)
    if name is None:
        return None
    error_body = _error_body(message.payload) or {"message": str(headers.get(":error-message", ""))}
    return _typed(name, error_body, status=status_of(name), headers={}, provider=provider)


def answer_error(status: int, headers: Mapping[str, str], body: bytes, *, provider: str) -> LLMStreamError:
    """Returns the error of a complete response; header names are lower case."""
    error_body = _error_body(body)
    name = _plain_name(headers.get("x-amzn-errortype") or str((error_body or {}).get("__type", "")))
    if status < 400 or error_body is None or not name:
        return vendor_error(status, headers, body, provider=provider)
    return _typed(name, error_body, status=status, headers=headers, provider=provider)


def _typed(
    name: str, error_body: dict[str, Any], *, status: int | None, headers: Mapping[str, str], provider: str
) -> ProviderError:
    message = str(error_body.get("message") or error_body.get("Message") or "")[:_MESSAGE_CHARS]
    original = error_body.get("originalMessage")
    if isinstance(original, str):
        original = original[:_MESSAGE_CHARS]
    if isinstance(original, str) and original not in message:
        message = f"{message} ({original})" if message else original
    value = {"message": message, "type": name} if message else {**error_body, "type": name}
    error = error_from_value(value, provider=provider, status=status, headers=headers)
    error.reason = name
    key = _key(name)
    if key in _CREDENTIALS:
        return _as(AuthenticationError, error, retryable=False)
    if key == "modelstreamerror":
        cause = error_body.get("originalStatusCode")
        if isinstance(cause, int):
            error.details = {**(error.details or {}), "originalStatusCode": cause}
        final = isinstance(cause, int) and 400 <= cause < 500 and cause not in _RETRYABLE_ORIGINALS
        return _as(ServerError, error, retryable=not final)
    return _as(ServerError, error, retryable=False) if key == "modelerror" else error


def _as(kind: type[ProviderError], error: ProviderError, *, retryable: bool) -> ProviderError:
    return kind(
        error.message,
        provider=error.provider,
        status=error.status,
        retryable=retryable,
        retry_after_s=error.retry_after_s,
        request_id=error.request_id,
        reason=error.reason,
        param=error.param,
        details=error.details,
    )


def _error_body(body: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(body)
    except _UNREADABLE:
        text = body.decode("utf-8", "replace").strip()
        return {"message": text} if text else None
    return value if isinstance(value, dict) else {"message": body.decode("utf-8", "replace")}


def _plain_name(name: str) -> str:
    """Removes the namespace before `#` and the URL after `:`."""
    return name.partition(":")[0].rpartition("#")[2].strip()


def is_exception_type(name: str) -> bool:
    """Whether AWS has an exception of this name."""
    return _key(name) in _STATUS or _key(name) in _CREDENTIALS


def _key(name: str) -> str:
    return name.lower().removesuffix("exception")


def status_of(name: str) -> int | None:
    """HTTP status of an exception's name, or of a decimal number; None for any other name."""
    if name.isdecimal():
        return int(name) if 400 <= int(name) < 600 else None
    return _STATUS.get(_key(name))
