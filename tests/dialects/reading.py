"""How tests of dialects feed bodies to a decoder, and what they look at in its events."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llmstream import grammar
from llmstream.dialects.base import Decoder
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import ErrorEvent, Event, Finish, ReasoningDelta, TextDelta, ToolCall

__all__ = ["Answer", "made_ids", "read_answer", "read_bodies", "read_chunks"]


class Answer:
    """The events of one response, and what they say."""

    def __init__(self, events: list[Event], error: Exception | None) -> None:
        self.events = events
        self.error = error

    def of(self, *kinds: type[Any]) -> list[Any]:
        return [event for event in self.events if type(event) in kinds]

    def blocks(self, kind: type[Any]) -> list[str]:
        found: dict[str, str] = {}
        for event in self.of(kind):
            found[event.id] = found.get(event.id, "") + event.delta
        return list(found.values())

    @property
    def texts(self) -> list[str]:
        return self.blocks(TextDelta)

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.of(TextDelta))

    @property
    def reasonings(self) -> list[str]:
        return self.blocks(ReasoningDelta)

    @property
    def reasoning(self) -> str:
        return "".join(event.delta for event in self.of(ReasoningDelta))

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(call.tool_name, call.input) for call in self.of(ToolCall)]

    @property
    def ids(self) -> list[str]:
        return [call.tool_call_id for call in self.of(ToolCall)]

    @property
    def finish(self) -> Finish:
        (finish,) = self.of(Finish)
        return finish

    @property
    def errors(self) -> list[str]:
        return [event.error.code for event in self.of(ErrorEvent)]

    @property
    def kinds(self) -> list[str]:
        return [event.__struct_config__.tag for event in self.events]


def made_ids() -> Callable[[], str]:
    """Ids of calls without one: made-1, made-2 and so on."""
    numbers = itertools.count(1)
    return lambda: f"made-{next(numbers)}"


def read_answer(decoder: Decoder, body: bytes, cuts: Iterable[int] = (), *, provider: str) -> Answer:
    """What a body means, fed at once or in pieces."""
    edges = itertools.pairwise([0, *cuts, len(body)])
    return read_chunks(decoder, [body[start:end] for start, end in edges], provider=provider)


def read_chunks(decoder: Decoder, chunks: Sequence[bytes], *, provider: str) -> Answer:
    """What a body means whose pieces are given, some of them possibly empty."""
    guarded = GuardedDecoder(decoder, provider=provider)
    events = guarded.start()
    for chunk in chunks:
        events = events + guarded.feed(chunk)
    events = events + guarded.close()
    assert grammar.check(events) == []
    return Answer(events, guarded.error)


def read_bodies(made: GuardedDecoder, bodies: Sequence[bytes], cuts: Iterable[int] = ()) -> list[Event]:
    """The events of several bodies, each fed at once or in pieces; the grammar accepts them."""
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
