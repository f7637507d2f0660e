"""A suspension and what was decided about it, checked: what a resumed run starts from."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import msgspec

from llmstream.agent.decisions import Approve, Deny
from llmstream.agent.history import open_calls
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.errors import InvalidRequest
from llmstream.tools import PendingCall, ToolCallStatus, ToolOutcome, ToolSet
from llmstream.tools.approval import as_decision

__all__ = ["Continuation", "Results", "Resumption", "check_continuation"]

Results: TypeAlias = Iterable[ToolResult] | Mapping[str, Any]
"""Of calls that ran elsewhere: as they are, or by the id of the call any value that a tool may return."""

_claimed: dict[str, float] = {}
"""Ids of the suspensions that this process has resumed, with the Unix time when they expire."""

_FORGET_AFTER: Final = 1000
"""So many more claims, and those that have expired are forgotten: they are refused for that."""

_next_look = _FORGET_AFTER


@dataclass(frozen=True, slots=True)
class Continuation:
    """How the run of a sub-agent goes on: what `Agent.resume` takes.

    decisions: by `approval_id`
    results:   of calls that ran elsewhere
    """

    suspension: Suspension
    decisions: Mapping[str, Approve | Deny]
    results: tuple[ToolResult, ...] = ()


@runtime_checkable
class Continues(Protocol):
    """The function of a tool whose call a run can be suspended in: it asks a sub-agent."""

    def check_continuation(self, continuation: Continuation) -> None:
        """Makes sure that the run of the sub-agent can go on.

        raises: InvalidRequest
        """


def check_continuation(call: ToolCall, tools: ToolSet, continuation: Continuation) -> None:
    """Makes sure that the sub-agent which a call asked can go on.

    raises: InvalidRequest where it is no tool any more, or its run is not genuine, has expired or was
            resumed before
    """
    found = tools.find(call.name)
    if found is None or not isinstance(found.function, Continues):
        raise InvalidRequest(f"the agent {call.name!r} whose call waits is no tool of this agent")
    found.function.check_continuation(continuation)


@dataclass(frozen=True, slots=True)
class Resumption:
    """What to do with the calls that waited.

    decided:         by the id of the call
    answered:        results from elsewhere
    undecided:       calls that go on waiting, by id
    continued:       runs of sub-agents that go on, by the id of the call that asked
    undecided_inner: those that go on waiting
    """

    suspension: Suspension
    decided: dict[str, Approve | Deny]
    answered: tuple[ToolCallStatus, ...]
    undecided: dict[str, PendingCall]
    continued: dict[str, Continuation]
    undecided_inner: dict[str, Suspension]

    @classmethod
    def of(
        cls,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool],
        results: Results,
        *,
        agent: str,
        key: bytes | None,
    ) -> Resumption:
        """Checks all of it before anything runs.

        raises: InvalidRequest where the suspension is not genuine, not this agent's, or was resumed
                before, and where a decision or result belongs to no call that waits
        """
        if suspension.agent != agent:
            raise InvalidRequest(f"the suspension is of agent {suspension.agent!r}, this one is {agent!r}")
        suspension.check(key)
        _check_unclaimed(suspension)
        _check_history(suspension)
        _check_unique(suspension)
        approvals = {p.approval_id for p in suspension.pending if p.approval_id}
        unknown = [i for i in decisions if i not in approvals]
        if unknown:
            waiting = ", ".join(f"{p.approval_id!r} ({p.name})" for p in suspension.pending if p.approval_id)
            raise InvalidRequest(
                f"no call waits for the approval {unknown[0]!r}. Decisions are by the `approval_id` of "
                f"pending calls: {waiting or 'none'}."
            )
        said = {i: as_decision(decision) for i, decision in decisions.items()}
        elsewhere = {p.call_id: p for p in suspension.pending if not p.approval_id}
        given = {r.tool_call_id: r for r in _given(results)}
        stray = [i for i in given if i not in elsewhere]
        if stray:
            raise InvalidRequest(f"no call {stray[0]!r} waits for a result")
        own = {p.call_id: p for p in suspension.own}
        decided = {i: said[p.approval_id] for i, p in own.items() if p.approval_id in said}
        answered = tuple([_status(given[i], p) for i, p in own.items() if i in given])
        continued = _continued(suspension, said, given)
        return cls(
            suspension,
            decided,
            answered,
            {i: p for i, p in own.items() if i not in decided and i not in given},
            continued,
            {i: inner for i, inner in suspension.inner.items() if i not in continued},
        )

    @property
    def decided_calls(self) -> list[ToolCall]:
        """The calls that were decided about, just as they were shown."""
        return [p.call for p in self.suspension.own if p.call_id in self.decided]

    @property
    def continued_calls(self) -> list[tuple[ToolCall, Continuation]]:
        """The calls that asked sub-agents which go on now, as they ran."""
        calls = _open_calls(self.suspension)
        return [(calls[i], continuation) for i, continuation in self.continued.items()]

    def check_edits(self, tools: ToolSet) -> None:
        """Makes sure that arguments which a person changed fit the tools, before anything runs.

        raises: InvalidRequest
        """
        for call in self.decided_calls:
            decision = self.decided[call.id]
            if isinstance(decision, Approve) and tools.find(call.name) is not None:
                tools.approved(call, decision)

    def claim(self) -> None:
        """Uses the suspension up, in this process.

        raises: InvalidRequest where another run was faster
        """
        _check_unclaimed(self.suspension)
        expires = self.suspension.expires_at_s
        _claimed[self.suspension.id] = math.inf if expires is None else expires
        _forget_expired()


def _given(results: Results) -> list[ToolResult]:
    """The results, also where they are values by the id of their call.

    raises: InvalidRequest for what is no result
    """
    if isinstance(results, Mapping):
        made = {call_id: ToolOutcome.of(value).fitted() for call_id, value in results.items()}
        return [ToolResult(i, one.content, one.error is not None, parts=one.parts) for i, one in made.items()]
    found = list(results) if isinstance(results, Iterable) else [results]
    wrong = [result for result in found if not isinstance(result, ToolResult)]
    if wrong:
        raise InvalidRequest(
            f"results are ToolResults of llmstream.chats, or values by `call_id`; got {wrong[0]!r}"
        )
    return found


def _continued(
    suspension: Suspension, said: Mapping[str, Approve | Deny], given: Mapping[str, ToolResult]
) -> dict[str, Continuation]:
    """The runs of sub-agents about whose calls something was decided."""
    results: dict[str, list[ToolResult]] = {}
    for call_id, pending, shown in suspension.within:
        if shown.call_id in given:
            result = msgspec.structs.replace(given[shown.call_id], tool_call_id=pending.call_id)
            results.setdefault(call_id, []).append(result)
    found: dict[str, Continuation] = {}
    for call_id, inner in suspension.inner.items():
        decisions = {p.approval_id: said[p.approval_id] for p in inner.pending if p.approval_id in said}
        if decisions or call_id in results:
            found[call_id] = Continuation(inner, decisions, tuple(results.get(call_id, ())))
    return found


def _forget_expired() -> None:
    global _next_look  # the set is the process's, so is its size
    if len(_claimed) >= _next_look:
        now = time.time()
        for name in [name for name, expires in _claimed.items() if expires < now]:
            del _claimed[name]
        _next_look = 2 * len(_claimed) + _FORGET_AFTER


def _open_calls(suspension: Suspension) -> dict[str, ToolCall]:
    return {call.id: call for _, calls in open_calls(suspension.messages) for call in calls}


def _check_unclaimed(suspension: Suspension) -> None:
    if suspension.id in _claimed:
        raise InvalidRequest("the suspension was resumed before; its calls must not run twice")


def _check_history(suspension: Suspension) -> None:
    """The calls that wait stand in the history, and say there what they say here."""
    found = _open_calls(suspension)
    for pending in suspension.own:
        call = found.get(pending.call_id)
        if call is None or (call.name, call.arguments) != (pending.name, pending.arguments):
            raise InvalidRequest(f"the call {pending.call_id!r} that waits is not the one in the history")
    stray = [i for i in suspension.inner if i not in found]
    if stray:
        raise InvalidRequest(f"the call {stray[0]!r}, whose agent waits, is not in the history")


def _check_unique(suspension: Suspension) -> None:
    """A result names one call."""
    seen: set[str] = set()
    for pending in suspension.pending:
        if pending.call_id in seen:
            raise InvalidRequest(f"two calls that wait have the id {pending.call_id!r}. Run the agent again.")
        seen.add(pending.call_id)


def _status(result: ToolResult, pending: PendingCall) -> ToolCallStatus:
    named = ToolResult(
        result.tool_call_id, result.content, result.is_error, result.name or pending.name, result.parts
    )
    return ToolCallStatus(pending.name, result.content if result.is_error else None, pending.call_id, named)
