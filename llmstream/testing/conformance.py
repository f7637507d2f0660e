"""The checks that every dialect passes, ours and others'."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from llmstream import grammar
from llmstream.dialects.base import Dialect
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import IncompleteStream, Unsupported
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.request import Request
from llmstream.serving.wires import EventEncoder, server_side
from llmstream.testing.bodies import decode_body
from llmstream.testing.gist import gist, with_numbered_ids

__all__ = ["assert_dialect_conforms"]

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
