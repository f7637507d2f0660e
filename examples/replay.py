"""Decodes a recorded body into events: a dialect alone, without a network or an event loop.

A dialect does no I/O: bytes go in, events come out, however the bytes are cut. `GuardedDecoder` checks
them by the grammar and ends them. `llmstream replay --dialect anthropic FILE` does the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llmstream as ls
from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.guarded_decoder import GuardedDecoder

RECORDING = Path(__file__).parent / "recordings" / "weather.anthropic.sse"


def replay(body: bytes, piece_bytes: int) -> Iterator[ls.Event]:
    """The events of a body that arrives in pieces."""
    sentence = GuardedDecoder(Anthropic().decoder(provider="anthropic"), provider="anthropic")
    yield from sentence.start()
    for at in range(0, len(body), piece_bytes):
        yield from sentence.feed(body[at : at + piece_bytes])
    yield from sentence.close()


def main() -> None:
    body = RECORDING.read_bytes()
    events = list(replay(body, 64))
    for event in events:
        print(ls.events.encode(event).decode())
    assert events == list(replay(body, 1)), "where the body is cut does not matter"
    assert ls.grammar.check(events) == [], "and what comes out is a sentence"
    print(f"{len(body)} bytes, {len(events)} events, the same byte by byte")


if __name__ == "__main__":
    main()
