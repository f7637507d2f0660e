"""Yields text that arrives in large pieces word by word, at an even pace."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.events import Event, ReasoningDelta, TextDelta
from llmstream.middleware.wrapping import Ask, Middleware
from llmstream.request import Request

__all__ = ["LINE", "WORD", "smooth"]

# Scripts that are written without spaces, or need none to be read in pieces.
_WIDE: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0eff"

WORD: Final = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+(?=[\s{_WIDE}])|\S{{40}})")
"""A word with the white space before it; a run of 40 characters counts as one."""

LINE: Final = re.compile(r"[^\n]*\n")
"""A line with its end."""


# Maximum number of held characters; more are yielded even if the piece is incomplete.
_LONGEST: Final = 1000

# An event that arrives faster than this was already buffered.
_AT_ONCE_S: Final = 0.002

# After this time without a wait, the model is faster than the pace, and text accumulates.
_AHEAD_S: Final = 1.0


def smooth(
    delay_s: float = 0.015,
    *,
    piece: re.Pattern[str] = WORD,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Middleware:
    """Yields text and reasoning in small pieces, with a pause between two.

    A model that stays ahead for longer than a second is not slowed down: the pause shrinks until the
    reader keeps up. An incomplete piece is held until it is complete or any other event comes, such as
    a tool call or the end; then it is yielded at once. Nothing is lost or reordered.

    delay_s: the longest pause
    piece:   matches a piece at the beginning of a text: WORD, LINE or a pattern of your own
    clock, sleep: for tests
    raises:  InvalidRequest for a pause below 0
    """
    if not delay_s >= 0:
        raise InvalidRequest(f"delay_s must be at least 0, got {delay_s}")

    async def smoothed(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        pace = _Pace(delay_s, clock, sleep)
        held: TextDelta | ReasoningDelta | None = None
        async for event in ask(request):
            pace.arrived()
            delta = event if isinstance(event, TextDelta | ReasoningDelta) else None
            # Metadata belongs to its position, so such a delta is neither joined nor split.
            plain = delta if delta is not None and delta.provider_metadata is None else None
            if held is not None and (plain is None or not _can_join(held, plain)):
                yield held
                held = None
            if plain is None:
                yield event
            else:
                text = plain.delta if held is None else held.delta + plain.delta
                pieces, rest = _split(text, piece)
                for part in pieces:
                    await pace.turn()
                    yield msgspec.structs.replace(plain, delta=part)
                held = msgspec.structs.replace(plain, delta=rest) if rest else None
            pace.asks()

    smoothed.__name__ = "smooth"
    return smoothed


class _Pace:
    """Decides when the next piece is due, by how far the model is ahead."""

    def __init__(
        self, delay_s: float, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        self._longest_s = self._pause_s = delay_s
        self._clock, self._sleep = clock, sleep
        self._asked = self._waited = clock()
        self._due = 0.0

    def asks(self) -> None:
        """The next event is requested now."""
        self._asked = self._clock()

    def arrived(self) -> None:
        """The event has arrived: adapts the pause to the wait for it."""
        now = self._clock()
        if now - self._asked > _AT_ONCE_S:
            self._waited = now
            self._pause_s = min(self._longest_s, self._pause_s * 1.5)
        elif now - self._waited > _AHEAD_S:
            self._waited = now
            self._pause_s *= 0.7

    async def turn(self) -> None:
        """Waits until the next piece is due."""
        wait_s = self._due - self._clock()
        if wait_s > 0:
            await self._sleep(wait_s)
        self._due = self._clock() + self._pause_s


def _can_join(held: TextDelta | ReasoningDelta, delta: TextDelta | ReasoningDelta) -> bool:
    return type(held) is type(delta) and held.id == delta.id


def _split(text: str, piece: re.Pattern[str]) -> tuple[list[str], str]:
    """The complete pieces at the beginning of the text, and the rest."""
    pieces: list[str] = []
    at = 0
    # A pattern that matches an empty text would never end.
    while (found := piece.match(text, at)) and found.end() > at:
        pieces.append(found.group())
        at = found.end()
    rest = text[at:]
    if len(rest) > _LONGEST:
        pieces.append(rest)
        rest = ""
    return pieces, rest
