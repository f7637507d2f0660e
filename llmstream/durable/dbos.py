"""Durable runs as workflows of DBOS (extra `dbos`): DBOS restarts them, llmstream stores their steps.

    clerk = workflow(agent, runs)                             # before DBOS.launch()
    handle = await DBOS.start_workflow_async(clerk, "order-4711", "Ship it.")

The complete run is one step of DBOS. Its own steps stay under their keys in the database of `Runs`, so their
order does not matter and tools run at most once. DBOS stores the id, the prompt and the answer, as text.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from llmstream.addresses import sqlite_path
from llmstream.durable.runs import Runs
from llmstream.errors import InvalidRequest, LLMStreamError, LogUnavailable, Unsupported
from llmstream.files import connect_sqlite
from llmstream.first_use import prepared

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy import Engine

    from llmstream.agent.agent import Agent

__all__ = ["engine", "reap", "workflow"]

_log: Final = logging.getLogger("llmstream.durable")

_MISSING: Final = "durable runs on DBOS need the extra `dbos`: pip install 'llmstream-sdk[dbos]'"

# Prefix of the workflows' names.
_PREFIX: Final = "llmstream."

# Number of checks by the reaper within the time after which an executor counts as dead.
_LOOKS: Final = 5

# Polling interval of a workflow for input to a waiting run, or for an unreachable database.
_POLL_S: Final = 0.5

# As DBOS's own connections do.
_BUSY_S: Final = 30.0

_SYNCHRONOUS: Final = {"normal": "pragma synchronous = normal", "full": "pragma synchronous = full"}

# SQLite has unixepoch('subsec') since then (sqlite.org/lang_datefunc.html).
_HAS_SUBSEC: Final = (3, 42, 0)


class _Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a run, which DBOS stores for its one step."""

    text: str = ""
    error: tuple[str, str] | None = None


def workflow(
    agent: Agent[Any, Any], runs: Runs, *, max_recovery_attempts: int | None = 100
) -> Callable[[str, str], Coroutine[Any, Any, str]]:
    """The DBOS workflow `clerk(run_id, prompt)`, which returns the text of the answer.

    Create it before `DBOS.launch()`, and launch in the event loop that uses `runs`. While the run waits for a
    decision the workflow waits too, in this process or the one that recovers it, and continues after
    `Runs.decide`. Cancelling the workflow stops the run.

    agent:   needs a name; that of the workflow is "llmstream.NAME"
    max_recovery_attempts: how often DBOS starts a workflow again; None for ever
    raises:  InvalidRequest for an agent without a name; Unsupported without the extra. The workflow raises
             `dbos.PortableWorkflowError` for a run that failed or was stopped; its `name` is the error's code
    """
    try:
        from dbos import DBOS, PortableWorkflowError, WorkflowSerializationFormat, error
    except ImportError:
        raise Unsupported(_MISSING) from None
    if not agent.name:
        raise InvalidRequest("an agent of durable runs needs a name: Agent(model, name='clerk')")

    async def clerk(run_id: str, prompt: str) -> str:
        # One step: DBOS replays steps in their order, and those of an agent run concurrently.
        run = functools.partial(_produced, agent, runs, run_id, prompt)
        try:
            # Preemptible: cancelled together with the workflow, also by its timeout.
            data = await DBOS.run_step_async({"name": "llmstream.run", "preemptible": True}, run)
        except error.DBOSWorkflowCancelledError:
            await _stopped(runs, run_id)
            raise
        ended = msgspec.json.decode(data, type=prepared(_Ended))
        if ended.error is not None:
            code, message = ended.error
            raise PortableWorkflowError(message, code)
        return ended.text

    made: Callable[[str, str], Coroutine[Any, Any, str]] = DBOS.workflow(
        name=f"{_PREFIX}{agent.name}",
        max_recovery_attempts=max_recovery_attempts,
        serialization_type=WorkflowSerializationFormat.PORTABLE,  # JSON; by default DBOS pickles
    )(clerk)
    return made


async def _produced(agent: Agent[Any, Any], runs: Runs, run_id: str, prompt: str) -> str:
    """Produces a run, or follows the process that does, until it is over; returns `_Ended` as JSON."""
    while True:
        try:
            info = await runs.run(agent, run_id, prompt)
            if info.is_over:
                return _text(_Ended(info.text, info.failure))
            await _given(runs, run_id)
        except LogUnavailable as error:
            # An unreachable database, or a `Runs` that was closed first, does not end the workflow: it stays
            # pending.
            _log.warning("durable run %r on DBOS waits: %s", run_id, error)
            await asyncio.sleep(_POLL_S)
        except LLMStreamError as error:  # such as an id used by another agent
            return _text(_Ended(error=(error.code, error.message)))


async def _given(runs: Runs, run_id: str) -> None:
    """Waits while a run waits and has no new input."""
    while True:
        info = await runs.status(run_id)
        if info is None or info.state != "waiting" or info.ready:
            return
        await asyncio.sleep(_POLL_S)


def _text(ended: _Ended) -> str:
    return msgspec.json.encode(ended).decode()


async def _stopped(runs: Runs, run_id: str) -> None:
    try:
        await runs.stop(run_id)
    except LLMStreamError as error:
        _log.warning("durable run %r of a cancelled DBOS workflow is not stopped: %s", run_id, error)


async def reap(runs: Runs, *, after_s: float | None = None) -> None:
    """Restarts workflows of dead executors on live ones, until it is cancelled.

    DBOS itself recovers only the workflows of an executor id that starts again. Let one process run this, or
    several: starting a workflow that already runs is harmless, because it only follows its run.

    runs:    those of the workflows
    after_s: how long a run may be silent before its executor counts as dead: longer than the lease of the
             runs; by default twice as long
    raises:  InvalidRequest; Unsupported without the extra
    """
    try:
        from dbos import DBOS
    except ImportError:
        raise Unsupported(_MISSING) from None
    after_s = 2 * runs.lease_s if after_s is None else after_s
    if after_s <= runs.lease_s:
        raise InvalidRequest(f"after_s must be longer than the lease of {runs.lease_s} s, got {after_s!r}")
    seen: dict[str, _Sign] = {}
    while True:
        try:
            found = await DBOS.list_workflows_async(status="PENDING", load_output=False)
            open_ones = [each for each in found if each.name.startswith(_PREFIX)]
            signs = {each.workflow_id: await _sign(runs, each, seen) for each in open_ones}
            seen = {name: sign for name, sign in signs.items() if sign is not None}
            for each in open_ones:
                sign = seen.get(each.workflow_id)
                if sign is not None and sign.looks > _LOOKS:
                    del seen[each.workflow_id]
                    # In its own queue, so that the queue's limits hold.
                    await DBOS.resume_workflows_async([each.workflow_id], queue_name=each.queue_name)
        except Exception as error:  # from DBOS or its database: the next attempt may succeed
            _log.warning("workflows of dead executors cannot be started again: %r", error)
        await asyncio.sleep(after_s / _LOOKS)


class _Sign(NamedTuple):
    """The last observed state of a run, and how many checks in a row have seen it.

    Counts checks instead of time: a suspended process has checked nothing.
    """

    shown: tuple[Any, ...]
    looks: int


async def _sign(runs: Runs, workflow: Any, seen: dict[str, _Sign]) -> _Sign | None:
    """The state of a run that a live executor would change soon; None for a run that waits for input.

    Leases are only compared with their earlier values, so that no two clocks are compared.
    """
    given = workflow.input
    run_id = given["args"][0] if given["args"] else given["kwargs"]["run_id"]
    info = await runs.status(run_id)
    if info is not None and info.state == "waiting" and not info.ready:
        return None
    shown = () if info is None else (info.state, info.lease_until, info.changed)
    before = seen.get(workflow.workflow_id)
    return _Sign(shown, before.looks + 1 if before is not None and before.shown == shown else 0)


def engine(where: str, *, synchronous: Literal["normal", "full"] = "full") -> Engine:
    """The SQLAlchemy engine of an SQLite file, for `system_database_engine` in the configuration of DBOS.

    DBOS's own one has no WAL mode, and fails under Python 3.12 with an SQLite older than 3.42. The file is
    created if missing, readable by its owner only.

    where:       "sqlite:PATH"; for PostgreSQL give DBOS `system_database_url`
    synchronous: "normal" is faster; a power failure may then take the last writes
    raises:      InvalidRequest; Unsupported without the extra
    """
    if not (path := sqlite_path(where)):
        raise InvalidRequest(
            "engine() takes an SQLite file: 'sqlite:dbos.db', without slashes before the path"
        )
    if synchronous not in _SYNCHRONOUS:
        raise InvalidRequest(f'synchronous is "normal" or "full", got {synchronous!r}')
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import QueuePool
    except ImportError:
        raise Unsupported(_MISSING) from None
    # Without the pool all threads would share one connection, as for an address without a path.
    return create_engine("sqlite://", creator=lambda: _connected(path, synchronous), poolclass=QueuePool)


def _connected(path: str, synchronous: str) -> sqlite3.Connection:
    import sqlite3  # not available in every Python

    connection = connect_sqlite(path, busy_s=_BUSY_S)
    connection.isolation_level = "IMMEDIATE"  # as DBOS's own: writers take turns
    connection.execute("pragma foreign_keys = on")
    connection.execute(_SYNCHRONOUS[synchronous])
    if sqlite3.sqlite_version_info < _HAS_SUBSEC:
        # It gives NULL for 'subsec', which DBOS uses from Python 3.12 on.
        connection.create_function("unixepoch", 1, _unixepoch)
    return connection


def _unixepoch(modifier: str) -> float:
    if modifier != "subsec":
        raise ValueError(modifier)
    return time.time()
