"""`Runs`: durable runs of agents in one database, from any process."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, get_args

import msgspec

from llmstream.addresses import is_postgres, shown, sqlite_path
from llmstream.agent.durable_steps import result_key
from llmstream.agent.recorder import checked_result, decision_to
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages
from llmstream.durable.durable_run import DurableRun, RunInfo
from llmstream.durable.store import RunRecord, RunStore, State, expiries, pending_calls
from llmstream.durable.worker import OwnedRun, Request, Worker, nothing
from llmstream.errors import InvalidRequest, LLMStreamError, LogUnavailable, RunExists, RunNotFound
from llmstream.log import Logs, open_logs
from llmstream.log.logs import check_id
from llmstream.streams.options import Prompt, as_messages
from llmstream.tools.approval import Approve, Deny

if TYPE_CHECKING:
    from llmstream.agent.agent import Agent

__all__ = ["Runs"]

_log: Final = logging.getLogger("llmstream.durable")

# Interval at which `resume` looks for runs whose process is dead or that have received input.
_POLL_S: Final = 0.5

# Rare enough to cost nothing; runs due for deletion ended days ago.
_SWEEP_S: Final = 3600.0

# How long a run may be due before `resume` warns that its agent is missing, and how often it looks. A worker
# that has the agent takes a run within a second, unless all such workers are at their limit.
_OVERDUE_S: Final = 60.0


class Runs:
    """Durable runs in one database. One object per process, used by one event loop.

    where:   "sqlite:PATH"; "postgresql://..." (extra `postgres`); or a `RunStore` of your own, with `logs`
    logs:    where events go, such as `open_logs("redis://...")`; by default the same database. `Runs` closes
             only logs that it has opened
    lease_s: how long a process may be silent before another one may take over its runs
    keep_s:  how long a run is stored after its end; 30 days by default
    owner:   name of this process; default: "HOST:PID"
    raises:  InvalidRequest for an address or option that is invalid. The database is opened at first use
    """

    def __init__(
        self,
        where: str | RunStore,
        *,
        logs: Logs | None = None,
        lease_s: float = 10.0,
        keep_s: float = 30 * 86_400.0,
        owner: str | None = None,
    ) -> None:
        if not lease_s > 0 or not keep_s > 0:
            raise InvalidRequest(f"lease_s and keep_s must be positive, got {lease_s!r} and {keep_s!r}")
        self._store = where if isinstance(where, RunStore) else _store(where)
        if logs is None and not isinstance(where, str):
            raise InvalidRequest("a store of your own needs logs=, such as open_logs('sqlite:events.db')")
        self._own_logs = logs is None
        self.logs = logs or open_logs(str(where), lease_s=lease_s, keep_s=keep_s)
        self._keep_s = keep_s
        self.lease_s = lease_s
        owner = owner or f"{socket.gethostname()}:{os.getpid()}"
        self._worker = Worker(self._store, self.logs, owner=owner, lease_s=lease_s, keep_s=keep_s)
        self._opening: asyncio.Future[None] | None = None
        # The first sweep is due at once, so that short-lived processes also delete.
        self._swept_s = -_SWEEP_S
        self._looked_s = -_OVERDUE_S
        self._names = set[str]()  # of all agents that this process resumes
        self._missing = set[str]()  # names of agents in warnings
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def stream(
        self,
        agent: Agent[Any, Any],
        run: str,
        prompt: Prompt | None = None,
        *,
        deps: Any = None,
        after: int = -1,
        **options: Any,
    ) -> DurableRun:
        """Starts a run, or continues the one with this id; nothing happens until it is read.

        The run is produced in this process, whether it is read to its end or not, unless another living
        process has it; its events are the same in each.

        agent:   needs a name, by which `resume` finds it after a crash
        run:     id of the run: unique, up to 512 characters
        prompt:  as for `Agent.stream`; that of a run which exists is not changed
        deps:    as for `Agent.stream`; not stored, so a process that resumes the run uses the agent's
        after:   number of the last event that was seen; -1 for all
        options: of `Agent.stream` that JSON can express, such as `max_steps` or `settings`; they are stored
        raises:  InvalidRequest; when it is read, also RunNotFound for an id without a run and no prompt
        """
        if not agent.name:
            raise InvalidRequest("an agent of durable runs needs a name: Agent(model, name='clerk')")
        _check_id(run)
        request = None if prompt is None else _request(prompt, options)

        async def begin() -> OwnedRun | None:
            await self._open()
            return await self._begin(agent, run, request, deps)

        return DurableRun(self._store, self.logs, agent, run, begin, after=after)

    async def run(
        self,
        agent: Agent[Any, Any],
        run: str,
        prompt: Prompt | None = None,
        *,
        deps: Any = None,
        **options: Any,
    ) -> RunInfo:
        """Starts or continues a run as `stream` does, and reads it until it has ended or waits.

        For engines and task queues, which call it again after a crash.

        returns: the status of the run, also of a failed one; see `RunInfo.failure`
        raises:  as `stream`, except the error of a failed run
        """
        failure: LLMStreamError | None = None
        try:
            async for _ in self.stream(agent, run, prompt, deps=deps, **options):
                pass
        except LLMStreamError as error:
            failure = error
        info = await self.status(run)
        # The error of an ended run is its result; any other error is a reason to retry.
        if failure is not None and (info is None or not info.is_over or info.agent != agent.name):
            raise failure
        assert info is not None, "a run that was read has a record"
        return info

    def follow(self, run: str, *, after: int = -1) -> DurableRun:
        """Reads a run produced elsewhere; like `stream`, but this process never produces it.

        It ends when the run has ended or waits. `Runs.logs.follow` continues while a run waits.
        """

        async def begin() -> None:
            await self._open()
            await self._settle(await self._known(run))

        return DurableRun(self._store, self.logs, None, run, begin, after=after)

    async def submit(self, agent: Agent[Any, Any] | str, run: str, prompt: Prompt, **options: Any) -> None:
        """Submits a run for the workers that call `resume`; an existing one with this id stays unchanged.

        agent:   the agent, or only its name
        options: as for `stream`
        raises:  InvalidRequest
        """
        name = agent if isinstance(agent, str) else agent.name
        if not name:
            raise InvalidRequest("an agent of durable runs needs a name: Agent(model, name='clerk')")
        _check_id(run)
        request = _request(prompt, options)
        await self._open()
        record = await self._store.create(run, name, request)
        if record.agent != name:
            raise InvalidRequest(f"run {run!r} belongs to agent {record.agent!r}, not to {name!r}")

    async def _begin(
        self, agent: Agent[Any, Any], run: str, request: str | None, deps: Any
    ) -> OwnedRun | None:
        record = await self._store.record(run)
        if record is None:
            if request is None:
                raise RunNotFound(f"there is no durable run {run!r}. Pass a prompt to start it.")
            record = await self._store.create(run, agent.name, request)
        if record.agent != agent.name:
            raise InvalidRequest(f"run {run!r} belongs to agent {record.agent!r}, not to {agent.name!r}")
        if record.is_over:
            await self._settle(record)
            return None
        return await self._worker.take(run, agent, deps)

    async def _settle(self, record: RunRecord) -> None:
        """Ends the log of a stopped run if the stopping process died before doing so: readers wait for it."""
        if record.state == "stopped":
            status = await self.logs.status(record.run)
            if status is None or status.state == "open":
                await self._close_log(record.run)

    async def resume(
        self, agents: Mapping[str, Agent[Any, Any]], *, once: bool = False, limit: int = 100
    ) -> int:
        """Continues runs whose process is dead, and waiting ones that have received input.

        Call it in each worker. It runs until it is cancelled, or with `once` until the runs that are due now
        have ended or wait; it polls every half second.

        agents: by the name that their runs have; runs of other names are left to other workers, with a
                warning for those that no worker takes for a minute
        limit:  how many runs this process has at once
        returns: how many runs it has taken over
        raises:  InvalidRequest without an agent
        """
        if not isinstance(agents, Mapping) or not agents:
            raise InvalidRequest(
                f'resume() takes agents by their names, as {{"clerk": clerk}}; got {agents!r}'
            )
        for name, agent in agents.items():
            if name != agent.name:  # on purpose only after an agent was renamed
                _log.warning(
                    "runs of %r are resumed with the agent %r, which has another name", name, agent.name
                )
        self._names |= agents.keys()
        await self._open()
        taken, mine = 0, set[asyncio.Task[None]]()
        while True:
            room = limit - len(self._worker.owned)
            found = await self._due(list(agents), room)
            for record in found:
                if (owned := await self._taken(record, agents)) is not None:
                    taken += 1
                    mine.add(owned.task)
            mine = {task for task in mine if not task.done()}
            if once and not found and not mine:
                return taken
            if once and mine:
                await asyncio.wait(mine, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
            elif not found:
                await asyncio.sleep(_POLL_S * random.uniform(0.5, 1.0))  # noqa: S311  # workers take turns

    async def _taken(self, record: RunRecord, agents: Mapping[str, Agent[Any, Any]]) -> OwnedRun | None:
        try:
            return await self._worker.take(record.run, agents[record.agent])
        except LogUnavailable as error:
            _log.warning("durable run %r cannot be taken: %s", record.run, error)
            return None

    async def _due(self, agents: list[str], room: int) -> list[RunRecord]:
        if room <= 0:
            return []
        try:
            # Our own runs may be due as well if their lease is late; they are skipped below and must not use
            # up the limit.
            found = await self._store.due(agents, room + len(self._worker.owned))
            await self._sweep()
            await self._report_unclaimed()
        except LogUnavailable as error:
            _log.warning("durable runs: cannot look for runs to resume: %s", error)
            return []
        return [record for record in found if record.run not in self._worker.owned][:room]

    async def _sweep(self) -> None:
        """Deletes runs that ended long ago, once an hour."""
        now = time.monotonic()
        if now >= self._swept_s + _SWEEP_S:
            self._swept_s = now
            await self._store.delete_ended(time.time() - self._keep_s)

    async def _report_unclaimed(self) -> None:
        """Warns of runs that nobody takes, once for each name: it may be misspelt, here or in the agent."""
        now = time.monotonic()
        if now < self._looked_s + _OVERDUE_S:
            return
        self._looked_s = now
        for name, count in (await self._store.unclaimed(sorted(self._names), _OVERDUE_S)).items():
            if name not in self._missing:
                self._missing.add(name)
                _log.warning(
                    "durable runs of the agent %r have been due for over a minute, %d by now, and no process "
                    "takes them; this one resumes %s. Correct the name, or start a worker with this agent",
                    name,
                    count,
                    ", ".join(map(repr, sorted(self._names))),
                )

    async def decide(
        self,
        run: str,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Mapping[str, Any] = {},
    ) -> None:
        """Decides about waiting calls, and supplies external results; from any process, also if none runs.

        decisions: by `approval_id`; True and False for `Approve()` and `Deny()`
        results:   of external calls, by the `call_id` of the pending call
        raises:    InvalidRequest for a call that does not wait, was decided before, or has waited longer
                   than the agent's `approval_ttl_s`, and nothing is recorded; RunNotFound
        """
        await self._open()
        record = await self._known(run)
        # All names are checked before anything is recorded: a wrong one leaves the run unchanged.
        recorded = await self._store.steps(run)
        steps, until = pending_calls(record, recorded), expiries(recorded)
        given: dict[str, Any] = {f"decision/{name}": decision_to(value) for name, value in decisions.items()}
        given |= {result_key(call): checked_result(value, call) for call, value in results.items()}
        unknown = [key for key in given if key not in steps]
        if unknown:
            waiting = ", ".join(steps) or "nothing"
            raise InvalidRequest(f"run {run!r} does not wait for {unknown[0]!r}; it waits for {waiting}")
        late = [key for key in given if until.get(key, math.inf) < time.time()]
        if late:
            raise InvalidRequest(
                f"run {run!r} has waited for {late[0]!r} longer than its agent's approval_ttl_s, and no "
                "longer accepts it. Stop the run, and start another one with its messages()."
            )
        for key, value in given.items():
            if not await self._store.give(run, f"{steps[key]}/{key}", msgspec.json.encode(value)):
                raise InvalidRequest(f"run {run!r} has ended, or {key!r} was answered before")

    async def send(self, run: str, message: str | Message) -> None:
        """Sends a user message to a run, before its next step; from any process.

        A run that was about to end has a next step for it. If a limit or a failure ends the run first, the
        message is the last one of its history.

        raises: InvalidRequest if it has ended, or no longer accepts messages; RunNotFound
        """
        if not isinstance(message, str | Message):
            raise InvalidRequest(f"send() takes a str or a Message, got {message!r}")
        await self._open()
        await self._known(run)
        sent = Message.user(message) if isinstance(message, str) else message
        if not await self._store.send(run, dump_messages([sent])):
            raise InvalidRequest(
                f"run {run!r} has ended or is ending. Start a new run with its messages(), followed by "
                "this message."
            )

    async def stop(self, run: str) -> bool:
        """Stops a run, in whatever process it is; returns False if it has already ended.

        raises: RunNotFound
        """
        await self._open()
        before = await self._known(run)
        if before.is_over:
            await self._settle(before)
            return False
        record = await self._store.request_stop(run)
        if record is not None and record.state == "stopped":
            await self._close_log(run)
        else:
            await self.logs.stop(run)
        return True

    async def _close_log(self, run: str) -> None:
        """Ends the log of a run without a process."""
        try:
            # Only a producer can end a log, which informs its readers of the stop; this one adds no events.
            live = await self.logs.start(run, nothing(), take_over="replay")
        except RunExists:
            return
        live.stop("requested")
        await live.wait()

    async def status(self, run: str) -> RunInfo | None:
        """Where a run is, with tokens and cost of all processes that had it; None if there is no such run."""
        _check_id(run)
        await self._open()
        record = await self._store.record(run)
        if record is None:
            return None
        return await self._summed(record)

    async def _summed(self, record: RunRecord) -> RunInfo:
        return RunInfo.of(record, await self._store.usage(record.run), await self._store.cost(record.run))

    async def list(
        self, *, state: State | None = None, agent: str | None = None, limit: int = 100
    ) -> list[RunInfo]:
        """Runs, the last changed first.

        raises: InvalidRequest for a state that runs do not have
        """
        if state is not None and state not in get_args(State):
            raise InvalidRequest(f"a run has no state {state!r}; states are {', '.join(get_args(State))}")
        await self._open()
        found = await self._store.records(state, None if agent is None else [agent], limit)
        return [
            # A run that was stopped after its process had died has no outcome, or an earlier one.
            await self._summed(record)
            if record.state == "stopped"
            else RunInfo.of(record, record.result.usage_by_model, record.result.cost_estimate)
            for record in found
        ]

    async def delete(self, run: str) -> None:
        """Deletes a run, its steps and its events at once. Stop an open one first."""
        _check_id(run)
        await self._open()
        # The events first: a process that dies in between must not leave the end of this run to the next one
        # of its id. And once more, for a worker that went on with an open run meanwhile.
        await self.logs.delete(run)
        await self._store.delete(run)
        await self.logs.delete(run)

    async def _known(self, run: str) -> RunRecord:
        _check_id(run)
        record = await self._store.record(run)
        if record is None:
            raise RunNotFound(f"there is no durable run {run!r}")
        return record

    async def aclose(self) -> None:
        """Releases the runs of this process to others, and closes the database. Idempotent.

        Tools that run are cancelled, and count as interrupted.
        """
        opening, self._opening, self._closed = self._opening, None, True
        if opening is None:
            return
        await self._worker.aclose()
        if self._own_logs:
            await self.logs.aclose()
        await self._store.aclose()

    async def _open(self) -> None:
        if self._closed:
            raise LogUnavailable("these durable runs are closed", retryable=False)
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._store.open())
        opening = self._opening
        if opening.get_loop() is not asyncio.get_running_loop():
            raise InvalidRequest(
                "these durable runs were opened in another event loop. Create Runs() in each, such as in "
                "each asyncio.run()."
            )
        try:
            # Several callers may wait for one opening; cancelling the first must not cancel it for the
            # others.
            await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None  # so that the next attempt may succeed
            raise


def _check_id(run: str) -> None:
    check_id(run)
    # PostgreSQL has no text with it.
    if "\0" in run:
        raise InvalidRequest(f"the id of a durable run must not contain NUL, got {run!r:.80}")


def _request(prompt: Prompt, options: Mapping[str, Any]) -> str:
    """Prompt and options as JSON.

    raises: InvalidRequest for an option that JSON cannot express
    """
    try:
        portable = msgspec.json.decode(msgspec.json.encode(dict(options)))
        if any(callable(value) for value in options.values()):
            raise TypeError("a function")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"the options of a durable run are stored, and {list(options)} cannot be: {error}. Give them to "
            "the agent instead."
        ) from None
    messages = dump_messages(as_messages(prompt)).decode()
    return msgspec.json.encode(Request(messages, portable)).decode()


def _store(where: str) -> RunStore:
    if path := sqlite_path(where):
        from llmstream.durable.sqlite import SQLiteRunStore

        return SQLiteRunStore(path)
    if is_postgres(where):
        from llmstream.durable.postgres import PostgresRunStore

        return PostgresRunStore(where)
    raise InvalidRequest(
        f"cannot store durable runs at {shown(where)!r}. Write 'sqlite:runs.db' or "
        "'sqlite:/var/lib/app/runs.db' (no slashes before the path), or 'postgresql://host/database'."
    )
