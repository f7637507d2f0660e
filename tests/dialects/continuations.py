"""How an answer that comes in several responses is fed to a decoder, for tests of dialects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from llmstream import grammar
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import Event

__all__ = ["read_bodies"]


def read_bodies(made: GuardedDecoder, bodies: Sequence[bytes], cuts: Iterable[int] = ()) -> list[Event]:
    """The sentence that several bodies are, each fed whole or cut."""
    events = made.start()
    for number, body in enumerate(bodies):
        if number:
            assert made.decoder.next_place is not None
            made.decoder.next_body()
        for start, end in itertools.pairwise([0, *(at for at in cuts if at < len(body)), len(body)]):
            events = events + made.feed(body[start:end])
    events = events + made.close()
    assert grammar.check(events) == []
    return events
