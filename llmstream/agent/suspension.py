"""A suspended run as a value: it can be saved, moved to another process, and resumed once.

`check_continuation` checks it with its decisions and results, from which a resumed run starts.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from llmstream.agent.history import open_calls
from llmstream.agent.nested import shown_ids
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.files import read_file, replace_file, taking
from llmstream.first_use import prepared
from llmstream.tools.approval import Approve, Deny, PendingCall, as_decision
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome
from llmstream.tools.toolset import ToolSet
from llmstream.usage import Usage

__all__ = [
    "Continuation",
    "Results",
    "Resumption",
    "Suspension",
    "check_continuation",
    "digest_of",
]


# The value.

# Must equal the stored version: the seal is a digest over all fields.
VERSION = 1


class SuspensionTaken(InvalidRequest, FileNotFoundError):
    """Another process took the suspension, or it never existed."""


class Suspension(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a suspended run, without the agent itself. `Agent.resume` continues it, once.

    agent:          the name of the suspended agent
    conversation:   the saved form of its messages, up to and including the waiting calls
    pending:        the waiting calls: its own, then those of sub-agents
    inner:          the suspended runs of sub-agents, by the id of the call that started them
    results:        of finished calls of the same response; these never run again
    inbox:          the saved form of messages sent to the run and not yet to the model; "" for none
    step:           the number of completed steps
    usage_by_model: tokens so far
    cost_estimate:  their estimated cost, by the agent's `price`
    signed:         whether digests are HMACs with the agent's `approval_key`
    expires_at_s:   Unix time after which it is refused; None for never
    seal:           a digest over all fields
    """

    version: int = VERSION
    id: str
    agent: str = ""
    conversation: str
    pending: tuple[PendingCall, ...]
    results: tuple[ToolResult, ...] = ()
    inner: dict[str, Suspension] = msgspec.field(default_factory=dict)
    inbox: str = ""
    step: int = 0
    usage_by_model: dict[str, Usage] = msgspec.field(default_factory=dict)
    cost_estimate: float | None = None
    signed: bool = False
    expires_at_s: float | None = None
    seal: str = ""

    @classmethod
    def sealed(
        cls,
        messages: Iterable[Message],
        pending: Iterable[PendingCall],
        results: Iterable[ToolResult],
        *,
        inner: Mapping[str, Suspension] = {},
        inbox: Sequence[Message] = (),
        agent: str,
        step: int,
        usage_by_model: dict[str, Usage],
        cost_estimate: float | None,
        key: bytes | None,
        ttl_s: float | None,
    ) -> Self:
        """Creates a suspension with its digests.

        raises: InvalidRequest if JSON cannot represent a message
        """
        # Part of every digest, so that a decision for one suspension is invalid for another.
        name = secrets.token_hex(16)
        own = tuple(pending)
        waiting = (*own, *[shown for _, _, shown in _flattened(inner, own)])
        unsealed = cls(
            id=name,
            agent=agent,
            conversation=dump_messages(messages).decode(),
            # One digest per call, so that a web page can return a decision about that call alone.
            pending=tuple([msgspec.structs.replace(p, digest=_call_digest(p, name, key)) for p in waiting]),
            results=tuple(results),
            inner=dict(inner),
            inbox=dump_messages(inbox).decode() if inbox else "",
            step=step,
            usage_by_model=dict(usage_by_model),
            cost_estimate=cost_estimate,
            signed=key is not None,
            # Unix time, because another process or machine compares it.
            expires_at_s=None if ttl_s is None else time.time() + ttl_s,
        )
        return msgspec.structs.replace(unsealed, seal=unsealed._seal(key))

    @property
    def messages(self) -> list[Message]:
        """The conversation; the waiting calls have no results yet."""
        return load_messages(self.conversation)

    @property
    def own(self) -> tuple[PendingCall, ...]:
        """The waiting calls of the run itself, without those of sub-agents.

        raises: InvalidRequest if the others differ from the pending calls of the sub-agents' runs
        """
        count = sum(len(inner.pending) for inner in self.inner.values())
        own, shown = self.pending[: len(self.pending) - count], self.pending[len(self.pending) - count :]
        within = [made for _, _, made in _flattened(self.inner, own)]
        # A person decides about the calls shown; the calls that would run are in the inner suspensions.
        if within != [msgspec.structs.replace(p, digest="") for p in shown]:
            raise InvalidRequest("the suspension was altered: the calls of its sub-agents do not match")
        return own

    @property
    def within(self) -> Iterator[tuple[str, PendingCall, PendingCall]]:
        """The waiting calls of sub-agents: the id of the parent call, the original call, and the call
        as it is shown in `pending`.

        raises: InvalidRequest as `own`
        """
        return _flattened(self.inner, self.own)

    @property
    def unseen(self) -> list[Message]:
        """Messages sent to the run and not yet to the model; the next step sends them."""
        return load_messages(self.inbox) if self.inbox else []

    def check(self, key: bytes | None, *, expires: bool = True) -> None:
        """Verifies digests, signature and, if `expires`, the expiry time.

        raises: InvalidRequest if it was altered, has expired, or was not signed with this key
        """
        # A client could otherwise send an unsigned suspension of its own making to an agent with a key.
        if self.signed != (key is not None):
            how = (
                "signed; pass the same approval_key="
                if self.signed
                else "not signed, but this agent has a key"
            )
            raise InvalidRequest(f"the suspension is {how}")
        genuine = all(_same(p.digest, _call_digest(p, self.id, key)) for p in self.pending)
        if not genuine or not _same(self.seal, self._seal(key)):
            raise InvalidRequest(
                "the suspension was altered after it was created, or signed with another key; it is refused. "
                "Decisions apply only to the arguments that were shown."
            )
        if expires and self.expires_at_s is not None and time.time() > self.expires_at_s:
            raise InvalidRequest("the suspension has expired. Run the agent again.")

    def to_json(self) -> bytes:
        """The saved form."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Decodes the output of `to_json`, in any order of fields; `Agent.resume` verifies the digests.

        raises: DecodeError if it is damaged, not a suspension, of another version, or has missing or
                unknown fields
        """
        try:
            found = msgspec.json.decode(data, type=prepared(cls))
            if found.version != VERSION:
                raise DecodeError(
                    f"the suspension has version {found.version}; this llmstream reads version {VERSION}"
                )
            # The seal covers only decoded fields, so compare here for anything that decoding ignores.
            if msgspec.json.decode(data) != msgspec.json.decode(found.to_json()):
                raise DecodeError(
                    "the suspension is incomplete or was altered after it was saved: fields are missing, "
                    "unknown or written differently. Load the file that save() wrote, or run the agent again."
                )
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise DecodeError(f"not a saved suspension: {error}") from None
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it atomically to a file that only its owner can read; see `Chat.save`."""
        replace_file(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the file that `save` wrote. The file stays, so two processes could resume it; see `take`.

        raises: OSError, DecodeError as `from_json`
        """
        return cls.from_json(read_file(path))

    @classmethod
    def take(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the file and deletes it, so that only one of several processes gets the suspension.

        A file that cannot be decoded stays.

        raises: SuspensionTaken, which is also a FileNotFoundError, if another process was first;
                OSError, also for a symbolic link, whose target would stay; DecodeError as `load`
        """
        try:
            with taking(path) as data:
                return cls.from_json(data)
        except FileNotFoundError:
            raise SuspensionTaken(
                f"there is no suspension in {os.fspath(path)}: it was already resumed, or another process "
                "is resuming it. Each can be taken only once."
            ) from None

    def _seal(self, key: bytes | None) -> str:
        return digest_of(
            key, "llmstream.suspension", msgspec.json.encode(msgspec.structs.replace(self, seal=""))
        )


def _flattened(
    inner: Mapping[str, Suspension], own: Iterable[PendingCall]
) -> Iterator[tuple[str, PendingCall, PendingCall]]:
    """The waiting calls of sub-agents: id of the parent call, original call, call as shown in the parent.

    Models choose ids, and may put a "/" into one; a name in use gets a number, so that a result belongs
    to exactly one call.

    own: the calls of the parent run, whose ids do not change
    """
    # The run's own ids first: ids of calls in the history cannot change.
    used = {pending.call_id for pending in own}
    copies: dict[str, int] = {}
    for call_id, suspension in inner.items():
        for pending in suspension.pending:
            name = wanted = f"{call_id}/{pending.call_id}"
            while name in used:
                copies[wanted] = number = copies.get(wanted, 1) + 1
                name = f"{wanted}#{number}"
            used.add(name)
            agent = pending.agent or suspension.agent
            yield (
                call_id,
                pending,
                msgspec.structs.replace(pending, call_id=name, agent=agent, digest=""),
            )


def _same(digest: str, expected: str) -> bool:
    # An altered digest may contain any characters, lone surrogates too.
    return hmac.compare_digest(digest.encode("utf-8", "surrogatepass"), expected.encode())


def _call_digest(pending: PendingCall, suspension_id: str, key: bytes | None) -> str:
    return digest_of(
        key,
        suspension_id,
        pending.agent,
        pending.approval_id,
        pending.call_id,
        pending.name,
        pending.arguments,
    )


# Digests: a decision holds only for the arguments that were shown.

_encode = msgspec.json.Encoder().encode


def digest_of(key: bytes | None, *fields: str | bytes) -> str:
    """An HMAC-SHA256 over the fields, or without a key a SHA-256, as hexadecimal digits.

    Only the HMAC proves that the fields were written by a holder of the key.
    """
    # As one JSON value: concatenated texts could be split differently with the same digest.
    data = _encode([f if isinstance(f, str) else hashlib.sha256(f).hexdigest() for f in fields])
    if key is None:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(key, data, hashlib.sha256).hexdigest()


# What a run is resumed from.

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
