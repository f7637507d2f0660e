"""Monitors a response that is passed through: its usage, its first content, whether it is complete."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Decoder
from llmstream.errors import IncompleteStream, LimitExceeded, LLMStreamError
from llmstream.events import NO_CONTENT, ReasoningDelta, TextDelta, ToolInputDelta
from llmstream.gateway.accounts import Account
from llmstream.transport.deadlines import Watchdog
from llmstream.usage import Usage

__all__ = ["ResponseMonitor", "StreamMonitor", "usage_in"]

# A decoder reads 4 KiB, some 30 events, for 0.6 us an event; each event by itself costs it 1.3 us.
_AT_ONCE_BYTES: Final = 4096
# Limit for a response in one piece, decoded for its usage; a larger one is passed on and estimated.
_MAX_READ_BYTES: Final = 32 * 1024 * 1024


class StreamMonitor:
    """Monitors a stream.

    failure:   an error of the vendor inside the stream, or what is missing at its end
    truncated: whether the stream ended before it was complete, without an error of the vendor
    """

    def __init__(self, decoder: Decoder, account: Account, watchdog: Watchdog) -> None:
        self.failure: LLMStreamError | None = None
        self.truncated = False
        self._decoder: Decoder | None = decoder
        self._account = account
        self._watchdog = watchdog
        self._behind: list[bytes] = []  # passed on, and not yet decoded
        self._behind_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Adds a piece; from the first content on, several are decoded together.

        A decoder that fails stops decoding: it must not disturb the bytes.
        """
        if not self._account.began:
            self._decode(piece)
            return
        self._behind.append(piece)
        self._behind_bytes += len(piece)
        if self._behind_bytes >= _AT_ONCE_BYTES:
            self._catch_up()

    @property
    def over(self) -> bool:
        """Whether the response is complete, or this cannot be determined."""
        self._catch_up()
        return self._decoder is None or self._decoder.done or self.failure is not None

    def _catch_up(self) -> None:
        if self._behind:
            pieces = b"".join(self._behind)
            self._behind.clear()
            self._behind_bytes = 0
            self._decode(pieces)

    def _decode(self, piece: bytes) -> None:
        decoder = self._decoder
        if decoder is None or decoder.done:
            return
        try:
            events = decoder.feed(piece)
            failure = decoder.failure
        except Exception:
            self._decoder = None
            return
        account, chars = self._account, 0
        for event in events:
            kind = type(event)
            if kind is TextDelta or kind is ReasoningDelta or kind is ToolInputDelta:
                chars += len(event.delta)  # type: ignore[union-attr]  # the three above
            if not account.began and kind not in NO_CONTENT:
                account.begin()
                self._watchdog.content_arrived()
        account.chars += chars
        if failure is not None:
            self._failed(failure)

    def _failed(self, failure: LLMStreamError) -> None:
        # A stream beyond our own limits may still be valid.
        if isinstance(failure, LimitExceeded):
            self._decoder = None
        else:
            self.failure = failure

    def leave(self) -> None:
        """Reads the usage so far, of a body that was not read to its end."""
        self._catch_up()
        if self._decoder is not None and not self._account.complete:
            with suppress(Exception):
                self._account.usage = self._decoder.usage

    def end(self) -> None:
        """Ends the body."""
        self._catch_up()
        decoder = self._decoder
        if decoder is None:
            self._account.complete = True  # as far as can be determined
            return
        try:
            decoder.close()
            self._account.usage = decoder.usage
        except Exception:
            self._account.complete = True
            return
        if decoder.failure is not None and self.failure is None:
            self._failed(decoder.failure)
        if self.failure is None and not decoder.complete:
            self.truncated = True
            self.failure = IncompleteStream("the stream ended before the response was complete")
        self._account.complete = decoder.complete


class ResponseMonitor:
    """Monitors a response in one piece, as `StreamMonitor` does a stream.

    other: whether it belongs to no wire: then nothing is estimated, because its bytes are not generated text
    """

    def __init__(self, account: Account, content_type: str, *, other: bool = False) -> None:
        self.failure: LLMStreamError | None = None
        self.truncated = False
        self._account = account
        self._is_json = "json" in content_type
        self._body: bytearray | None = bytearray()
        self._other = other
        if other:
            account.usage = Usage(0, 0)

    def leave(self) -> None:
        """Does nothing: there is no usage before the end."""

    def feed(self, piece: bytes) -> None:
        """Collects a piece."""
        self._account.begin()
        if not self._other:
            self._account.chars += len(piece)
        if self._body is not None:
            self._body += piece
            if len(self._body) > _MAX_READ_BYTES:
                self._body = None

    def end(self) -> None:
        """Reads the usage of the complete body."""
        account = self._account
        account.complete = True
        if self._body is None or not self._is_json:
            return
        try:
            value = msgspec.json.decode(self._body)
        except (msgspec.MsgspecError, RecursionError):
            self.truncated, account.complete = True, False
            self.failure = IncompleteStream("the response is not complete JSON")
            return
        found = usage_in(value)
        if not self._other:
            account.usage = found
        elif found.input_tokens is not None:  # embeddings have no output
            account.usage = msgspec.structs.replace(found, output_tokens=found.output_tokens or 0)


_INPUT: Final = [
    "prompt_tokens",
    "input_tokens",
    "inputTokens",
    "promptTokenCount",
    "prompt_eval_count",
    "total_input_tokens",
]
_OUTPUT: Final = [
    "completion_tokens",
    "output_tokens",
    "outputTokens",
    "candidatesTokenCount",
    "eval_count",
    "total_output_tokens",
]
# Tokens that are counted separately from the input by Anthropic and Bedrock.
_READ_BESIDE: Final = ["cache_read_input_tokens", "cacheReadInputTokens"]
_WRITTEN_BESIDE: Final = ["cache_creation_input_tokens", "cacheWriteInputTokens"]


def usage_in(value: object) -> Usage:
    """Returns the tokens that a response in one piece reports, on any wire."""
    if not isinstance(value, dict):
        return Usage()
    found = value.get("usage") or value.get("usageMetadata") or value
    if isinstance(found, dict) and isinstance(found.get("tokens"), dict):
        found = found["tokens"]  # Cohere
    if not isinstance(found, dict):
        return Usage()
    asked, made = _count(found, _INPUT), _count(found, _OUTPUT)
    read, written = _count(found, _READ_BESIDE), _count(found, _WRITTEN_BESIDE)
    if asked is not None:
        asked += (read or 0) + (written or 0)
    if made is not None:
        made += _count(found, ["thoughtsTokenCount"]) or 0
    for name in ("prompt_tokens_details", "input_tokens_details"):
        if isinstance(found.get(name), dict):
            read = _count(found[name], ["cached_tokens"])
    return Usage(asked, made, cached_input_tokens=read or _count(found, ["cachedContentTokenCount"]))


def _count(found: dict[str, Any], names: list[str]) -> int | None:
    return next((found[name] for name in names if type(found.get(name)) in (int, float)), None)
