"""A body in pieces, decoded and held against the grammar."""

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
from llmstream.serving.wires import EventEncoder, server_side

__all__ = [
    "Gist",
    "assert_dialect_conforms",
    "check_stream",
    "cuts",
    "decode_body",
    "gist",
    "with_numbered_ids",
]


def cuts(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every way to cut a body in two, those with an empty half included."""
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
    """The events of one answer, from stream-start to finish, whatever the bytes.

    body:   whole, or in the pieces in which it is to be read
    chunks: how many bytes each piece has, in place of the pieces given
    """
    pieces: Iterable[bytes] = (body,) if isinstance(body, bytes) else body
    if chunks is not None:
        if chunks < 1:
            raise ValueError(f"chunks is how many bytes a piece has, at least 1; got {chunks}")
        whole = b"".join(pieces)
        pieces = (whole[start : start + chunks] for start in range(0, len(whole), chunks))
    sentence = GuardedDecoder(dialect.decoder(provider=provider, include_raw=include_raw), provider=provider)
    events = sentence.start()
    for piece in pieces:
        events += sentence.feed(piece)
    return events + sentence.close()


def check_stream(events: Iterable[Event]) -> None:
    """That the events are a sentence: one whole response, or a whole run.

    raises: AssertionError that lists every law they break
    """
    broken = grammar.check(events)
    if broken:
        raise AssertionError("the events are no sentence:\n  " + "\n  ".join(broken))


Gist: TypeAlias = list[tuple[str, Any]]
"""What was said, in order: (kind, what)."""

_ID_FIELDS: Final = ("id", "tool_call_id", "approval_id")


def gist(events: Iterable[Event]) -> Gist:
    """Texts, reasoning, calls with their input as a value, files, and how it ended with how many tokens.

    Ids, metadata, blocks that hold nothing and the bounds of deltas are left out.
    """
    fragments: dict[str, list[str]] = {}
    said: Gist = []
    for event in events:
        match event:
            case TextStart(block_id):
                said.append(("text", fragments.setdefault(block_id, [])))
            case ReasoningStart(block_id):
                said.append(("reasoning", fragments.setdefault(block_id, [])))
            case TextDelta(delta, block_id) | ReasoningDelta(delta, block_id):
                fragments.setdefault(block_id, []).append(delta)
            case ToolCall(name, text):
                said.append(("call", (name, _value(text))))
            case File(media_type, data):
                said.append(("file", (media_type, data)))
            case Finish(reason, usage):
                said.append(("finish", (reason, usage.input_tokens, usage.output_tokens)))
            case _:
                pass
    whole = [(kind, "".join(what) if isinstance(what, list) else what) for kind, what in said]
    return [(kind, what) for kind, what in whole if what != ""]


def with_numbered_ids(events: Iterable[Event]) -> list[Event]:
    """The events with their ids replaced by numbers in order of appearance, for dialects that mint ids."""
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

_AWKWARD: Final = 'a\u2028b\u2029c\x85d\x0be\x1cf\r\ng\n\nh\tdata: i "j" \\k é 你好 🙂 \ufeff\x00'
"""Characters at which `str.splitlines` cuts and `json` does not, and others that get lost on the way."""

_SEED: Final = 0


def assert_dialect_conforms(
    dialect: Dialect,
    recordings: Iterable[bytes],
    *,
    provider: str = "test",
    max_cuts: int = 4000,
    event_encoder: MakeEncoder | None = None,
) -> None:
    """Holds a dialect to what every consumer may rely on.

    - A body gives the same events whole, byte by byte, at every two-way cut and, where it is an
      SSE stream, with the other line ends.
    - The events are a sentence, and the decoder has said nothing that had to be taken back.
    - Cut off anywhere it is still a sentence: one finish, and at most one `IncompleteStream`.
      Nothing at all is always an `IncompleteStream`.
    - Where the dialect has a server side, what a response says survives events to bytes to events.

    recordings: whole bodies of answers; those that end in an error are welcome
    max_cuts:   longer bodies are cut and cut off at so many places, always the same ones
    event_encoder: of the dialect's server side; that of llmstream's own dialects is known
    raises:     AssertionError that says which recording, where it was cut, and what differs
    """
    event_encoder = event_encoder or _known_encoder(dialect)
    count = 0
    for number, body in enumerate(recordings):
        _Recording(dialect, body, provider, f"recording {number}", event_encoder).check(max_cuts)
        count += 1
    if not count:
        raise AssertionError("there are no recordings: a dialect without one is not tested at all")
    empty = decode_body(b"", dialect, provider=provider)
    if [e.error.code for e in empty if isinstance(e, ErrorEvent)] != [IncompleteStream.code]:
        raise AssertionError("an empty body is no IncompleteStream")
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
        self.whole = self.decode("whole", body)
        self.mints_ids = self.whole != self.decode("whole", body)

    def decode(self, where: str, *pieces: bytes) -> list[Event]:
        try:
            events = decode_body(pieces, self.dialect, provider=self.provider)
        except Exception as error:
            raise AssertionError(f"{self.name}, {where}: the decoder raises {error!r}") from error
        broken = grammar.check(events)
        if broken:
            raise AssertionError(f"{self.name}, {where}, is no sentence:\n  " + "\n  ".join(broken))
        return events

    def check(self, max_cuts: int) -> None:
        body = self.body
        self.nothing_taken_back()
        self.same("byte by byte", *[body[i : i + 1] for i in range(len(body))])
        for position in _positions(len(body), max_cuts):
            self.same(f"cut at byte {position}", body[:position], body[position:])
        if self.dialect.content_type == "text/event-stream" and b"\r" not in body:
            self.same("with CRLF as line end", body.replace(b"\n", b"\r\n"))
            self.same("with CR as line end", body.replace(b"\n", b"\r"))
        for position in _positions(len(body), max_cuts):
            self.truncated(position)
        self.survives_the_way_back()

    def same(self, where: str, *pieces: bytes) -> None:
        events, expected = self.decode(where, *pieces), self.whole
        if events == expected:
            return
        if self.mints_ids:
            events, expected = with_numbered_ids(events), with_numbered_ids(expected)
        if events != expected:
            difference = _difference(events, expected)
            raise AssertionError(f"{self.name}, {where}, differs from the whole: {difference}")

    def truncated(self, length: int) -> None:
        where = f"cut off after {length} bytes"
        codes = [e.error.code for e in self.decode(where, self.body[:length]) if isinstance(e, ErrorEvent)]
        count = codes.count(IncompleteStream.code)
        if count > 1:
            raise AssertionError(f"{self.name}, {where}, is said to be incomplete {count} times")

    def nothing_taken_back(self) -> None:
        """The guard mends what a decoder says. To add is its work; what it drops or renames is a defect."""
        decoder = self.dialect.decoder(provider=self.provider)
        said = decoder.feed(self.body)
        if not decoder.done:
            said = said + decoder.close()
        sentence = GuardedDecoder(self.dialect.decoder(provider=self.provider), provider=self.provider)
        kept = iter(with_numbered_ids(sentence.feed(self.body) + sentence.close()))
        for event, numbered in zip(said, with_numbered_ids(said), strict=True):
            if numbered not in kept:
                raise AssertionError(f"{self.name}: the decoder breaks the grammar with {event!r}")

    def survives_the_way_back(self) -> None:
        if any(isinstance(event, ErrorEvent) for event in self.whole):
            return
        written = _written(self.event_encoder, self.whole)
        if written is None:
            return
        where = "written as bytes and read again"
        again, before = gist(self.decode(where, written)), gist(self.whole)
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
    """The body that holds the events; None where there is no server side."""
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
        raise AssertionError(f"text with unusual characters does not survive: {_AWKWARD!r} became {text!r}")


def _difference(events: Sequence[object], expected: Sequence[object]) -> str:
    for position, (event, wanted) in enumerate(zip(events, expected, strict=False)):
        if event != wanted:
            return f"event {position} is {event!r}, not {wanted!r}"
    return f"{len(events)} events, not {len(expected)}"
