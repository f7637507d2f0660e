"""The runs that this process has claimed: each is produced into its log, and its lease is renewed.

The log of a waiting run, or of one whose process shuts down, stays open for the next producer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from llmstream.chats.message import Role
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.durable.store import Outcome, RunRecord, RunStore, State, Waiting
from llmstream.durable.store_steps import StoreSteps, persistently
from llmstream.errors import ErrorInfo, LLMStreamError, LogError, RunExists
from llmstream.events import ErrorEvent, Event, Finish
from llmstream.first_use import prepared
from llmstream.log import Live, Logs

if TYPE_CHECKING:
    from llmstream.agent.agent import Agent
    from llmstream.agent.run import AgentRun

__all__ = ["OwnedRun", "Request", "Worker", "nothing"]

_log: Final = logging.getLogger("llmstream.durable")

# Renewals within the length of a lease: two may fail.
_RENEWALS: Final = 3


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request of a run: saved messages, and options of `Agent.stream` that JSON can express."""

    messages: str
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class OwnedRun:
    """A run that this process has claimed, until it ends, waits, or is lost.

    record: as it was claimed
    task:   produces it; it never fails unseen
    run:    the agent's run; None before it begins
    error:  why it ended, if that is not an error of the run itself
    """

    def __init__(
        self,
        record: RunRecord,
        agent: Agent[Any, Any],
        deps: Any,
        *,
        store: RunStore,
        logs: Logs,
        keep_s: float,
        lease_s: float,
        until: float,
    ) -> None:
        self.record = record
        self.run: AgentRun[Any] | None = None
        self.error: BaseException | None = None
        self._agent, self._deps = agent, deps
        self._store, self._logs, self._keep_s, self._lease_s = store, logs, keep_s, lease_s
        self._steps: StoreSteps | None = None
        self._live: Live | None = None
        self._began = self._released = False
        self._until = until
        self.task = asyncio.create_task(self._produce(), name=f"llmstream durable run {record.run}")

    def renewed(self, until: float) -> None:
        """Records a renewed lease, valid until a loop time."""
        self._until = until
        if self._steps is not None:
            self._steps.valid_until = until

    def lose(self) -> None:
        """Leaves the run at once: another process has it."""
        if self._steps is not None:
            self._steps.lose()
        self.release()

    def release(self) -> None:
        """Leaves the run to another process."""
        self._released = True
        if self._live is not None:
            self._live.release()
        else:
            self.task.cancel()

    def stop(self) -> None:
        """Stops the run on request."""
        if self._live is not None:
            self._live.stop("requested")

    async def _produce(self) -> None:
        record, ended = self.record, None
        try:
            recorded = await self._store.steps(record.run)
            steps = StoreSteps(self._store, record.run, record.epoch, recorded, lease_s=self._lease_s)
            self._steps = steps
            steps.valid_until = self._until
            source = nothing() if record.stopping else self._source(self._begun(steps))
            try:
                self._live = await self._logs.start(
                    record.run, source, take_over="replay", takeover_s=self._keep_s
                )
            except RunExists as error:
                if error.reason == "open":
                    raise
                # Its process died between the end of the log and that of the record.
                await source.aclose()
                ended = await self._read_end(steps)
            else:
                if record.stopping:  # requested of a process that died before it could
                    self._live.stop("requested")
                state = await self._live.wait()
                self.error = self._live.error
                if not self._began and not self._released:
                    # As when its process had written the finish, and not yet that it was the end.
                    ended = await self._read_end(steps)
                elif state == "stopped":
                    ended = _End("stopped")
        except LogError as error:
            _log.warning("durable run %r is left: %s", record.run, error)
            self.error, self._released = error, True
        except asyncio.CancelledError:
            if not self._released:
                raise
        except Exception as error:  # such as an option that the agent no longer takes
            _log.exception("durable run %r cannot continue", record.run)
            self.error = error
        await self._leave(ended)

    async def _read_end(self, steps: StoreSteps) -> _End:
        """How the log of the run has ended; the conversation is what the record has of it.

        Whatever the run would do now, readers have seen its end: no step follows it. A stop condition may
        decide otherwise by now, and a model that failed might respond.
        """
        steps.sealed = True
        end = await _end_of(self._logs, self.record.run)
        await _exhausted(self._source(self._begun(steps)))
        return end

    def _begun(self, steps: StoreSteps) -> AgentRun[Any]:
        request = msgspec.json.decode(self.record.request, type=prepared(Request))
        messages = load_messages(request.messages)
        self.run = self._agent.stream(messages, deps=self._deps, steps=steps, **request.options)
        return self.run

    async def _source(self, run: AgentRun[Any]) -> AsyncGenerator[Event]:
        """The events of the run; of one that others go on with not the end."""
        steps, self._began = self._steps, True
        assert steps is not None
        async with run, aclosing(aiter(run)) as events, aclosing(_recorded(events, steps)) as shown:
            async for event in shown:
                waits = isinstance(event, Finish) and run.suspended is not None
                # What is wrong with us is no error of the run.
                broken = steps.broken is not None
                if waits or broken:
                    self._released = self._released or broken
                    if self._live is not None:
                        self._live.release()
                    return
                yield event

    async def _leave(self, ended: _End | None) -> None:
        """Gives the record back.

        ended: its status at the end of the log, where the run of this process does not know it
        """
        steps, run, record = self._steps, self.run, self.record
        if steps is not None and not self._released:
            await steps.recorded()  # nothing is recorded of a run that is over
        if steps is not None and steps.broken is not None:
            return  # not ours any more; or the lease will pass
        state: State = "done" if ended is None else ended.state
        waiting = ""
        if self._released:
            state, waiting = "running", record.waiting
        elif ended is None and (run is None or run.error is not None or self.error is not None):
            state = "failed"
        elif ended is None and run is not None and run.suspended is not None:
            state = "waiting"
            found = Waiting(run.state.step, run.suspended.pending)
            waiting = msgspec.json.encode(found).decode()
        outcome = record.outcome if self._released else _outcome(run, self.error, ended)
        store = self._store

        def until() -> float:
            return 0.0 if self._released else self._until  # others wait for a run that is released

        try:
            await persistently(lambda: store.leave(record.run, record.epoch, state, waiting, outcome), until)
        except LogError as error:
            _log.warning("durable run %r: its end is not recorded: %s", record.run, error)


async def _recorded(events: AsyncGenerator[Event], steps: StoreSteps) -> AsyncGenerator[Event]:
    """The events of a run, each once the responses before it are recorded.

    The run continues meanwhile: it reaches the calls of the response, whose beginnings share its commit.
    """
    ahead: asyncio.Task[Event | None] | None = None
    try:
        while (event := await (_next(events) if ahead is None else ahead)) is not None:
            ahead = None
            if steps.unrecorded:
                ahead = asyncio.create_task(_next(events))
                await steps.recorded()
            yield event
    finally:
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)


async def _next(events: AsyncGenerator[Event]) -> Event | None:
    return await anext(events, None)


class _End(NamedTuple):
    """How a run has ended, by its log.

    reason: of the last step; "" if the run of this process has it
    error:  of a run that failed
    """

    state: State
    reason: str = ""
    error: ErrorInfo | None = None


_STATES: Final[dict[str, State]] = {"closed": "done", "failed": "failed", "stopped": "stopped"}


async def _end_of(logs: Logs, run: str) -> _End:
    """Reads the final status of the run from a log that is complete."""
    reason, error, state = "", None, ""
    async with aclosing(logs.pages(run)) as pages:
        async for page in pages:
            state = page.status.state
            for _, event in page.events:
                match event:
                    case Finish(finish_reason):
                        reason = finish_reason
                    case ErrorEvent(found):
                        error = found
                    case _:
                        pass
    return _End(_STATES[state], reason, error if state == "failed" else None)


async def nothing() -> AsyncGenerator[Event]:
    """A source that never gives anything; it is stopped."""
    await asyncio.Event().wait()
    yield  # type: ignore[misc]  # makes it a generator; never reached


async def _exhausted(source: AsyncGenerator[Event]) -> None:
    """Reads a source to its end, for the sake of what it records."""
    async with aclosing(source):
        try:
            async for _ in source:
                pass
        except LLMStreamError:
            pass  # the run has it


def _outcome(run: AgentRun[Any] | None, error: BaseException | None, ended: _End | None) -> str:
    failure = error if run is None else run.error or error
    reported: tuple[str, str] | None = None
    if ended is not None:
        reported = None if ended.error is None else (ended.error.code, ended.error.message)
    elif isinstance(failure, LLMStreamError):
        reported = (failure.code, failure.message)
    elif failure is not None:
        reported = ("error", f"the program that produced the run failed with {type(failure).__name__}")
    if run is None:
        return msgspec.json.encode(Outcome(error=reported)).decode()
    messages = run.messages()
    last = next((m for m in reversed(messages) if m.role == Role.ASSISTANT), None)
    found = Outcome(
        messages=dump_messages(messages).decode(),
        finish_reason=(ended and ended.reason) or run.finish_reason or "",
        text="" if last is None else last.text,
        usage_by_model=dict(run.usage_by_model),
        cost_estimate=run.cost_estimate,
        error=reported,
    )
    return msgspec.json.encode(found).decode()


class Worker:
    """The claimed runs of this process, with one task that renews all leases."""

    def __init__(self, store: RunStore, logs: Logs, *, owner: str, lease_s: float, keep_s: float) -> None:
        self.owned: dict[str, OwnedRun] = {}
        self._store, self._logs = store, logs
        self._owner, self._lease_s, self._keep_s = owner, lease_s, keep_s
        self._renewed_s = 0.0
        self._renewing: asyncio.Task[None] | None = None

    async def take(self, run: str, agent: Agent[Any, Any], deps: Any = None) -> OwnedRun | None:
        """Claims a run and begins to produce it; the one that is produced here already.

        returns: None if it is over, or a living process has it
        """
        found = self.owned.get(run)
        if found is not None and not found.task.done():
            return found
        # Before the claim: the store counts from its own moment, which is later, so that we stop in time.
        until = asyncio.get_running_loop().time() + self._lease_s
        record = await self._store.claim(run, self._owner, self._lease_s)
        if record is None:
            return self.owned.get(run)
        owned = OwnedRun(
            record,
            agent,
            deps,
            store=self._store,
            logs=self._logs,
            keep_s=self._keep_s,
            lease_s=self._lease_s,
            until=until,
        )
        self.owned[run] = owned
        owned.task.add_done_callback(lambda _: self._over(run, owned))
        if self._renewing is None:
            self._renewed_s = asyncio.get_running_loop().time()
            self._renewing = asyncio.create_task(self._renew(), name="llmstream durable leases")
        return owned

    def _over(self, run: str, owned: OwnedRun) -> None:
        if self.owned.get(run) is owned:
            del self.owned[run]
        if not owned.task.cancelled() and owned.task.exception() is not None:
            _log.error("durable run %r: its end failed", run, exc_info=owned.task.exception())

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._lease_s / _RENEWALS)
            owned, until = dict(self.owned), loop.time() + self._lease_s
            if not owned:
                self._renewed_s = loop.time()
                continue
            try:
                found = await self._store.renew(
                    {run: each.record.epoch for run, each in owned.items()}, self._lease_s
                )
            except LogError as error:
                _log.warning("durable runs: leases cannot be renewed: %s", error)
                # By now another process may have the runs, and we cannot ask: writing on could do a step
                # twice.
                if loop.time() > self._renewed_s + self._lease_s:
                    for each in owned.values():
                        each.lose()
                continue
            self._renewed_s = loop.time()
            for run, each in owned.items():
                if run in found.ours:
                    each.renewed(until)
                if run in found.stopping:
                    each.stop()
                elif run not in found.ours and not each.task.done():
                    each.lose()

    async def aclose(self) -> None:
        """Leaves all runs to other processes, and waits for their cleanup."""
        owned = list(self.owned.values())
        for each in owned:
            each.release()
        if owned:
            await asyncio.wait([each.task for each in owned])
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
