"""The store of durable runs: a record of each run, and its steps under their keys.

A record is claimed by one process at a time. Each claim increments the epoch; each write carries the epoch of
its claim and is refused if the record has a newer one. So a process that was only suspended can do no harm.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from llmstream.agent.durable_steps import result_key
from llmstream.agent.suspension import Suspension
from llmstream.first_use import prepared
from llmstream.tools.approval import PendingCall
from llmstream.usage import Usage

__all__ = [
    "Outcome",
    "RecordedStep",
    "Renewal",
    "RunRecord",
    "RunStore",
    "State",
    "Waiting",
    "expiries",
    "pending_calls",
]

# "3/suspension", "3/suspension/2", and those of sub-agents, which stand below a call.
_SUSPENSION: Final = re.compile(r"((?:.*/)?\d+/suspension)(?:/\d+)?", re.DOTALL)

State: TypeAlias = Literal["running", "waiting", "done", "failed", "stopped"]
"""running: a process has it, or had it when it died; waiting: for a decision, a result, a message;
done, failed, stopped: over."""


class Waiting(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls that a run waits for.

    step:    the number of the suspended step
    pending: its calls
    """

    step: int = 0
    pending: tuple[PendingCall, ...] = ()


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a run, or its state so far while it waits.

    messages:      saved form of the conversation
    finish_reason: of the last step
    text:          of the answer
    usage_by_model: tokens by "provider:model", over all processes
    cost_estimate: by the agent's `price`
    error:         why it failed: code and message
    """

    messages: str = ""
    finish_reason: str = ""
    text: str = ""
    usage_by_model: dict[str, Usage] = msgspec.field(default_factory=dict)
    cost_estimate: float | None = None
    error: tuple[str, str] | None = None


class RunRecord(msgspec.Struct, frozen=True):
    """The record of a run. Times are seconds since 1970.

    agent:       name of its agent, by which `Runs.resume` finds it
    owner:       the process that has it; "" for none
    epoch:       rises with each claim; that of a deleted run is not used again for another one of its id
    lease_until: until when the owner has it, unless it renews the lease; by a clock of the store's own
    ready:       whether something was given since it was claimed last
    stopping:    whether a stop was requested
    request:     prompt and options, as JSON
    waiting:     `Waiting` as JSON; "" for none
    outcome:     `Outcome` as JSON; "" for none
    """

    run: str
    agent: str
    state: State
    owner: str
    epoch: int
    lease_until: float
    created: float
    changed: float
    ended: float | None
    ready: bool
    stopping: bool
    request: str
    waiting: str
    outcome: str

    @property
    def waits_for(self) -> Waiting:
        """The waiting calls."""
        return msgspec.json.decode(self.waiting, type=prepared(Waiting)) if self.waiting else Waiting()

    @property
    def result(self) -> Outcome:
        """The outcome, or the state so far."""
        return msgspec.json.decode(self.outcome, type=prepared(Outcome)) if self.outcome else Outcome()

    @property
    def is_over(self) -> bool:
        """Whether no step can follow."""
        return self.state in ("done", "failed", "stopped")


class RecordedStep(NamedTuple):
    """A step in the store: its epoch and its recorded data; None while it has only begun."""

    epoch: int
    data: bytes | None


class Renewal(NamedTuple):
    """The renewed leases: runs with a requested stop, and the others."""

    ours: frozenset[str]
    stopping: frozenset[str]


_pending = msgspec.json.Decoder(PendingCall).decode


def _input_key(call: PendingCall) -> str:
    """The last part of the key of the input for which a call waits."""
    return f"decision/{call.approval_id}" if call.approval_id else result_key(call.call_id)


def pending_calls(record: RunRecord, steps: Mapping[str, RecordedStep]) -> dict[str, int]:
    """The steps in which calls wait, by the last part of the key of the input: "decision/<approval>".

    A call may wait while others of its step still run, and the run is not suspended yet.
    """
    waiting = record.waits_for
    found = {_input_key(call): waiting.step for call in waiting.pending}
    for key, step in steps.items():
        if "/approval/" in key and step.data is not None:
            # Keys of a sub-agent are below the run's own step, which waits for it.
            number = int(key.partition("/")[0])
            found.setdefault(_input_key(_pending(step.data)), number)
    return found


def expiries(steps: Mapping[str, RecordedStep]) -> dict[str, float]:
    """When waiting calls expire, in Unix time, by the last part of the key of the input."""
    found: dict[str, dict[str, float]] = {}
    for key, step in steps.items():
        if step.data is None or (name := _SUSPENSION.fullmatch(key)) is None:
            continue
        suspension = Suspension.from_json(step.data)
        until = math.inf if suspension.expires_at_s is None else suspension.expires_at_s
        for call in suspension.pending:
            # A run that waits again for the same call waits anew.
            times = found.setdefault(_input_key(call), {})
            times[name[1]] = max(times.get(name[1], 0.0), until)
    # A call of a sub-agent is in the suspensions of both.
    return {given: min(times.values()) for given, times in found.items()}


class RunStore(ABC):
    """A database of runs. One object per process, used by one event loop.

    raises: LogUnavailable from every method, if the database cannot be reached or does not accept a write
    """

    @abstractmethod
    async def open(self) -> None:
        """Connects, and creates the tables."""

    @abstractmethod
    async def aclose(self) -> None:
        """Disconnects. Idempotent."""

    @abstractmethod
    async def create(self, run: str, agent: str, request: str) -> RunRecord:
        """Creates the record of a run, without an owner; returns an existing one instead."""

    @abstractmethod
    async def claim(self, run: str, owner: str, lease_s: float) -> RunRecord | None:
        """Claims a run that has not ended and that no live process has; otherwise returns None."""

    @abstractmethod
    async def renew(self, claims: Mapping[str, int], lease_s: float) -> Renewal:
        """Renews leases.

        claims: epochs by run
        """

    @abstractmethod
    async def steps(self, run: str) -> dict[str, RecordedStep]:
        """All steps of a run and all its input, by key."""

    @abstractmethod
    async def look(self, run: str, key: str) -> bytes | None:
        """The data recorded or given under a key."""

    @abstractmethod
    async def begin(self, run: str, epoch: int, key: str) -> bool:
        """Records that a step has begun that must not be done again; False if the run was lost."""

    @abstractmethod
    async def done(self, run: str, epoch: int, key: str, data: bytes, usage: tuple[str, str]) -> bool:
        """Records a step; False if the run was lost.

        usage: of a response, "provider:model" and tokens as JSON, with a `cost` if it is known, and with
               `others` by model if there are several; else two empty texts
        """

    @abstractmethod
    async def give(self, run: str, key: str, data: bytes) -> bool:
        """Records input to a run; False if it has ended, or the key is in use."""

    @abstractmethod
    async def send(self, run: str, data: bytes) -> bool:
        """Records a message under the next key "inbox/N"; False if the run has ended.

        Also if it is about to end and has recorded b"" under such a key.
        """

    @abstractmethod
    async def leave(self, run: str, epoch: int, state: State, waiting: str, outcome: str) -> bool:
        """Releases a run: it waits, has ended, or is "running" and another process may claim it.

        returns: False if the run was lost
        """

    @abstractmethod
    async def request_stop(self, run: str) -> RunRecord | None:
        """Marks a run as stopping; one without a live process is stopped at once."""

    @abstractmethod
    async def record(self, run: str) -> RunRecord | None:
        """The record of a run."""

    @abstractmethod
    async def records(
        self, state: State | None, agents: Sequence[str] | None, limit: int
    ) -> Sequence[RunRecord]:
        """Records, the last changed first."""

    @abstractmethod
    async def due(self, agents: Sequence[str], limit: int) -> Sequence[RunRecord]:
        """Runs of these agents that may be claimed: the owner is dead, or there is new input."""

    async def unclaimed(self, agents: Sequence[str], overdue_s: float) -> Mapping[str, int]:
        """How many runs of any other agents have been due for longer, by the agent's name.

        Only for a warning; a store that does not override it reports none.
        """
        return {}

    @abstractmethod
    async def usage(self, run: str) -> dict[str, Usage]:
        """Tokens by "provider:model", the sum of the recorded responses of all processes."""

    @abstractmethod
    async def cost(self, run: str) -> float | None:
        """The sum of the costs that were recorded with responses; None if none was known."""

    @abstractmethod
    async def delete_ended(self, before: float) -> int:
        """Deletes runs that ended before a time; returns how many."""

    @abstractmethod
    async def delete(self, run: str) -> None:
        """Deletes a run and its steps, whatever its state."""
