"""A body in pieces, decoded and held against the grammar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmstream import grammar
from llmstream.dialects.base import Dialect
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import Event

__all__ = ["check_stream", "cuts", "decode_body"]


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
