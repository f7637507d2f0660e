"""The port `Steps` over a `RunStore`: the records of a claimed run and its input."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import msgspec

from llmstream.agent.durable_steps import Do, RunOver
from llmstream.agent.recorded_model import Head
from llmstream.agent.recorder import RecordedHistory
from llmstream.agent.state import Expense
from llmstream.durable.store import RecordedStep, RunStore
from llmstream.durable.tables import usage_row
from llmstream.errors import Interrupted, LogUnavailable, Lost

__all__ = ["StoreSteps", "persistently"]

T = TypeVar("T")

# Polling interval of a timed wait.
_POLL_S: Final = 0.1

# How long to retry an unreachable database, if the lease is longer; a server restart takes a second or two.
_PATIENCE_S: Final = 10.0

# The pause between two attempts.
_AGAIN_S: Final = 0.2

# How long the record of a response waits for the first step that follows it. The run reaches its calls within
# some ten loop iterations; a response without calls is recorded that much later. With three commits a step
# instead of two, SQLite with `synchronous=full` took 8 % more CPU.
_FOLLOWS_S: Final = 0.001

_head = msgspec.json.Decoder(Head)
_history = msgspec.json.Decoder(RecordedHistory)


async def persistently(call: Callable[[], Awaitable[T]], until: Callable[[], float]) -> T:
    """Calls a database, with retries while it cannot be reached.

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

    lease_s:     by how much the lease is renewed
    valid_until: end of the lease in loop time; repeatable steps are not started after it
    broken: why nothing more is recorded: the run was lost, or its database failed; otherwise None
    sealed: whether the run has ended, so that only recorded steps apply, and none is started
    """

    def __init__(
        self,
        store: RunStore,
        run: str,
        epoch: int,
        recorded: Mapping[str, RecordedStep],
        *,
        lease_s: float = 10.0,
    ) -> None:
        self.run, self.epoch = run, epoch
        self._lease_s = lease_s
        self.valid_until = math.inf
        self.broken: Exception | None = None
        self.sealed = False
        self._store = store
        self._done = {key: step.data for key, step in recorded.items() if step.data is not None}
        self._begun = {key for key, step in recorded.items() if step.data is None}
        self._late = set[asyncio.Task[None]]()
        self._follows = asyncio.Event()  # set once a step follows the unrecorded responses

    def lose(self) -> Lost:
        """Records that another process has the run; no step is started afterwards."""
        error = Lost(
            f"run {self.run!r} no longer belongs to this process: its lease expired and another process has "
            "taken it over, or it was stopped. The step in progress here is not recorded."
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
            raise Interrupted(f"{key} was started by a process that died; it is not repeated.", reason=key)
        if self.sealed:
            raise RunOver(f"run {self.run!r} has ended, so {key} is no longer run.")
        # The beginning is recorded before the work: otherwise a crash would leave no sign that a payment may
        # have been made. A repeatable step needs no such record, which saves the write.
        self._follows.set()
        if not again:
            await self._written(lambda: self._store.begin(self.run, self.epoch, key))
        await self._settled()
        if again:
            await self._still_ours()
        data = await do()
        # The last response of a sub-agent, whose tokens are also in the record of its call, or its failure.
        await self._settled()
        if _is_response(key):
            self._done[key] = data
            self._record_late(key, data)
            return data
        return await self._recorded(key, data)

    async def _still_ours(self) -> None:
        """After the lease has expired, checks whether another process has the run; if not, this one keeps it.

        raises: Lost
        """
        loop, claims = asyncio.get_running_loop(), {self.run: self.epoch}
        while (now := loop.time()) > self.valid_until:
            found = await self._persistently(lambda: self._store.renew(claims, self._lease_s))
            if self.run not in found.ours:
                raise self.lose()
            self.valid_until = max(self.valid_until, now + self._lease_s)

    def _record_late(self, key: str, data: bytes) -> None:
        """Records a response in one commit with the beginnings of its calls, which follow at once.

        Until then no other step starts, and no reader gets later events: see `unrecorded`.
        """
        if not self._late:
            self._follows.clear()
        task = asyncio.create_task(self._late_record(key, data), name=f"llmstream response of {self.run}")
        self._late.add(task)
        task.add_done_callback(self._late_over)

    async def _late_record(self, key: str, data: bytes) -> None:
        timer = asyncio.get_running_loop().call_later(_FOLLOWS_S, self._follows.set)
        try:
            await self._follows.wait()
        finally:
            timer.cancel()
        await self._recorded(key, data)

    def _late_over(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.broken = self.broken or error

    async def _settled(self) -> None:
        """Records the delayed responses now; raises if nothing more can be recorded."""
        self._follows.set()
        await self.recorded()
        if self.broken is not None:
            raise self.broken

    @property
    def unrecorded(self) -> bool:
        """Whether a response is not yet recorded."""
        return bool(self._late)

    async def recorded(self) -> None:
        """Waits until all responses are recorded, or cannot be: then `broken` is set."""
        while self._late:
            await asyncio.wait(self._late)

    async def _recorded(self, key: str, data: bytes) -> bytes:
        """The data under the key after this attempt to record it."""
        if not await self._persistently(lambda: self._record(key, data)):
            # Other input was recorded first, or the run is lost.
            found = await self._look(key) if _is_given(key) else None
            if found is None:
                raise self.lose()
            return found
        self._done[key] = data
        return data

    async def _record(self, key: str, data: bytes) -> bool:
        if await self._store.done(self.run, self.epoch, key, data, _usage(key, data)):
            return True
        # An earlier attempt may have recorded it, although the reply was lost.
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
        """As in `Steps`; without a timeout it returns at once, and the run waits without a process."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (timeout_s or 0.0)
        while True:
            found = await self._look(key)
            if found is not None or loop.time() >= until:
                return found
            await asyncio.sleep(min(_POLL_S, until - loop.time()))

    async def _look(self, key: str) -> bytes | None:
        found = self._done.get(key)
        if found is None and _is_given(key):
            found = await self._persistently(lambda: self._store.look(self.run, key))
            if found is not None:
                self._done[key] = found
        return found


def _is_given(key: str) -> bool:
    """Whether others may record input under the key; only this process records other keys."""
    first, _, rest = key.partition("/")
    return first == "inbox" or rest.startswith(("decision/", "result/"))


def _is_response(key: str) -> bool:
    """Whether a response of a model is recorded under the key."""
    return _is_of_step(key, "model")


def _is_of_step(key: str, kind: str) -> bool:
    """Whether it is "3/KIND", perhaps of a sub-agent; an id of a call may be any word, too."""
    above, _, last = key.rpartition("/")
    return last == kind and above.rpartition("/")[2].isdecimal()


def _is_of_effects(key: str) -> bool:
    """Whether it is "3/effects", or "3/effects/2" if effects were applied again."""
    above, _, last = key.rpartition("/")
    return _is_of_step(above if last.isdecimal() else key, "effects")


def _usage(key: str, data: bytes) -> tuple[str, str]:
    """Model and tokens of a response, or of what context effects asked, with their cost if it is known."""
    try:
        if _is_response(key):
            head = _head.decode(data.partition(b"\n")[0])
            return usage_row([Expense(head.answered_by or head.model, head.usage, head.cost)])
        if _is_of_step(key, "history") or _is_of_effects(key):
            return usage_row(_history.decode(data).spent)
    except msgspec.MsgspecError:  # not recorded by an agent
        pass
    return "", ""
