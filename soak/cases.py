"""What happens to stream number N: the same in the process that reads and in the one that serves."""

from __future__ import annotations

import random
import re
from functools import cache

import msgspec

from llmstream.cli.config import wire_of
from llmstream.dialects.base import DIALECTS, Dialect
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.simulator import Turn
from llmstream.simulator.timeline import timeline_of
from llmstream.testing import Do, Step, answered, chaos, head

WIRES = tuple(name for name in DIALECTS if name != "bedrock-converse")
"""The dialects whose framing is text, which is what the faults are made for."""

_KINDS = {
    "whole": 5,
    "split": 1,
    "refused": 2,
    "cut": 2,
    "reset": 2,
    "stalled": 1,
    "overloaded": 2,
    "garbage": 1,
    "left": 2,
    "cancelled": 2,
    "unread": 1,
}
_LATE_S = 0.3
_SPLIT_BYTES = 13  # cuts lines, escapes and characters; byte by byte a body is thousands of writes
_NAME = re.compile(rb"case-(\d+)-(\d+)-")


class Case(msgspec.Struct, frozen=True):
    """One stream.

    kind:  what happens to it; a key of the weights above
    wire:  the dialect it is in
    place: where in the body, as a share; of a cancelled one, when, in seconds
    """

    seed: int
    number: int
    kind: str
    wire: str
    words: int
    place: float

    @property
    def prompt(self) -> str:
        """What the server knows it by."""
        return f"case-{self.seed}-{self.number}-"

    @property
    def text(self) -> str:
        """What a whole answer says."""
        return " ".join(f"{self.number}.{word}ö" for word in range(self.words))


def case_of(seed: int, number: int) -> Case:
    """The case of that number."""
    chance = random.Random(f"{seed}/{number}")
    (kind,) = chance.choices(list(_KINDS), list(_KINDS.values()))
    return Case(seed, number, kind, chance.choice(WIRES), chance.randrange(8, 60), chance.uniform(0.1, 0.8))


@cache
def dialect_of(wire: str) -> tuple[Dialect, str]:
    """A dialect and the provider that speaks it."""
    dialect, provider, _ = wire_of(wire, None)
    return dialect, provider


class Answers:
    """The scripts of a `FaultServer`, by the case that a request names."""

    def __init__(self) -> None:
        self._refused: set[int] = set()

    def script(self, request: bytes) -> list[Step]:
        """What the connection gets."""
        found = _NAME.search(request)
        if found is None:
            return [head(404, {"content-length": "0"})]
        case = case_of(int(found[1]), int(found[2]))
        dialect, _ = dialect_of(case.wire)
        pieces = _pieces(case, dialect)
        body = b"".join(pieces)
        at = int(len(body) * case.place)
        match case.kind:
            case "split":
                steps: list[Step] = [body[i : i + _SPLIT_BYTES] for i in range(0, len(body), _SPLIT_BYTES)]
            case "refused" if case.number not in self._refused:
                self._refused.add(case.number)
                fields = {"content-length": "0", "retry-after": "0"}
                return [head(503 if case.number % 2 else 429, fields)]
            case "cut":
                steps = list(chaos(body, "cut", dialect=dialect, at=at))
            case "reset":
                return answered(*chaos(body, "reset", dialect=dialect, at=at))
            case "stalled":
                return answered(*chaos(body, "stall", dialect=dialect, at=at))
            case "overloaded":
                steps = list(chaos(body, "overloaded", dialect=dialect, at=at // 2))
            case "garbage":
                middle = len(pieces) // 2
                steps = [*pieces[:middle], _garbage(dialect), *pieces[middle:]]
            case "left":
                middle = len(pieces) // 2
                steps = [*pieces[:middle], _LATE_S, *pieces[middle:], Do.HANG]
            case "cancelled":
                steps = [*pieces[: len(pieces) // 2], Do.HANG]
            case _:
                steps = list(pieces)
        return answered(*steps)


def _pieces(case: Case, dialect: Dialect) -> list[bytes]:
    request = Request(model="m")
    encoder = server_side(dialect).event_encoder(request)
    pieces = [encoder.feed(beat.event) for beat in timeline_of(Turn(text=case.text), request)]
    return [piece for piece in [*pieces, encoder.close()] if piece]


def _garbage(dialect: Dialect) -> bytes:
    return b'{"a": \n' if dialect.content_type == "application/x-ndjson" else b'data: {"a": \n\n'
