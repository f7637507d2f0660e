"""A suspension and what was decided about it, checked: what a resumed run starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmstream.agent.approval import PendingCall
from llmstream.agent.decisions import Approve, Deny
from llmstream.agent.history import open_calls
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.errors import InvalidRequest
from llmstream.tools import ToolCallStatus

__all__ = ["Resumption"]

_claimed: set[str] = set()
"""Ids of the suspensions that this process has resumed."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What to do with the calls that waited.

    decided:   by the id of the call
    answered:  results from elsewhere
    undecided: calls that go on waiting, by id
    """

    suspension: Suspension
    decided: dict[str, Approve | Deny]
    answered: tuple[ToolCallStatus, ...]
    undecided: dict[str, PendingCall]

    @classmethod
    def of(
        cls,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool],
        results: Iterable[ToolResult],
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
        by_approval = {p.approval_id: p for p in suspension.pending if p.approval_id}
        unknown = [i for i in decisions if i not in by_approval]
        if unknown:
            raise InvalidRequest(f"no call waits for the approval {unknown[0]!r}")
        decided = {by_approval[i].call_id: _decision(said) for i, said in decisions.items()}
        elsewhere = {p.call_id: p for p in suspension.pending if not p.approval_id}
        given = {r.tool_call_id: r for r in results}
        stray = [i for i in given if i not in elsewhere]
        if stray:
            raise InvalidRequest(f"no call {stray[0]!r} waits for a result")
        answered = tuple([_status(result, elsewhere[i]) for i, result in given.items()])
        settled = decided.keys() | given.keys()
        undecided = {p.call_id: p for p in suspension.pending if p.call_id not in settled}
        return cls(suspension, decided, answered, undecided)

    @property
    def decided_calls(self) -> list[ToolCall]:
        """The calls that were decided about, just as they were shown."""
        return [p.call for p in self.suspension.pending if p.call_id in self.decided]

    def claim(self) -> None:
        """Uses the suspension up, in this process.

        raises: InvalidRequest where another run was faster
        """
        _check_unclaimed(self.suspension)
        _claimed.add(self.suspension.id)


def _check_unclaimed(suspension: Suspension) -> None:
    if suspension.id in _claimed:
        raise InvalidRequest("the suspension was resumed before; its calls must not run twice")


def _check_history(suspension: Suspension) -> None:
    """The calls that wait stand in the history, and say there what they say here."""
    found = {call.id: call for _, calls in open_calls(suspension.messages) for call in calls}
    for pending in suspension.pending:
        call = found.get(pending.call_id)
        if call is None or (call.name, call.arguments) != (pending.name, pending.arguments):
            raise InvalidRequest(f"the call {pending.call_id!r} that waits is not the one in the history")


def _decision(said: Approve | Deny | bool) -> Approve | Deny:
    if isinstance(said, bool):
        return Approve() if said else Deny()
    if isinstance(said, Approve | Deny):
        return said
    raise InvalidRequest(f"{said!r} decides nothing about a call; give Approve() or Deny(reason)")


def _status(result: ToolResult, pending: PendingCall) -> ToolCallStatus:
    named = ToolResult(
        result.tool_call_id, result.content, result.is_error, result.name or pending.name, result.parts
    )
    return ToolCallStatus(pending.name, result.content if result.is_error else None, pending.call_id, named)
