"""What becomes of one call before it runs: mended, rewritten, answered, approved, refused or left waiting."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from llmstream.agent.hooks import Approve, Deny, Hooks, Proceed, Repair, Rewrite, Skip, Stop, answered
from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.errors import InvalidRequest, ToolError
from llmstream.request import ToolSpec
from llmstream.tools import (
    Approver,
    ContextOf,
    PendingCall,
    Run,
    Settled,
    ToolCallStatus,
    ToolOutcome,
    ToolSet,
    Verdict,
    Wait,
)
from llmstream.tools.approval import as_decision, asked, denied
from llmstream.tools.toolset import unreadable_input

__all__ = ["CallGate", "digest_of"]


Ask: TypeAlias = Callable[[PendingCall], Awaitable[None]]
"""Told that a person is asked, before the approver is."""


class CallGate:
    """Decides about the calls of one run, by its tools, hooks, approver and repair.

    decided: a person's decisions from before, by the id of the call; nobody is asked about those again,
             but for the hook: what it forbids by now does not run
    context: gives the context of a call, for predicates that take it
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
        self._decided = dict(decided or {})
        self._context = context

    async def judge(self, call: ToolCall, tools: ToolSet, ask: Ask) -> Verdict:
        """What becomes of a call."""
        if tools.declaration(call.name) is not None:
            return await self._elsewhere(call, tools)
        decision = self._decided.pop(call.id, None)
        if decision is not None:  # mended and rewritten before it was shown
            return await self._decided_before(call, decision, tools)
        call = await self._mended(call, tools.error_of(call) if self._repair is not None else None)
        said = await answered(self._hooks.before_tool, self._state, call)
        match said:
            case Rewrite(arguments):
                call = msgspec.structs.replace(call, arguments=_as_text(arguments), metadata=None)
            case Approve():
                return self._by_person(call, said, tools)
            case None | Proceed():
                pass
            case _:
                return _by_hook(call, said)
        if not await tools.approval_needed(call, self._context):
            return Run(call)
        return await self._asked(call, tools, ask)

    async def _elsewhere(self, call: ToolCall, tools: ToolSet) -> Verdict:
        """A call of a tool that is only declared waits for its result, unless nobody could read it."""
        spec = isinstance(tools.declaration(call.name), ToolSpec)
        if spec and (error := unreadable_input(call)) is not None:
            call = await self._mended(call, error)
            error = unreadable_input(call)
            if error is not None:
                return Settled(call, ToolCallStatus.of(call, ToolOutcome.raised(error)))
        return Wait(call, PendingCall(call.id, call.name, call.arguments))

    async def _decided_before(self, call: ToolCall, decision: Approve | Deny, tools: ToolSet) -> Verdict:
        """A call that a person decided about while the run was suspended: the hook may have changed."""
        if isinstance(decision, Deny):
            return Settled(call, denied(call, decision))
        call = tools.approved(call, decision)
        said = await answered(self._hooks.before_tool, self._state, call)
        match said:
            case Rewrite(arguments) if not _same_json(_as_text(arguments), call.arguments):
                words = "The call was not run: a hook wants other arguments than those that were approved."
                return Settled(call, _refused(call, words))
            case None | Proceed() | Approve() | Rewrite():
                return Run(call, decision.note)
            case _:
                return _by_hook(call, said)

    async def _asked(self, call: ToolCall, tools: ToolSet, ask: Ask) -> Verdict:
        pending = PendingCall(call.id, call.name, call.arguments, f"approval_{secrets.token_hex(8)}")
        await ask(pending)
        said = await asked(self._approve, pending)
        return Wait(call, pending) if said is None else self._by_person(call, said, tools)

    async def asked(self, waiting: Iterable[PendingCall]) -> dict[str, Approve | Deny]:
        """What the approver decides about calls of a sub-agent, by their `approval_id`."""
        found: dict[str, Approve | Deny] = {}
        for pending in waiting:
            said = await asked(self._approve, pending) if pending.approval_id else None
            if said is not None:
                found[pending.approval_id] = said
        return found

    def _by_person(self, call: ToolCall, said: Any, tools: ToolSet) -> Verdict:
        decision = as_decision(said)
        if isinstance(decision, Deny):
            return Settled(call, denied(call, decision))
        return Run(tools.approved(call, decision), decision.note)

    async def _mended(self, call: ToolCall, error: ToolError | None) -> ToolCall:
        """The call, or what the repair hook makes of it where it cannot run. Its id stays.

        error: why it cannot; None where it can
        """
        if error is None or self._repair is None:
            return call
        mended = await answered(self._repair, call, error)
        if mended is None:
            return call
        if not isinstance(mended, ToolCall):
            raise InvalidRequest(f"repair gives a ToolCall of llmstream.chats, or None; got {mended!r}")
        return ToolCall(call.id, mended.name, mended.arguments)


def _by_hook(call: ToolCall, said: Any) -> Settled:
    """The end of a call that the hook before it does not let run.

    raises: InvalidRequest where it decided nothing
    """
    match said:
        case Skip(result):
            return Settled(call, ToolCallStatus.of(call, ToolOutcome.of(result).fitted()))
        case Stop(reason):
            why = reason or "a hook stopped the run"
            return Settled(call, _refused(call, f"The call was not run: {why}."), why)
        case Deny():
            return Settled(call, denied(call, said))
        case _:
            raise InvalidRequest(f"before_tool gave {said!r}, which is no decision about a call")


def _same_json(one: str, other: str) -> bool:
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return one == other


def _as_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"before_tool rewrote arguments to what JSON cannot hold: {error}") from error


def _refused(call: ToolCall, words: str) -> ToolCallStatus:
    return ToolCallStatus.of(call, ToolOutcome.failed(words))


# The digest that binds a person's decision to just the arguments that were shown.

_encode = msgspec.json.Encoder().encode


def digest_of(key: bytes | None, *words: str | bytes) -> str:
    """An HMAC-SHA256 over the words, or without a key a SHA-256, as hexadecimal digits.

    Only the first proves that nobody else has written them.
    """
    data = _encode([w if isinstance(w, str) else hashlib.sha256(w).hexdigest() for w in words])
    if key is None:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(key, data, hashlib.sha256).hexdigest()
