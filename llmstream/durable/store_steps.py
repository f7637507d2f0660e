"""The port `Steps` over a `RunStore`: what a claimed run records, and what was given to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import msgspec

from llmstream.agent.durable_steps import Do
from llmstream.agent.recorded_model import Head
from llmstream.durable.store import KeptStep, RunStore
from llmstream.errors import Interrupted, LLMStreamError, LogUnavailable, Lost

__all__ = ["StoreSteps", "persistently"]

T = TypeVar("T")

# How often a timed wait looks.
_LOOK_S: Final = 0.1

# How long a database that cannot be reached is tried again, if the lease is longer; a server that starts
# again takes a second or two.
_PATIENCE_S: Final = 10.0

# The pause between two attempts.
_AGAIN_S: Final = 0.2

_head = msgspec.json.Decoder(Head)


async def persistently(call: Callable[[], Awaitable[T]], until: Callable[[], float]) -> T:
    """Calls a database, and again while it cannot be reached.

    call:   may be repeated, although its first attempt may have been carried out
    until:  the end of the lease, in loop time
    raises: LogUnavailable if it cannot be reached until then, or for ten seconds
    """
    loop = asyncio.get_running_loop()
    patience_s = loop.time() + _PATIENCE_S
    while True:
        try:
            return await call()
        except LogUnavailable as error:
            if not error.retryable or loop.time() + _AGAIN_S > min(until(), patience_s):
                raise
        await asyncio.sleep(_AGAIN_S)


class StoreSteps:
    """The steps of one run, under one claim of it. See `Steps`.

    valid_until: end of the lease in loop time; what may be done again is not begun after it
    broken: why nothing more is recorded: the run was lost, or its database failed; None else
    """

    def __init__(self, store: RunStore, run: str, epoch: int, kept: Mapping[str, KeptStep]) -> None:
        self.run, self.epoch = run, epoch
        self.valid_until = math.inf
        self.broken: LLMStreamError | None = None
        self._store = store
        self._done = {key: step.data for key, step in kept.items() if step.data is not None}
        self._begun = {key for key, step in kept.items() if step.data is None}

    def lose(self) -> Lost:
        """Notes that another process has the run; from now on nothing is done."""
        error = Lost(
            f"run {self.run!r} is no longer this process's: its lease had passed, and another process has "
            "taken it over, or it was stopped. What was under way here is not recorded."
        )
        self.broken = self.broken or error
        return error

    async def step(self, key: str, do: Do, *, again: bool) -> bytes:
        """As in `Steps`."""
        if key in self._done:
            return self._done[key]
        if self.broken is not None:
            raise self.broken
        if key in self._begun and not again:
            raise Interrupted(f"{key} had begun in a process that died; it is not done again.", reason=key)
        # The beginning is recorded before the work: without it no process could know afterwards that a
        # payment may have been made. What may be done again needs no such record, and saves the write.
        if not again:
            await self._written(lambda: self._store.begin(self.run, self.epoch, key))
        elif asyncio.get_running_loop().time() > self.valid_until:
            raise self.lose()
        data = await do()
        if self.broken is not None:
            # It may be the failure of a sub-agent whose own step was refused, and no result of the call.
            raise self.broken
        if not await self._persistently(lambda: self._record(key, data)):
            # Others were first to give it, or the run is lost.
            found = await self._look(key) if _is_given(key) else None
            if found is None:
                raise self.lose()
            return found
        self._done[key] = data
        return data

    async def _record(self, key: str, data: bytes) -> bool:
        if await self._store.done(self.run, self.epoch, key, data, _usage(key, data)):
            return True
        # An earlier attempt may have recorded it, although its answer did not arrive.
        return await self._store.look(self.run, key) == data

    async def _written(self, write: Callable[[], Awaitable[bool]]) -> None:
        if not await self._persistently(write):
            raise self.lose()

    async def _persistently(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await persistently(call, lambda: self.valid_until)
        except LogUnavailable as error:
            self.broken = self.broken or error
            raise

    async def wait(self, key: str, timeout_s: float | None) -> bytes | None:
        """As in `Steps`; without a time it returns at once, and the run waits without a process."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (timeout_s or 0.0)
        while True:
            found = await self._look(key)
            if found is not None or loop.time() >= until:
                return found
            await asyncio.sleep(min(_LOOK_S, until - loop.time()))

    async def _look(self, key: str) -> bytes | None:
        found = self._done.get(key)
        if found is None and _is_given(key):
            found = await self._persistently(lambda: self._store.look(self.run, key))
            if found is not None:
                self._done[key] = found
        return found


def _is_given(key: str) -> bool:
    """Whether others may give something under the key; everything else only this process records."""
    first, _, rest = key.partition("/")
    return first == "inbox" or rest.startswith(("decision/", "result/"))


def _usage(key: str, data: bytes) -> tuple[str, str]:
    """Model and tokens of a response, with their cost if it is known."""
    if not key.endswith("/model"):
        return "", ""
    try:
        head = _head.decode(data.partition(b"\n")[0])
    except msgspec.MsgspecError:  # not recorded by an agent
        return "", ""
    spent = msgspec.to_builtins(head.usage)
    if head.cost is not None:
        spent["cost"] = head.cost
    return head.answered_by or head.model, msgspec.json.encode(spent).decode()
