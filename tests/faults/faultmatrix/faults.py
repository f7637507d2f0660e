"""A fault as data: what the server does, and what is promised of it on every wire."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from faultmatrix.asking import BOUND_S, Outcome, Script, ask
from faultmatrix.wires import Wire

import llmstream as ls


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault of a row of the catalogue, for every wire.

    scripts:     what each connection gets, in order
    error:       the class, or classes, of the error that is told; None where the answer is whole
    text:        what is delivered before it; None where it depends on how much came
    reason, status, retry_after_s: of the error, where they matter
    asked:       how many requests the server gets
    within_s:    the time until the stream is over
    options:     of the model
    also:        what else must hold of the outcome
    not_for:     wires to which it does not apply, and why
    """

    name: str
    row: int
    scripts: Callable[[Wire], list[Script]]
    error: type[ls.LLMStreamError] | tuple[type[ls.LLMStreamError], ...] | None = None
    text: str | None = None
    reason: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    asked: int | None = None
    within_s: float = BOUND_S
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    also: Callable[[Wire, Outcome], None] | None = None
    not_for: Mapping[str, str] = dataclasses.field(default_factory=dict)

    async def check(self, wire: Wire) -> None:
        """Plays the fault; raises AssertionError where a promise is not kept."""
        got = await ask(wire, *self.scripts(wire), **self.options)
        kinds = self.error if isinstance(self.error, tuple) else (self.error or type(None),)
        assert type(got.error) in kinds, f"{got.error!r}, wanted {kinds}"
        text = "Hello" if self.error is None and self.text is None else self.text
        assert text is None or got.text == text
        assert got.seconds < self.within_s
        assert self.asked is None or len(got.server.requests) == self.asked
        if got.error is not None:
            assert self.reason is None or got.error.reason == self.reason
            assert self.status is None or got.error.status == self.status
            assert self.retry_after_s is None or got.error.retry_after_s == self.retry_after_s
        if self.also is not None:
            self.also(wire, got)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drill:
    """A row that is no answer of a server but something that is done with a stream."""

    name: str
    row: int
    play: Callable[[Wire], Awaitable[None]]
    not_for: Mapping[str, str] = dataclasses.field(default_factory=dict)

    async def check(self, wire: Wire) -> None:
        """Plays it; raises AssertionError where a promise is not kept."""
        await self.play(wire)


def drill(row: int, name: str, **options: Any) -> Callable[[Callable[[Wire], Awaitable[None]]], Drill]:
    """Makes a drill of an async function of a wire."""
    return lambda play: Drill(name=name, row=row, play=play, **options)
