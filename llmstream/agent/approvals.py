"""Decides whether a tool call runs: repairs it, applies `before_tool`, and gets the approval it needs."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from llmstream.agent.hooks import Hooks, Proceed, Repair, Rewrite, Skip, Stop, call_hook
from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.errors import InvalidRequest, ToolError
from llmstream.request import ToolSpec
from llmstream.tools.approval import (
    Approve,
    Approver,
    Deny,
    PendingCall,
    Run,
    Settled,
    Verdict,
    Wait,
    as_decision,
    asked,
    denied,
)
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome
from llmstream.tools.tool import ContextOf
from llmstream.tools.toolset import ToolSet, unreadable_input

__all__ = ["CallGate"]


Ask: TypeAlias = Callable[[PendingCall], Awaitable[PendingCall]]
"""Called before the approver, to report a request for approval; returns the request to use."""


class CallGate:
    """Decides about the calls of one run, by its tools, hooks, approver and repair function.

    decided: earlier decisions of a person, by the id of the call; only the hook is called again for these,
    because it may now forbid the call
    context: returns the context of a call, for predicates that take one
    """

    def __init__(
        self,
        state: RunState,
        hooks: Hooks,
        *,
        approve: Approver | None,
        repair: Repair | None,
        decided: Mapping[str, Approve | Deny] | None = None,
        context: ContextOf | None = None,
    ) -> None:
        self._state = state
        self._hooks = hooks
        self._approve = approve
        self._repair = repair
        # Used decisions are removed from `_decided`; this set remembers which calls had one.
        self._given = frozenset(decided or {})
        self._decided = dict(decided or {})
        self._context = context

    def decides(self, call: ToolCall, tools: ToolSet) -> bool:
        """Whether the verdict depends on functions or people, and not on the call alone."""
        if call.id in self._decided or self._hooks.before_tool is not None or self._repair is not None:
            return True
        found = tools.find(call.name)
        return found is not None and found.needs_approval is not False

    def was_decided(self, call: ToolCall) -> bool:
        """Whether a person's decision about the call was given."""
        return call.id in self._given

    async def judge(self, call: ToolCall, tools: ToolSet, ask: Ask) -> Verdict:
        """Decides about one call."""
        # It runs outside this process, so there is no decision to make; the run waits for its result.
        if tools.declaration(call.name) is not None:
            return await self._external(call, tools)
        decision = self._decided.pop(call.id, None)
        if decision is not None:  # repaired and rewritten before it was shown
            return await self._decided_before(call, decision, tools)
        # Repaired first: the hook and the person decide about the call that will run.
        call = await self._repaired(call, tools.error_of(call) if self._repair is not None else None)
        reply = await call_hook(self._hooks.before_tool, self._state, call)
        match reply:
            case Rewrite(arguments):
                # A vendor's signature covers the arguments that the model wrote.
                call = msgspec.structs.replace(call, arguments=_as_text(arguments), metadata=None)
            # The hook's approval replaces the person's, so the approver is not called.
            case Approve():
                return self._by_person(call, reply, tools)
            case None | Proceed():
                pass
            case _:
                return _by_hook(call, reply)
        if not await tools.approval_needed(call, self._context):
            return Run(call)
        return await self._ask_person(call, tools, ask)

    async def _external(self, call: ToolCall, tools: ToolSet) -> Verdict:
        """A call of a declared tool waits for its external result; one with unreadable input fails."""
        # The input of a vendor's tool has no schema here.
        spec = isinstance(tools.declaration(call.name), ToolSpec)
        if spec and (error := unreadable_input(call)) is not None:
            call = await self._repaired(call, error)
            error = unreadable_input(call)
            if error is not None:
                return Settled(call, ToolCallStatus.of(call, ToolOutcome.raised(error)))
        return Wait(call, PendingCall(call.id, call.name, call.arguments))

    async def _decided_before(self, call: ToolCall, decision: Approve | Deny, tools: ToolSet) -> Verdict:
        """A call that was decided while the run was suspended. The hook runs again: it may have changed."""
        if isinstance(decision, Deny):
            return Settled(call, denied(call, decision))
        call = tools.approved(call, decision)
        reply = await call_hook(self._hooks.before_tool, self._state, call)
        match reply:
            # A person approved these arguments, not those of the hook.
            case Rewrite(arguments) if not _same_json(_as_text(arguments), call.arguments):
                text = "The call was not run: a hook changed the approved arguments."
                return Settled(call, _refused(call, text))
            case None | Proceed() | Approve() | Rewrite():
                return Run(call, decision.note)
            case _:
                return _by_hook(call, reply)

    async def _ask_person(self, call: ToolCall, tools: ToolSet, ask: Ask) -> Verdict:
        # Unique among all runs: a decision about another call must not match.
        pending = PendingCall(call.id, call.name, call.arguments, f"approval_{secrets.token_hex(8)}")
        # Recorded and reported first: approvers may take days, and readers show the waiting call.
        pending = await ask(pending)
        reply = await asked(self._approve, pending)
        return Wait(call, pending) if reply is None else self._by_person(call, reply, tools)

    async def decisions(self, waiting: Iterable[PendingCall]) -> dict[str, Approve | Deny]:
        """The approver's decisions about calls of a sub-agent, by their `approval_id`."""
        found: dict[str, Approve | Deny] = {}
        for pending in waiting:
            reply = await asked(self._approve, pending) if pending.approval_id else None
            if reply is not None:
                found[pending.approval_id] = reply
        return found

    def _by_person(self, call: ToolCall, reply: Any, tools: ToolSet) -> Verdict:
        decision = as_decision(reply)
        if isinstance(decision, Deny):
            return Settled(call, denied(call, decision))
        return Run(tools.approved(call, decision), decision.note)

    async def _repaired(self, call: ToolCall, error: ToolError | None) -> ToolCall:
        """The call, repaired by the `repair` function if it cannot run; its id stays.

        error: why it cannot run; None if it can
        """
        if error is None or self._repair is None:
            return call
        repaired = await call_hook(self._repair, call, error)
        if repaired is None:
            return call
        if not isinstance(repaired, ToolCall):
            raise InvalidRequest(
                f"repair must return a ToolCall of llmstream.chats or None, got {repaired!r}"
            )
        # The result must have the model's id. Metadata is dropped, because its signature covers the old
        # arguments.
        return ToolCall(call.id, repaired.name, repaired.arguments)


def _by_hook(call: ToolCall, decision: Any) -> Settled:
    """The status of a call that `before_tool` does not allow to run.

    raises: InvalidRequest if the hook returned no decision
    """
    match decision:
        case Skip(result):
            return Settled(call, ToolCallStatus.of(call, ToolOutcome.of(result).fitted()))
        case Stop(reason):
            why = reason or "a hook stopped the run"
            unrun = ToolOutcome.failed(f"The call was not run: {why}.", unrun="cancelled")
            return Settled(call, ToolCallStatus.of(call, unrun), why)
        case Deny():
            return Settled(call, denied(call, decision))
        case _:
            raise InvalidRequest(
                "before_tool must return Rewrite, Skip, Approve, Deny, Stop, Proceed or None, "
                f"got {decision!r}"
            )


def _same_json(one: str, other: str) -> bool:
    try:
        # Compared as values: a hook may have decoded and re-encoded them.
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return one == other


def _as_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"before_tool returned arguments that JSON cannot represent: {error}") from error


def _refused(call: ToolCall, error: str) -> ToolCallStatus:
    return ToolCallStatus.of(call, ToolOutcome.failed(error))
