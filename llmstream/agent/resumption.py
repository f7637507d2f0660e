"""Checks a suspension with its decisions and results, from which a resumed run starts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import msgspec

from llmstream.agent.history import open_calls
from llmstream.agent.nested import shown_ids
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.errors import InvalidRequest
from llmstream.tools.approval import Approve, Deny, PendingCall, as_decision
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome
from llmstream.tools.toolset import ToolSet

__all__ = ["Continuation", "Results", "Resumption", "check_continuation"]

Results: TypeAlias = Iterable[ToolResult] | Mapping[str, Any]
"""Results of external calls: ToolResults, or any values that a tool may return, by the id of the call."""

# Ids of the suspensions that this process has resumed, with the Unix time of their expiry.
_claimed: dict[str, float] = {}

# Number of new claims between removals of expired ones, which are rejected as expired anyway.
_FORGET_AFTER: Final = 1000

_next_look = _FORGET_AFTER


@dataclass(frozen=True, slots=True)
class Continuation:
    """The arguments of `Agent.resume` for the suspended run of a sub-agent.

    decisions: by `approval_id`
    results:   of external calls
    """

    suspension: Suspension
    decisions: Mapping[str, Approve | Deny]
    results: tuple[ToolResult, ...] = ()


@runtime_checkable
class Continues(Protocol):
    """The function of a tool that runs a sub-agent, so that its call can be suspended."""

    def check_continuation(self, continuation: Continuation) -> None:
        """Checks that the run of the sub-agent can continue.

        raises: InvalidRequest
        """


def check_continuation(call: ToolCall, tools: ToolSet, continuation: Continuation) -> None:
    """Checks that the sub-agent of a call can continue.

    raises: InvalidRequest if it is not a tool of the agent now, or its run was altered, has expired or
            was resumed before
    """
    found = tools.find(call.name)
    if found is None or not isinstance(found.function, Continues):
        raise InvalidRequest(f"the sub-agent {call.name!r}, whose call waits, is not a tool of this agent")
    found.function.check_continuation(continuation)


@dataclass(frozen=True, slots=True)
class Resumption:
    """The plan for each waiting call.

    decided:         decisions, by the id of the call
    answered:        external results
    undecided:       calls that continue to wait, by id
    continued:       runs of sub-agents that continue, by the id of their call
    undecided_inner: runs of sub-agents that continue to wait, by the id of their call
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
        again: bool = False,
        in_time: bool = False,
    ) -> Resumption:
        """Checks everything before any call runs.

        again:   whether it may have been resumed before, by a run that is recorded; then it may have expired
        in_time: whether the decisions are known to be from before it expired
        raises:  InvalidRequest if the suspension was altered, belongs to another agent, or was resumed
                 before, or if a decision or result belongs to no waiting call
        """
        if suspension.agent != agent:
            raise InvalidRequest(
                f"the suspension belongs to agent {suspension.agent!r}, this agent is {agent!r}"
            )
        # It has expired, but the run that continued with it is recorded and may be repeated.
        suspension.check(key, expires=not (again or in_time))
        if not again:
            _check_unclaimed(suspension)
        _check_history(suspension)
        _check_unique(suspension)
        approvals = {p.approval_id for p in suspension.pending if p.approval_id}
        unknown = [i for i in decisions if i not in approvals]
        if unknown:
            waiting = ", ".join(f"{p.approval_id!r} ({p.name})" for p in suspension.pending if p.approval_id)
            raise InvalidRequest(
                f"no call waits for the approval {unknown[0]!r}. The keys of decisions are the `approval_id` "
                f"of pending calls: {waiting or 'none'}."
            )
        by_approval = {i: as_decision(decision) for i, decision in decisions.items()}
        external = {p.call_id: p for p in suspension.pending if not p.approval_id}
        own_ids = {shown: call_id for call_id, shown in shown_ids(suspension).items()}
        given = {own_ids.get(r.tool_call_id, r.tool_call_id): r for r in _given(results)}
        stray = [i for i in given if i not in external]
        if stray:
            raise InvalidRequest(f"no call {stray[0]!r} waits for a result")
        own = {p.call_id: p for p in suspension.own}
        decided = {i: by_approval[p.approval_id] for i, p in own.items() if p.approval_id in by_approval}
        answered = tuple([_status(given[i], p) for i, p in own.items() if i in given])
        continued = _continued(suspension, by_approval, given)
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
        """The decided calls, exactly as they were shown."""
        return [p.call for p in self.suspension.own if p.call_id in self.decided]

    @property
    def continued_calls(self) -> list[tuple[ToolCall, Continuation]]:
        """The calls whose sub-agents continue now, as they ran."""
        calls = _open_calls(self.suspension)
        return [(calls[i], continuation) for i, continuation in self.continued.items()]

    @property
    def undecided_inner_calls(self) -> list[tuple[ToolCall, Suspension]]:
        """The calls whose sub-agents continue to wait, as they ran."""
        calls = _open_calls(self.suspension)
        return [(calls[i], inner) for i, inner in self.undecided_inner.items()]

    def check_edits(self, tools: ToolSet) -> None:
        """Checks arguments that a person edited against the tools, before any call runs.

        raises: InvalidRequest
        """
        for call in self.decided_calls:
            decision = self.decided[call.id]
            # A call of a removed tool gets an error result, as any call of an unknown tool.
            if isinstance(decision, Approve) and tools.find(call.name) is not None:
                tools.approved(call, decision)

    def claim(self) -> None:
        """Marks the suspension as resumed, in this process.

        raises: InvalidRequest if another run was first
        """
        # Checked again: two runs may have been created from it before one was read.
        _check_unclaimed(self.suspension)
        expires = self.suspension.expires_at_s
        _claimed[self.suspension.id] = math.inf if expires is None else expires
        _forget_expired()


def _given(results: Results) -> list[ToolResult]:
    """The results as ToolResults.

    raises: InvalidRequest for anything else
    """
    if isinstance(results, Mapping):
        made = {call_id: ToolOutcome.of(value).fitted() for call_id, value in results.items()}
        return [ToolResult(i, one.content, one.error is not None, parts=one.parts) for i, one in made.items()]
    found = list(results) if isinstance(results, Iterable) else [results]
    wrong = [result for result in found if not isinstance(result, ToolResult)]
    if wrong:
        raise InvalidRequest(
            f"results must be ToolResults of llmstream.chats, or values by `call_id`; got {wrong[0]!r}"
        )
    return found


def _continued(
    suspension: Suspension, by_approval: Mapping[str, Approve | Deny], given: Mapping[str, ToolResult]
) -> dict[str, Continuation]:
    """The runs of sub-agents that have a decision or result for one of their calls."""
    results: dict[str, list[ToolResult]] = {}
    for call_id, pending, shown in suspension.within:
        if shown.call_id in given:
            # In the sub-agent the call has its own id.
            result = msgspec.structs.replace(given[shown.call_id], tool_call_id=pending.call_id)
            results.setdefault(call_id, []).append(result)
    found: dict[str, Continuation] = {}
    for call_id, inner in suspension.inner.items():
        decisions = {
            p.approval_id: by_approval[p.approval_id] for p in inner.pending if p.approval_id in by_approval
        }
        # Without either, the sub-agent would only wait again.
        if decisions or call_id in results:
            found[call_id] = Continuation(inner, decisions, tuple(results.get(call_id, ())))
    return found


def _forget_expired() -> None:
    global _next_look  # belongs to `_claimed`, which is per process
    if len(_claimed) >= _next_look:
        now = time.time()
        for name in [name for name, expires in _claimed.items() if expires < now]:
            del _claimed[name]
        # Doubled, so that the amortised cost of scanning all of them is small.
        _next_look = 2 * len(_claimed) + _FORGET_AFTER


def _open_calls(suspension: Suspension) -> dict[str, ToolCall]:
    return {call.id: call for _, calls in open_calls(suspension.messages) for call in calls}


def _check_unclaimed(suspension: Suspension) -> None:
    if suspension.id in _claimed:
        raise InvalidRequest("the suspension was already resumed; its calls must not run twice")


def _check_history(suspension: Suspension) -> None:
    """Checks that the waiting calls are in the history, with the same names and arguments."""
    found = _open_calls(suspension)
    for pending in suspension.own:
        call = found.get(pending.call_id)
        # The history has the calls that would run; a person decides about the calls shown.
        if call is None or (call.name, call.arguments) != (pending.name, pending.arguments):
            raise InvalidRequest(f"the waiting call {pending.call_id!r} differs from the one in the history")
    stray = [i for i in suspension.inner if i not in found]
    if stray:
        raise InvalidRequest(f"the call {stray[0]!r}, whose sub-agent waits, is not in the history")


def _check_unique(suspension: Suspension) -> None:
    """Checks that ids are unique, so that each result belongs to one call."""
    seen: set[str] = set()
    for pending in suspension.pending:
        if pending.call_id in seen:
            raise InvalidRequest(f"two waiting calls have the id {pending.call_id!r}. Run the agent again.")
        seen.add(pending.call_id)


def _status(result: ToolResult, pending: PendingCall) -> ToolCallStatus:
    named = ToolResult(
        pending.call_id,
        result.content,
        result.is_error,
        result.name or pending.name,
        result.parts,
        metadata=result.metadata,
    )
    return ToolCallStatus(pending.name, result.content if result.is_error else None, pending.call_id, named)
