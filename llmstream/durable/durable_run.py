"""One durable run for its reader: its events from the log, and its state so far."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from llmstream.chats.message import Message, Role
from llmstream.chats.saved import load_messages
from llmstream.durable.store import RunRecord, RunStore, State
from llmstream.durable.store_steps import persistently
from llmstream.errors import LLMStreamError, RunNotFound, error_from_info
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    FinishReason,
    RetryNotice,
    StepStart,
    TextDelta,
    Usage,
)
from llmstream.log import Logs
from llmstream.streams.reading import final_object, required_output
from llmstream.tools.approval import PendingCall

if TYPE_CHECKING:
    from llmstream.agent.agent import Agent
    from llmstream.durable.worker import OwnedRun

__all__ = ["DurableRun", "RunInfo"]

# After this time without an event, a reader checks whether the run waits.
_QUIET_S: Final = 0.1


# Interval at which a reader that may produce the run tries to take it over while no event arrives.
_CLAIM_S: Final = 0.5

# How long to wait for the log of a run before checking its record.
_BEGUN_S: Final = 1.0

# How long a reader that may not produce the run waits for the end in its record, after that of its log; its
# process may have died in between.
_RECORDED_S: Final = 5.0


class RunInfo(msgspec.Struct, frozen=True):
    """The status of a run. Times are seconds since 1970.

    state:          "running", "waiting", "done", "failed" or "stopped"
    owner:          the process that has it; "" for none
    lease_until:    when the lease expires, unless it is renewed
    pending:        the calls that wait for a decision or a result
    text:           of the answer so far; known while the run waits, and when it is over
    usage_by_model: tokens by "provider:model", over all processes; of `Runs.list`, known as `text` is
    cost_estimate:  by the agent's `price` when each response came; of `Runs.list`, known as `text` is
    error:          why it failed: code and message
    ready:          whether a waiting run has received input, so that `stream` or `resume` continues it
    """

    run: str
    agent: str
    state: State
    owner: str
    lease_until: float
    created: float
    changed: float
    ended: float | None
    pending: tuple[PendingCall, ...]
    text: str
    finish_reason: str
    usage_by_model: dict[str, Usage]
    cost_estimate: float | None
    error: tuple[str, str] | None
    ready: bool

    @classmethod
    def of(cls, record: RunRecord, usage: dict[str, Usage], cost: float | None) -> RunInfo:
        """The public part of a record.

        usage, cost: the sums of the recorded responses. A run that ended by itself knows also what a response
                     that failed has used; the outcome of one that was stopped may be from before
        """
        result = record.result
        if record.state in ("done", "failed") and result.usage_by_model:
            usage, cost = result.usage_by_model, result.cost_estimate
        return cls(
            run=record.run,
            agent=record.agent,
            state=record.state,
            owner=record.owner,
            lease_until=record.lease_until,
            created=record.created,
            changed=record.changed,
            ended=record.ended,
            pending=record.waits_for.pending if record.state == "waiting" else (),
            text=result.text,
            finish_reason=result.finish_reason,
            usage_by_model=usage,
            cost_estimate=cost,
            error=result.error,
            ready=record.state == "waiting" and record.ready,
        )

    @property
    def is_over(self) -> bool:
        """Whether no step can follow."""
        return self.state in ("done", "failed", "stopped")

    @property
    def failure(self) -> tuple[str, str] | None:
        """Code and message of a run that ended without an answer: it failed, or was stopped."""
        if self.state == "stopped":
            return self.error or ("stopped", "the run was stopped")
        return self.error

    @property
    def usage(self) -> Usage:
        """The sum of all models."""
        return sum(self.usage_by_model.values(), Usage())


class DurableRun:
    """Yields the events of a run from its log: first the stored ones, then new ones.

    Closing it does not stop the run: see `Runs.stop`. It ends when the run has ended or waits; then `pending`
    has the waiting calls, and `Runs.stream` with the same id continues.

    id:   of the run
    seq:  number of the last event that was read, for `Runs.stream(after=)`
    text: of the current step
    """

    def __init__(
        self,
        store: RunStore,
        logs: Logs,
        agent: Agent[Any, Any] | None,
        run: str,
        begin: Callable[[], Awaitable[OwnedRun | None]],
        *,
        after: int,
    ) -> None:
        self.id, self.seq = run, after
        self.finish_reason: FinishReason | None = None
        self.error: LLMStreamError | None = None
        self._store, self._logs, self._agent, self._begin = store, logs, agent, begin
        self._owned: OwnedRun | None = None
        self._record: RunRecord | None = None
        self._claims_s = 0.0
        self._texts: list[str] = []

    def __repr__(self) -> str:
        return f"DurableRun({self.id!r}, {self.state or 'not read'})"

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self._events()

    async def _events(self) -> AsyncGenerator[Event]:
        self._owned = await self._begin()
        async with aclosing(self._followed()) as events:
            async for event in events:
                self._see(event)
                yield event
        self._record = await self._recorded()
        if self.error is not None:
            raise self.error

    async def _followed(self) -> AsyncGenerator[Event]:
        """Follows the log, which does not exist before the run begins or after its events were deleted."""
        while True:
            try:
                async with aclosing(self._pages()) as events:
                    async for event in events:
                        yield event
                return
            except RunNotFound:
                if await self._waits():
                    return

    async def _pages(self) -> AsyncGenerator[Event]:
        pages = self._logs.pages(self.id, self.seq, wait_s=_BEGUN_S, silence_s=_QUIET_S)
        async with aclosing(pages):
            async for page in pages:
                for seq, event in page.events:
                    self.seq = seq
                    yield event
                if not page.frames and not page.ended and await self._waits():
                    # Events written after the page and before the run began to wait.
                    last = await self._logs.read(self.id, self.seq)
                    for seq, event in last.events if last is not None else ():
                        self.seq = seq
                        yield event
                    break
        if self._owned is not None:
            await asyncio.wait([self._owned.task])  # it will record the end

    async def _recorded(self) -> RunRecord | None:
        """The record of a run whose log has ended, or that waits; its process writes it shortly afterwards.

        If that has died before, a reader that may produce the run records the end.
        """
        loop = asyncio.get_running_loop()
        until = math.inf if self._agent is not None else loop.time() + _RECORDED_S
        while True:
            record = await self._stored()
            if record is None or record.state != "running" or loop.time() >= until:
                return record
            await self._claim()
            if self._owned is not None:
                await asyncio.wait([self._owned.task], timeout=_CLAIM_S)
            # Another process may write the end without a notification, so poll.
            await asyncio.sleep(_QUIET_S / 2)

    async def _waits(self) -> bool:
        """Whether the run waits, so that no event follows. A run without a live process is continued here."""
        if self._owned is not None and not self._owned.task.done():
            return False
        record = await self._stored()
        if record is None or record.state != "running":
            return True
        await self._claim()
        return False

    async def _claim(self) -> None:
        """Tries to take over the run, if due; the database decides whether its lease has expired."""
        now = asyncio.get_running_loop().time()
        if now >= self._claims_s:
            self._claims_s = now + _CLAIM_S
            self._owned = await persistently(self._begin, lambda: math.inf)

    async def _stored(self) -> RunRecord | None:
        """Retries like the readers of the log."""
        return await persistently(lambda: self._store.record(self.id), lambda: math.inf)

    def _see(self, event: Event) -> None:
        match event:
            case StepStart() | RetryNotice():
                # A new step or attempt: text read before it is not part of its answer.
                self._texts, self.error = [], None
            case TextDelta(delta):
                self._texts.append(delta)
            case ErrorEvent(error):
                self.error = error_from_info(error)
            case Finish(reason):
                self.finish_reason = reason
            case _:
                pass

    async def collect(self) -> Message:
        """Reads the run to its end and returns `message`.

        raises: the error of a run that failed or was stopped
        """
        async for _ in self:
            pass
        return self.message

    @property
    def state(self) -> State | None:
        """As in `RunInfo`; None before the run was read."""
        return None if self._record is None else self._record.state

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for a decision (`Runs.decide`), if the run waits."""
        record = self._record
        return record.waits_for.pending if record is not None and record.state == "waiting" else ()

    @property
    def text(self) -> str:
        """The text of the current step, or of the answer."""
        return "".join(self._texts)

    def messages(self) -> list[Message]:
        """The conversation so far, once the run was read to its end or until it waits."""
        found = "" if self._record is None else self._record.result.messages
        return load_messages(found) if found else []

    @property
    def message(self) -> Message:
        """The last message of the model."""
        found = [message for message in self.messages() if message.role == Role.ASSISTANT]
        return found[-1] if found else Message.assistant(self.text)

    @property
    def object(self) -> Any:
        """The validated answer of an agent with an `output` type.

        raises: InvalidOutput if it does not fit; InvalidRequest without an output type
        """
        output = required_output(None if self._agent is None else self._agent.output)
        return final_object(self.message, self.finish_reason or "unknown", output)

    @property
    def total_usage(self) -> Usage:
        """Tokens of all steps in all processes, as recorded when the run ended or began to wait."""
        record = self._record
        return Usage() if record is None else sum(record.result.usage_by_model.values(), Usage())

    @property
    def cost_estimate(self) -> float | None:
        """The estimated cost of the run, by the agent's `price`."""
        return None if self._record is None else self._record.result.cost_estimate
