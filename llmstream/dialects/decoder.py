"""Base class of decoders for JSON payloads: framing, typed decoding, caps and defects."""

from __future__ import annotations

import json
import logging
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.json_text import LONE_SURROGATE, encodable_value, without_lone_surrogates
from llmstream.dialects.payload_size import (
    MAX_DECODED_BYTES,
    SMALL_BYTES,
    GrowingInput,
    count_parts,
    decoded_size,
    held_size,
)
from llmstream.errors import DecodeError, IncompleteStream, LimitExceeded, LLMStreamError, ProtocolError
from llmstream.events import (
    ErrorEvent,
    Event,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextEnd,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    Usage,
    encode,
)
from llmstream.first_use import prepared

__all__ = ["UNREADABLE", "Framing", "PayloadDecoder", "SurrogateJoiner"]


T = TypeVar("T")
G = TypeVar("G", bound=GrowingInput)

_log: Final = logging.getLogger("llmstream")
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
# Shows which event it was; the complete one may be an image.
_EXCERPT_CHARS = 200
# An endless stream of broken events would otherwise be an endless stream of errors.
_MAX_DEFECTS = 100

# Each miss decodes an event twice. More than the events between two blocks.
_MAX_MISSES: Final = 20

# Far above real use: pings while a model thinks are some kilobytes an hour.
_SILENT_BYTES: Final = 1024 * 1024

# Payloads of calls, and the memory of their values: `held_size` of those in the recordings is 5 to 12 times
# their length; objects that hold nothing but empty objects take 37 times.
_SMALL_PAYLOAD_BYTES: Final = 512
_HELD_BYTES_PER_BYTE: Final = 12


class Framing(Protocol):
    """A framing decoder: payloads as bytes; `error` is set once the bytes are beyond repair."""

    error: LLMStreamError | None

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """Returns the payloads that a slice completes."""
        ...


class PayloadDecoder(Generic[T]):
    """Base of the decoders: a subclass maps a payload to events in `on`, and ends the response in `end`.

    Events are appended to `self.out`. A payload that is not JSON, or does not fit the wire's types,
    becomes an error event, and decoding continues. `self.payload` is the payload that `on` reads.
    """

    # Rarely changed attributes have their default on the class, here and in subclasses: from 31 attributes
    # on, CPython gives an object a separate dict, which takes 1.3 KB more for each open stream.
    reported_usage = Usage()
    _defects = 0
    _misses = 0
    _replaced = 0
    _overfull = False

    def __init__(
        self,
        framing: Framing,
        wire: msgspec.json.Decoder[T],
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
    ) -> None:
        self.complete = False
        self.done = False
        self.failure: LLMStreamError | None = None
        self.provider = provider
        self.limits = limits
        self.out: list[Event] = []
        self.payload = b""
        self._framing = framing
        self._decode = wire.decode
        self._type = wire.type
        self._include_raw = include_raw
        self.has_half_characters = False  # surrogates may arrive one by one, and JSON could not hold them
        self._joiner: SurrogateJoiner | None = None
        # Since the last event, with the bytes of an unfinished one.
        self._silent_bytes = 0
        self._held_bytes = 0

    @property
    def usage(self) -> Usage:
        """Tokens that the vendor has reported so far; computed here by decoders that merge counts."""
        return self.reported_usage

    def on(self, wire: T) -> None:
        """Maps one typed payload to events."""
        raise NotImplementedError

    def on_sentinel(self, payload: bytes) -> bool:
        """Handles `[DONE]` and heartbeats; returns False if the payload is something else."""
        text = payload.strip()
        # Only the beginning counts, as in OpenAI's own client.
        if text.startswith(b"[DONE]"):
            self.on_done()
            return True
        # Gateways keep a connection alive with it.
        return text == b"null"

    def on_done(self) -> None:
        """Ignores `[DONE]`: gateways that also serve Chat Completions end every stream with it."""

    def end(self) -> None:
        """Ends the input: emits buffered events, and finish if the response is complete."""
        if self.complete:
            self.finish()

    def finish(self) -> None:
        """Emits the finish of a complete response."""
        raise NotImplementedError

    def end_at(self, mark: str, *, has_content: bool) -> None:
        """Ends the stream at the wire's own end mark. Without content something is wrong, often the model."""
        if has_content or self.complete:
            self.finish()
            return
        self.fail(
            IncompleteStream(
                f"the stream sent {mark} before any content. "
                "Check the model's name, or send the request again.",
                provider=self.provider,
            )
        )

    def release(self) -> None:
        """Frees the decoder's parts after the last use of it.

        They refer to the decoder: without this a hundred objects of each response, its request among them,
        would stay until the garbage collector runs.
        """
        self.__dict__.clear()

    def feed(self, chunk: bytes) -> list[Event]:
        """Decodes a slice of the body; returns the events that it completes."""
        if self.done:
            return []
        try:
            payloads = self._framing.feed_data(chunk)
        except LLMStreamError as error:
            self.fail(error)
            return self._take()
        # In C, because it runs for each chunk of each stream.
        if any(map(bytes.strip, payloads)):
            if self._silent_bytes + len(chunk) > SMALL_BYTES and self._are_too_large(payloads):
                return self._take()
            self._silent_bytes = 0
        else:
            self._count_silence(len(chunk))
        # After the size of each payload was checked, because decoding one would allocate the memory.
        self._read(payloads)
        # It may be megabytes, and is not read again.
        self.payload = b""
        if self._framing.error is not None and not self.done:
            self.fail(self._framing.error)
        if self.done:
            self._log_replaced()
        return self._take()

    def close(self) -> list[Event]:
        """Ends the input; returns the last events."""
        if not self.done:
            self.end()
        self._log_replaced()
        return self._take(last=True)

    def fail(self, error: LLMStreamError) -> None:
        """Ends the stream with an error."""
        self.failure = error
        self.done = True

    def hold(self, size: int) -> None:
        """Counts memory that is held from now on, in bytes; past the cap the stream ends."""
        self._held_bytes += size
        limit = self.limits.max_held_bytes
        if self._held_bytes > limit and not self._overfull:
            # Set first, because ending a stream may emit more.
            self._overfull = True
            self.fail(
                LimitExceeded(
                    f"the response makes the decoder hold more than {limit} bytes. "
                    "Raise max_held_bytes of the limits if this is intended.",
                    provider=self.provider,
                )
            )

    def let_go(self, size: int) -> None:
        """Releases memory counted by `hold`."""
        self._held_bytes -= size

    # Inputs of calls. Fragments are as frequent as words, and to count each costs as much as to decode it. So
    # a hot loop checks once whether an input may grow by all received bytes, and counts a run of fragments of
    # one call at its end. Close to a cap they are added one by one, so that the cap is exact.

    def growing(self, given: G, before: GrowingInput | None, most: int) -> G | None:
        """Begins a run of fragments of an input, after that of another; None if a cap may be passed.

        most: what may arrive, from `most_held`
        """
        if before is not None:
            self.count(before)
        limits = self.limits
        fits = self._held_bytes + most <= limits.max_held_bytes
        return given if fits and given.size + most <= limits.max_tool_input_bytes else None

    def count(self, given: GrowingInput) -> None:
        """Counts the fragments of an input that were added since the last time."""
        self.hold(count_parts(given))

    def held_of(self, value: object) -> int:
        """Memory of a value of the current payload, in bytes; of a small payload a rough estimate."""
        size = len(self.payload)
        # To measure the few values of a small one takes 15,000 instructions, as much as all else of a call.
        return _HELD_BYTES_PER_BYTE * size if size <= _SMALL_PAYLOAD_BYTES else held_size(value)

    def _are_too_large(self, payloads: list[bytes]) -> bool:
        """Ends the stream if an event would take too much memory once it is decoded."""
        size = max((decoded_size(one) for one in payloads if len(one) > SMALL_BYTES), default=0)
        if size > MAX_DECODED_BYTES:
            message = (
                f"an event would take {size >> 20} MiB of memory; the limit is {MAX_DECODED_BYTES >> 20} MiB"
            )
            self.fail(LimitExceeded(message, provider=self.provider))
        return size > MAX_DECODED_BYTES

    def _count_silence(self, size: int) -> None:
        # Comments and empty events are no progress, and compress to almost nothing.
        self._silent_bytes += size
        if self._silent_bytes > 2 * self.limits.max_event_bytes + _SILENT_BYTES and not self.done:
            self.fail(LimitExceeded(f"the stream sent {self._silent_bytes} bytes without an event"))

    def defect(self, message: str) -> None:
        """Reports an event that could not be decoded; the stream continues, unless it has too many."""
        self._defects += 1
        if self._defects > _MAX_DEFECTS:
            if not self.done:
                self.fail(
                    ProtocolError(
                        f"more than {_MAX_DEFECTS} events could not be decoded. The last: {message}",
                        provider=self.provider,
                    )
                )
            return
        self.out.append(ErrorEvent(DecodeError(message, provider=self.provider).info))

    def encodable(self, value: Any) -> Any:
        """Replaces lone surrogates in a value of the wire, if the stream has sent any."""
        return value if self._joiner is None else encodable_value(value)

    @property
    def defects(self) -> int:
        """How many events could not be read so far."""
        return self._defects

    def untyped_payload(self) -> Any:
        """Decodes the current payload again, with the fields that the wire's types do not have.

        raises: RecursionError if those fields are nested too deeply
        """
        try:
            return msgspec.json.decode(self.payload)
        except (msgspec.MsgspecError, ValueError):  # it was read at the second look
            return encodable_value(json.loads(self.payload.decode("utf-8", "replace")))

    def _read(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self._read_one(payload)
            if self.done:
                return

    def _read_one(self, payload: bytes) -> None:
        self.payload = payload
        if self._include_raw:
            self._raw(payload)
        try:
            wire = self._decode(payload)
        except UNREADABLE as error:
            if (second := self._decode_rejected(payload, error)) is None:
                return
            wire = second
        self.on(wire)

    # Nearly all events are one more piece of an open block. A dialect may have a strict type for these: it is
    # decoded faster than the general type, and needs no checks for other fields. Other events are read by
    # `_read_one`.

    @property
    def _tries_plain(self) -> bool:
        """Whether the strict type is worth trying: not where a server adds a field to each event."""
        return self._misses < _MAX_MISSES and not self._include_raw

    def _read_other(self, payload: bytes, growing: GrowingInput | None) -> None:
        """Decodes an event other than a plain delta, after the preceding run of fragments, which ends."""
        if growing is not None:
            self.count(growing)
        self._read_one(payload)

    def _end_plain(self, growing: GrowingInput | None, misses: int, events: int) -> None:
        """Ends a loop over plain deltas: counts the run of fragments at its end, and the misses."""
        if growing is not None:
            self.count(growing)
        if misses or self._misses:
            self._count_misses(misses, events)

    def _count_misses(self, misses: int, events: int) -> None:
        """Counts events that did not fit the strict type; only those without one between them that did."""
        self._misses = self._misses + misses if misses == events else 0

    def _decode_rejected(self, payload: bytes, first: Exception) -> T | None:
        """Decodes what the strict decoder rejects: end marks, bad UTF-8, split surrogates."""
        if not payload.strip() or self.on_sentinel(payload):
            return None
        text = payload.decode("utf-8", "replace")
        self._replaced += not _is_utf8(payload)
        try:
            value = json.loads(text)
            wire: T = msgspec.convert(value, self._type)
        except UNREADABLE as error:
            cause = first if isinstance(first, msgspec.ValidationError) else error
            self.defect(
                f"an event could not be decoded: {_reason(cause)}. Its text: {text[:_EXCERPT_CHARS]!r}"
            )
            return None
        # Checked only here: JSON with a lone surrogate is never valid for the strict decoder.
        if self._joiner is None and "\\u" in text:
            self._joiner = SurrogateJoiner()
            self.has_half_characters = True
        return wire

    def _log_replaced(self) -> None:
        if self._replaced:
            message = "%s: %d events held bytes that are not UTF-8; each was replaced by U+FFFD"
            _log.warning(message, self.provider, self._replaced)
            self._replaced = 0

    def _raw(self, payload: bytes) -> None:
        try:
            value: Any = msgspec.json.decode(payload)
        except UNREADABLE:
            value = payload.decode("utf-8", "replace")
        self.out.append(Raw(value))

    def _take(self, *, last: bool = False) -> list[Event]:
        out, self.out = self.out, []
        if self._joiner is not None:
            out = self._joiner.feed(out)
        return out


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) or type(error).__name__


# Surrogate pairs that a vendor cut in two.
#
# Some servers cut text between UTF-16 units: one delta ends in an escaped high surrogate, the next begins
# with the low one. A high surrogate is held until the low one arrives; a lone surrogate becomes U+FFFD.

Delta: TypeAlias = TextDelta | ReasoningDelta | ToolInputDelta

_DELTA_OF: Final[dict[type, type[Delta]]] = {
    TextEnd: TextDelta,
    ReasoningEnd: ReasoningDelta,
    ToolInputEnd: ToolInputDelta,
}


def _repaired(event: Event) -> Event:
    """Replaces lone surrogates in names, ids and metadata."""
    try:
        encode(event)
    except UnicodeEncodeError:
        repaired: Event = msgspec.convert(encodable_value(msgspec.to_builtins(event)), prepared(type(event)))
        return repaired
    return event


class SurrogateJoiner:
    """Joins split surrogate pairs in the deltas of one stream, block by block."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def feed(self, events: list[Event]) -> list[Event]:
        """Returns the events without lone surrogates; a delta is empty while a high surrogate is held."""
        out: list[Event] = []
        for event in events:
            match event:
                case TextDelta() | ReasoningDelta() | ToolInputDelta():
                    out.append(self._delta(event))
                case ToolCall(input=text) if LONE_SURROGATE.search(text):
                    out.append(msgspec.structs.replace(event, input=without_lone_surrogates(text)))
                case _:
                    self._settle(event, out)
                    out.append(_repaired(event))
        return out

    def _delta(self, event: Delta) -> Delta:
        text = self._waiting.pop(event.id, "") + event.delta
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting[event.id] = text[-1]
            text = text[:-1]
        return msgspec.structs.replace(event, delta=without_lone_surrogates(text))

    def _settle(self, event: Event, out: list[Event]) -> None:
        """Emits U+FFFD for a high surrogate at the end of a block."""
        block_id = getattr(event, "id", None)
        if not isinstance(block_id, str) or block_id not in self._waiting:
            return
        delta = _DELTA_OF.get(type(event))
        if delta is not None:
            del self._waiting[block_id]
            out.append(delta("\ufffd", block_id))
