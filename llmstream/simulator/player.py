"""Writes the pieces of a body when they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

__all__ = ["Player", "Writer"]


class Writer(Protocol):
    """The destination of the bytes."""

    async def write(self, data: bytes) -> None:
        """Writes, and waits for a slow reader."""
        ...


class Player:
    """Plays pieces of a body by a clock.

    block_bytes: size of the writes for pieces that are due together; 0 for one write per piece
    """

    def __init__(
        self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]], block_bytes: int = 0
    ) -> None:
        self.sleep = sleep
        self._clock = clock
        self._block_bytes = block_bytes

    async def play(self, to: Writer, pieces: Iterable[tuple[float, bytes]]) -> None:
        """Writes each piece when it is due.

        pieces: seconds from now, and bytes; in order of time
        """
        start = self._clock()
        block = bytearray()
        for due_s, data in pieces:
            wait_s = start + due_s - self._clock() if due_s else 0.0
            if wait_s > 0:
                if block:
                    await to.write(bytes(block))
                    block.clear()
                await self.sleep(wait_s)
            if not data:
                continue
            if not self._block_bytes:
                await to.write(data)
                # Lets a reader in the same loop run, which may disconnect.
                await asyncio.sleep(0)
                continue
            block += data
            while len(block) >= self._block_bytes:
                await to.write(bytes(block[: self._block_bytes]))
                del block[: self._block_bytes]
        if block:
            await to.write(bytes(block))
