"""Checks of dialects: decodes bodies cut anywhere, and compares the events with the grammar.

`assert_dialect_conforms` runs all checks; the other functions are its parts, for single tests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from llmstream import grammar
from llmstream.dialects.base import Dialect
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import IncompleteStream, Unsupported
from llmstream.events import (
    ErrorEvent,
    Event,
    File,
    Finish,
    ReasoningDelta,
    ReasoningStart,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
)
from llmstream.request import Request
from llmstream.server_side.wires import EventEncoder, server_side

__all__ = [
    "ContentSummary",
    "assert_dialect_conforms",
    "check_stream",
    "content_summary",
    "cuts",
    "decode_body",
    "with_numbered_ids",
]


def cuts(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields every way to cut a body in two, including those with an empty half."""
    for position in range(len(body) + 1):
        yield body[:position], body[position:]


def decode_body(
    body: bytes | Iterable[bytes],
    dialect: Dialect,
    *,
    chunks: int | None = None,
    provider: str = "test",
    include_raw: bool = False,
) -> list[Event]:
    """Decodes one response into events, from stream-start to finish, whatever the bytes.

    body:   the complete body, or its pieces
    chunks: size of the pieces in bytes, in place of those given
    """
    pieces: Iterable[bytes] = (body,) if isinstance(body, bytes) else body
    if chunks is not None:
        if chunks < 1:
            raise ValueError(f"chunks is the size of the pieces in bytes, at least 1; got {chunks}")
        complete = b"".join(pieces)
        pieces = (complete[start : start + chunks] for start in range(0, len(complete), chunks))
    sentence = GuardedDecoder(dialect.decoder(provider=provider, include_raw=include_raw), provider=provider)
    events = sentence.start()
    for piece in pieces:
        events += sentence.feed(piece)
    return events + sentence.close()


def check_stream(events: Iterable[Event]) -> None:
    """Checks that the events are one complete response or run, by the stream grammar.

    raises: AssertionError that lists every violation
    """
    broken = grammar.check(events)
    if broken:
        raise AssertionError("the events violate the stream grammar:\n  " + "\n  ".join(broken))


ContentSummary: TypeAlias = list[tuple[str, Any]]
"""Content in order, as pairs of kind and value."""

_ID_FIELDS: Final = ("id", "tool_call_id", "approval_id")


def content_summary(events: Iterable[Event]) -> ContentSummary:
    """Returns texts, reasoning, tool calls with decoded input, files, finish reason and token counts.

    Omits ids, metadata, empty blocks and the boundaries of deltas.
    """
    fragments: dict[str, list[str]] = {}
    content: ContentSummary = []
    for event in events:
        match event:
            case TextStart(block_id):
                content.append(("text", fragments.setdefault(block_id, [])))
            case ReasoningStart(block_id):
                content.append(("reasoning", fragments.setdefault(block_id, [])))
            case TextDelta(delta, block_id) | ReasoningDelta(delta, block_id):
                fragments.setdefault(block_id, []).append(delta)
            case ToolCall(name, text):
                content.append(("call", (name, _value(text))))
            case File(media_type, data):
                content.append(("file", (media_type, data)))
            case Finish(reason, usage):
                content.append(("finish", (reason, usage.input_tokens, usage.output_tokens)))
            case _:
                pass
    complete = [(kind, "".join(value) if isinstance(value, list) else value) for kind, value in content]
    return [(kind, value) for kind, value in complete if value != ""]


def with_numbered_ids(events: Iterable[Event]) -> list[Event]:
    """Replaces ids by numbers in order of appearance, for dialects that generate random ids."""
    numbers: dict[str, str] = {}
    numbered: list[Event] = []
    for event in events:
        if not isinstance(event, ResponseMetadata):
            ids = {name: getattr(event, name) for name in _ID_FIELDS if hasattr(event, name)}
            renamed = {name: numbers.setdefault(value, f"#{len(numbers)}") for name, value in ids.items()}
            event = msgspec.structs.replace(event, **renamed) if renamed else event
        numbered.append(event)
    return numbered


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


MakeEncoder: TypeAlias = Callable[[Request], EventEncoder]

# Characters at which `str.splitlines` cuts and `json` does not, and others that are easily lost.
_AWKWARD: Final = 'a\u2028b\u2029c\x85d\x0be\x1cf\r\ng\n\nh\tdata: i "j" \\k é 你好 🙂 \ufeff\x00'

# The same cuts in every run: a failure can be repeated.
_SEED: Final = 0


def assert_dialect_conforms(
    dialect: Dialect,
    recordings: Iterable[bytes],
    *,
    provider: str = "test",
    max_cuts: int = 4000,
    event_encoder: MakeEncoder | None = None,
) -> None:
    """Checks the guarantees of a dialect.

    - A body gives the same events if decoded at once, byte by byte, at every two-way cut and, for
      SSE, with other line ends.
    - The events follow the stream grammar without repairs: the guard drops and renames nothing.
    - Truncated anywhere, the events still follow the grammar: one finish, and at most one
      `IncompleteStream`. An empty body is always an `IncompleteStream`.
    - If the dialect has a server side, encoding the events and decoding them again keeps the content.

    recordings:    complete response bodies; may include some that end in an error
    max_cuts:      maximum number of cuts; those of longer bodies are a fixed sample
    event_encoder: of the dialect's server side; known for llmstream's own dialects
    raises:        AssertionError that names the recording, the cut and the difference
    """
    event_encoder = event_encoder or _known_encoder(dialect)
    count = 0
    for number, body in enumerate(recordings):
        _Recording(dialect, body, provider, f"recording {number}", event_encoder).check(max_cuts)
        count += 1
    if not count:
        raise AssertionError("no recordings given. A dialect needs at least one to be checked.")
    empty = decode_body(b"", dialect, provider=provider)
    if [e.error.code for e in empty if isinstance(e, ErrorEvent)] != [IncompleteStream.code]:
        raise AssertionError("an empty body does not give an IncompleteStream")
    _awkward_text_survives(dialect, provider, event_encoder)


class _Recording:
    """The checks of one body."""

    def __init__(
        self, dialect: Dialect, body: bytes, provider: str, name: str, event_encoder: MakeEncoder | None
    ) -> None:
        self.dialect = dialect
        self.event_encoder = event_encoder
        self.body = body
        self.provider = provider
        self.name = name
        self.expected = self.decode("at once", body)
        # Two readings of the same bytes differ only where the decoder makes random ids.
        self.mints_ids = self.expected != self.decode("at once", body)

    def decode(self, where: str, *pieces: bytes) -> list[Event]:
        try:
            events = decode_body(pieces, self.dialect, provider=self.provider)
        except Exception as error:
            raise AssertionError(f"{self.name}, {where}: the decoder raises {error!r}") from error
        broken = grammar.check(events)
        if broken:
            raise AssertionError(
                f"{self.name}, {where}, violates the stream grammar:\n  " + "\n  ".join(broken)
            )
        return events

    def check(self, max_cuts: int) -> None:
        body = self.body
        self.nothing_taken_back()
        self.same("byte by byte", *[body[i : i + 1] for i in range(len(body))])
        for position in _positions(len(body), max_cuts):
            self.same(f"cut at byte {position}", body[:position], body[position:])
        # SSE allows three line ends (WHATWG HTML, 9.2.6). A body that has CR would get empty lines.
        if self.dialect.content_type == "text/event-stream" and b"\r" not in body:
            self.same("with CRLF as line end", body.replace(b"\n", b"\r\n"))
            self.same("with CR as line end", body.replace(b"\n", b"\r"))
        for position in _positions(len(body), max_cuts):
            self.truncated(position)
        self.survives_the_way_back()

    def same(self, where: str, *pieces: bytes) -> None:
        events, expected = self.decode(where, *pieces), self.expected
        if events == expected:
            return
        if self.mints_ids:
            events, expected = with_numbered_ids(events), with_numbered_ids(expected)
        if events != expected:
            difference = _difference(events, expected)
            raise AssertionError(f"{self.name}, {where}, differs from the complete body: {difference}")

    def truncated(self, length: int) -> None:
        where = f"truncated after {length} bytes"
        codes = [e.error.code for e in self.decode(where, self.body[:length]) if isinstance(e, ErrorEvent)]
        count = codes.count(IncompleteStream.code)
        if count > 1:
            raise AssertionError(f"{self.name}, {where}, has {count} IncompleteStream errors")

    def nothing_taken_back(self) -> None:
        """Checks that the guard only adds events; dropping or renaming one means a defect of the decoder."""
        decoder = self.dialect.decoder(provider=self.provider)
        decoded = decoder.feed(self.body)
        if not decoder.done:
            decoded = decoded + decoder.close()
        guarded = GuardedDecoder(self.dialect.decoder(provider=self.provider), provider=self.provider)
        passed = iter(with_numbered_ids(guarded.feed(self.body) + guarded.close()))
        for event, numbered in zip(decoded, with_numbered_ids(decoded), strict=True):
            if numbered not in passed:
                raise AssertionError(f"{self.name}: the decoder breaks the grammar with {event!r}")

    def survives_the_way_back(self) -> None:
        # An error may be one of the framing or of the end, which no writer repeats.
        if any(isinstance(event, ErrorEvent) for event in self.expected):
            return
        written = _written(self.event_encoder, self.expected)
        if written is None:
            return
        where = "encoded and decoded again"
        again, before = content_summary(self.decode(where, written)), content_summary(self.expected)
        if again != before:
            raise AssertionError(f"{self.name}, {where}, differs: {_difference(again, before)}")


def _positions(length: int, most: int) -> Iterator[int]:
    if length <= most:
        return iter(range(length + 1))
    return iter(sorted(random.Random(_SEED).sample(range(length + 1), most)))  # noqa: S311  # a choice, no secret


def _known_encoder(dialect: Dialect) -> MakeEncoder | None:
    try:
        return server_side(dialect).event_encoder
    except Unsupported:
        return None


def _written(event_encoder: MakeEncoder | None, events: list[Event]) -> bytes | None:
    """Encodes the events as a body; returns None without a server side."""
    if event_encoder is None:
        return None
    model = next((e.model_id for e in events if isinstance(e, ResponseMetadata) and e.model_id), "model")
    try:
        encoder = event_encoder(Request(model=model))
    except (NotImplementedError, Unsupported):
        return None
    return b"".join([encoder.feed(event) for event in events]) + encoder.close()


def _awkward_text_survives(dialect: Dialect, provider: str, event_encoder: MakeEncoder | None) -> None:
    events: list[Event] = [
        StreamStart(),
        ResponseMetadata("model", "id"),
        TextStart("0"),
        TextDelta(_AWKWARD, "0"),
        TextEnd("0"),
        Finish("stop"),
    ]
    written = _written(event_encoder, events)
    if written is None:
        return
    text = "".join(
        e.delta for e in decode_body(written, dialect, provider=provider) if isinstance(e, TextDelta)
    )
    if text != _AWKWARD:
        raise AssertionError(f"unusual characters were changed: {_AWKWARD!r} became {text!r}")


def _difference(events: Sequence[object], expected: Sequence[object]) -> str:
    for position, (event, right) in enumerate(zip(events, expected, strict=False)):
        if event != right:
            return f"event {position} is {event!r}, not {right!r}"
    return f"{len(events)} events, not {len(expected)}"
