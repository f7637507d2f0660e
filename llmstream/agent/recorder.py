"""What a run records of its steps, and how it is read: calls, verdicts, decisions of hooks, messages.

`Recorder` connects the loop to the port `Steps`. It defines the keys and the format of their data: JSON,
readable by later versions, never pickle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from llmstream.agent.durable_steps import Do, RunOver, Steps, SubAgentSteps, no_nul, result_key
from llmstream.agent.hooks import Again, Proceed, Rewrite, Skip, Stop
from llmstream.agent.recorded_model import Digests, PriceOf, RecordedModel
from llmstream.agent.state import Expense
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolCall, ToolResult, outcome_of
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import DecodeError, InvalidRequest, InvalidToolInput, UnknownTool
from llmstream.first_use import prepared
from llmstream.streams.call import CallingModel
from llmstream.tools.approval import Approve, Deny, PendingCall, Run, Settled, Verdict, Wait, as_decision
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome

__all__ = ["INTERRUPTED", "EndedCall", "RecordedHistory", "Recorder", "ResumeInput", "WhenInterrupted"]

WhenInterrupted: TypeAlias = Literal["report", "ask", "again"]
"""The handling of a call that a crash interrupted and whose tool is not idempotent: the model reads that it
may have had effects; a person decides whether it runs again; or it runs again."""

INTERRUPTED: Final = (
    "The process ended while the call ran. It may have had effects; find out before it is called again."
)
"""The result of an interrupted call; the model reads it."""

_INTERRUPTED_ID: Final = "interrupted_"

_NOT_AGAIN: Final = "its process ended while it ran, so it may have had effects, and it is not run again"

T = TypeVar("T")
Spent: TypeAlias = tuple[Expense, ...]


class EndedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """The recorded end of a call.

    status:    with the result for the model
    is_json:   whether the result is a JSON value
    stop:      whether the tool ended the run
    miss:      why the call was invalid: the code of an error
    spent:     the usage of each response of a sub-agent
    waits:     the suspended run of a sub-agent, instead of a status
    """

    status: ToolCallStatus = ToolCallStatus("")
    is_json: bool = False
    stop: bool = False
    miss: str = ""
    spent: Spent = ()
    waits: Suspension | None = None

    @classmethod
    def of(cls, status: ToolCallStatus, spent: Spent = (), waits: Suspension | None = None) -> EndedCall:
        """Encodes a status for the record."""
        missed = status.exception
        miss = missed.code if isinstance(missed, UnknownTool | InvalidToolInput) else ""
        is_json = status.output is not status.result.content
        return cls(status, is_json, status.stop, miss, spent, waits)

    def restored(self) -> ToolCallStatus:
        """Decodes the status; data of the process, such as its `value`, is lost."""
        result, error = self.status.result, self.status.error
        kind = next((k for k in (UnknownTool, InvalidToolInput) if k.code == self.miss), None)
        outcome = ToolOutcome(
            result.content,
            result.parts,
            error,
            None if kind is None else kind(error or ""),
            output=msgspec.json.decode(result.content) if self.is_json else None,
            stop=self.stop,
            unrun=outcome_of(result.metadata),
        )
        call = ToolCall(self.status.tool_call_id, self.status.name)
        return ToolCallStatus.of(call, outcome)


class _RecordedVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recorded verdict: of the gate on a call, or of a hook."""

    kind: Literal["run", "settled", "wait", "go", "rewrite", "skip", "stop", "again"]
    call: ToolCall | None = None
    note: str = ""
    ended: EndedCall | None = None
    stop: str | None = None
    pending: PendingCall | None = None
    messages: str = ""


class ResumeInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """Decisions and results with which a suspended run continued; decisions by `approval_id`."""

    decisions: dict[str, Any] = msgspec.field(default_factory=dict)
    results: tuple[ToolResult, ...] = ()

    def as_decisions(self) -> dict[str, Approve | Deny]:
        """The decisions as values."""
        found = {name: decision_from(value) for name, value in self.decisions.items()}
        for name, decision in found.items():
            if name.startswith(_INTERRUPTED_ID) and isinstance(decision, Deny):
                reasons = filter(None, (decision.reason, _NOT_AGAIN))
                found[name] = Deny("; ".join(reasons))
        return found


class RecordedHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of context effects: the new history, if it changed, and the tokens they used."""

    messages: str = ""
    spent: Spent = ()


class _NoDecision(Exception):
    """An invalid value that a hook returned; it is not recorded."""


_encode: Final = msgspec.json.Encoder().encode


def _read(data: bytes, kind: type[T]) -> T:
    """Decodes the data recorded under a key.

    raises: DecodeError if it is damaged, of another form, or of a newer version
    """
    try:
        return msgspec.json.decode(data, type=prepared(kind))
    except msgspec.MsgspecError as error:
        raise DecodeError(f"the record of a step cannot be read: {error}") from None


def decision_to(decision: Approve | Deny | bool) -> dict[str, Any]:
    """A decision as JSON values."""
    found = as_decision(decision)
    if isinstance(found, Deny):
        return {"approve": False, "reason": found.reason}
    arguments = None if found.arguments is None else dict(found.arguments)
    return {"approve": True, "note": found.note, "arguments": arguments}


def decision_from(value: Mapping[str, Any]) -> Approve | Deny:
    """The decision that JSON values describe."""
    if value.get("approve"):
        return Approve(value.get("arguments"), value.get("note") or "")
    return Deny(value.get("reason") or "")


class Recorder:
    """Records the steps of one run, and returns recorded ones.

    steps: the port
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._digests = Digests()
        self._counts: dict[str, int] = {}
        self._scopes: dict[str, str] = {}
        self._delivered = 0  # number of delivered inbox messages
        self._looked = -1  # the step before which the inbox was last read
        self._paid = 0  # how often effects were recorded in the current step

    def numbered(self, key: str) -> str:
        """The key of an operation that may repeat within a step, in a fixed order: "key", "key/2"."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return key if count == 1 else f"{key}/{count}"

    async def has_step(self, number: int) -> bool:
        """Whether a response of the step is recorded, so the run has continued from it before."""
        for kind in ("model", "before_model"):
            if await self.steps.wait(f"{number}/{kind}", 0) is not None:
                return True
        return False

    async def has_response(self, number: int) -> bool:
        """Whether the response of the model is recorded."""
        return await self.steps.wait(f"{number}/model", 0) is not None

    def model(
        self, model: CallingModel, number: int, conversation: Sequence[Message], price: PriceOf
    ) -> RecordedModel:
        """The model of a step.

        conversation: of the run. Not what the model is sent: hooks and effects are not asked about a step
                      whose response is recorded
        """
        return RecordedModel(model, self.steps, f"{number}/model", self._digests.of(conversation), price)

    # Calls.

    def call_key(self, number: int, call: ToolCall, eager: bool) -> str:
        """Names a call in its step.

        An eager call starts before its response is recorded; if that is interrupted, the next one may use the
        same id with other arguments.
        """
        name = no_nul(call.id.replace("/", "%2F"))
        if not eager:
            return name
        digest = hashlib.sha256(f"{call.name}\0{call.arguments}".encode()).hexdigest()[:8]
        return f"{name}/{digest}"

    def scope(self, number: int, call_id: str) -> Steps:
        """The steps port for the sub-agent of a call."""
        key = f"{number}/call/{call_id}"
        return SubAgentSteps(self.steps, self._scopes.get(key, key))

    async def call(
        self, number: int, name: str, call: ToolCall, run: Callable[[], Awaitable[EndedCall]], *, again: bool
    ) -> EndedCall:
        """Runs a call, or returns its recorded end.

        name:   of `call_key`
        raises: Interrupted
        """
        key = self.numbered(f"{number}/call/{name}")
        self._scopes[f"{number}/call/{call.id}"] = key

        async def do() -> bytes:
            return _encode(await run())

        return _read(await self.steps.step(key, do, again=again), EndedCall)

    def interrupted(self, number: int, call: ToolCall) -> PendingCall:
        """An interrupted call that waits for a person; its approval id is the same each time."""
        key = f"{self.steps.run}/{number}/call/{call.id}"
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        return PendingCall(call.id, call.name, call.arguments, f"{_INTERRUPTED_ID}{digest}")

    async def decision_request(self, number: int, name: str, pending: PendingCall) -> PendingCall:
        """Records a request for a decision before it is shown; returns the one recorded first."""
        broken_off = pending.approval_id.startswith(_INTERRUPTED_ID)
        key = f"{number}/approval/{name}" + ("/interrupted" if broken_off else "")

        async def do() -> bytes:
            return _encode(pending)

        return _read(await self.steps.step(key, do, again=True), PendingCall)

    async def verdict(
        self,
        number: int,
        name: str,
        call: ToolCall,
        judge: Callable[[], Awaitable[Verdict]],
        ask: Callable[[PendingCall], Awaitable[PendingCall]],
    ) -> Verdict:
        """The verdict on a call; reports the wait again if the call waits."""
        asked = False

        async def do() -> bytes:
            nonlocal asked
            asked = True
            return _encode(_recorded_verdict(await judge()))

        unasked = _recorded_verdict(Run(call))
        data = await self._hook(self.numbered(f"{number}/before_tool/{name}"), do, unasked)
        verdict = _verdict(_read(data, _RecordedVerdict))
        if isinstance(verdict, Wait) and verdict.pending.approval_id and not asked:
            await ask(verdict.pending)
        return verdict

    async def reviewed_call(
        self,
        number: int,
        name: str,
        status: ToolCallStatus,
        review: Callable[[], Awaitable[tuple[ToolCallStatus, str | None]]],
    ) -> tuple[ToolCallStatus, str | None]:
        """The status after the hook, and why the run has to end.

        status: before the hook
        """
        live: list[ToolCallStatus] = []

        async def do() -> bytes:
            reviewed, stop = await review()
            live.append(reviewed)
            return _encode(_RecordedVerdict("settled", ended=EndedCall.of(reviewed), stop=stop))

        unasked = _RecordedVerdict("settled", ended=EndedCall.of(status))
        data = await self._hook(self.numbered(f"{number}/after_tool/{name}"), do, unasked)
        found = _read(data, _RecordedVerdict)
        assert found.ended is not None
        return (live[0] if live else found.ended.restored()), found.stop

    async def _hook(self, key: str, do: Do, unasked: _RecordedVerdict) -> bytes:
        """The decision of a hook; `unasked` if the run has ended without one.

        A newer version of the agent may have hooks that the version which ended the run did not have.
        """
        try:
            return await self.steps.step(key, do, again=True)
        except RunOver:
            return _encode(unasked)

    # Decisions of hooks about requests and responses.

    async def decision(self, key: str, hook: Callable[[], Awaitable[Any]]) -> Any:
        """The decision of a hook around a response: Proceed, Rewrite, Skip, Again or Stop."""

        async def do() -> bytes:
            found = await hook()
            recorded = _recorded_decision(found)
            if recorded is None:
                raise _NoDecision(found)
            return _encode(recorded)

        try:
            data = await self._hook(key, do, _RecordedVerdict("go"))
        except _NoDecision as error:
            return error.args[0]  # reported by the caller of the hook
        return _hook_decision(_read(data, _RecordedVerdict))

    # The conversation: messages that were sent to the run, and what effects made of the history.

    async def inbox(self, number: int) -> list[Message]:
        """The messages that are delivered before a step; the same ones each time."""
        if self._looked >= number:
            return []
        self._looked = number
        key = f"{number}/inbox"
        if await self.steps.wait(key, 0) is None and await self.has_step(number):
            return []
        return await self._delivered_by(key)

    async def _delivered_by(self, key: str) -> list[Message]:
        """The messages recorded under a key, or else those received so far."""
        data = await self.steps.wait(key, 0)
        if data is None:
            first, texts = self._delivered, list[str]()
            while found := await self.steps.wait(f"inbox/{first + len(texts)}", 0):
                load_messages(found)  # raises the error that a later step would raise
                texts.append(found.decode())
            if not texts:
                return []

            async def do() -> bytes:
                return _encode(texts)

            data = await self.steps.step(key, do, again=True)
        sent: list[str] = _read(data, list[str])
        self._delivered += len(sent)
        return [message for text in sent for message in load_messages(text)]

    async def last_messages(self, number: int) -> list[Message]:
        """The messages received since the inbox was last read, if any; otherwise the inbox is closed.

        The next number goes to the first to write it: the sender of a message, or the run at its end.
        """
        if isinstance(self.steps, SubAgentSteps):
            return []  # sub-agents receive no messages

        async def end() -> bytes:
            return b""

        if not await self.steps.step(f"inbox/{self._delivered}", end, again=True):
            return []
        return await self._delivered_by(f"{number}/inbox/{self._delivered}")

    async def history(
        self, number: int, conversation: list[Message], apply: Callable[[], Awaitable[Spent]], asked: bool
    ) -> Spent:
        """Applies effects to the conversation, in place, once; returns recorded usage that must still be
        counted.

        apply: applies them, and returns the usage, which is already counted
        asked: whether the response of the step is recorded; then effects are not applied
        """
        key, live = f"{number}/history", False

        async def do() -> bytes:
            nonlocal live
            live = True
            before = list(conversation)
            spent = await apply()
            same = len(before) == len(conversation) and all(
                one is other for one, other in zip(before, conversation, strict=True)
            )
            return _encode(RecordedHistory("" if same else dump_messages(conversation).decode(), spent))

        if asked and await self.steps.wait(key, 0) is None:
            return ()
        found = _read(await self.steps.step(key, do, again=True), RecordedHistory)
        if live:
            return ()
        if found.messages:
            conversation[:] = load_messages(found.messages)
        return found.spent

    async def shown(self, number: int, spent: Spent) -> None:
        """Records what effects spent that changed only what the model sees in a step."""

        async def do() -> bytes:
            return _encode(RecordedHistory(spent=spent))

        if spent:
            await self.steps.step(_effects_key(number, self._paid), do, again=True)

    async def spent_on_shown(self, number: int) -> Spent:
        """What `shown` has recorded.

        More than once if a process died before the response: the next one applies the effects again.
        """
        self._paid, found = 0, list[Expense]()
        while (data := await self.steps.wait(_effects_key(number, self._paid), 0)) is not None:
            self._paid += 1
            found += _read(data, RecordedHistory).spent
        return tuple(found)

    # A run that waits.

    async def suspended(self, number: int, made: Suspension) -> tuple[Suspension, str]:
        """The suspension as first recorded: its id, and so every digest, is random.

        returns: it, and the key for the decisions that continue it
        """
        key = self.numbered(f"{number}/suspension")

        async def do() -> bytes:
            return made.to_json()

        found = Suspension.from_json(await self.steps.step(key, do, again=True))
        return found, key.replace("/suspension", "/resumption")

    async def resume_input(
        self, number: int, key: str, pending: Iterable[PendingCall]
    ) -> tuple[ResumeInput, bool]:
        """The decisions and results for waiting calls, and whether the run has continued with them before."""
        data = await self.steps.wait(key, 0)
        if data is not None:
            return _read(data, ResumeInput), True
        decisions: dict[str, Any] = {}
        results: list[ToolResult] = []
        for call in pending:
            if call.approval_id:
                found = await self.steps.wait(f"{number}/decision/{call.approval_id}", None)
                if found is not None:
                    decisions[call.approval_id] = _read(found, dict[str, Any])
            elif (found := await self.steps.wait(f"{number}/{result_key(call.call_id)}", None)) is not None:
                results.append(_read(found, ToolResult))
        return ResumeInput(decisions, tuple(results)), False

    async def record_resumption(self, key: str, given: ResumeInput) -> None:
        """Records the decisions and results with which the run continues."""

        async def do() -> bytes:
            return _encode(given)

        await self.steps.step(key, do, again=True)


def _effects_key(number: int, paid: int) -> str:
    return f"{number}/effects/{paid + 1}" if paid else f"{number}/effects"


def _recorded_verdict(verdict: Verdict) -> _RecordedVerdict:
    match verdict:
        case Run(call, note):
            return _RecordedVerdict("run", call, note)
        case Settled(call, status, stop):
            return _RecordedVerdict("settled", call, ended=EndedCall.of(status), stop=stop)
        case Wait(call, pending):
            return _RecordedVerdict("wait", call, pending=pending)


def _verdict(found: _RecordedVerdict) -> Verdict:
    match found:
        case _RecordedVerdict(kind="run", call=ToolCall() as call):
            return Run(call, found.note)
        case _RecordedVerdict(kind="settled", call=ToolCall() as call, ended=EndedCall() as ended):
            return Settled(call, ended.restored(), found.stop)
        case _RecordedVerdict(kind="wait", call=ToolCall() as call, pending=PendingCall() as pending):
            return Wait(call, pending)
        case _:
            raise DecodeError(f"the recorded verdict on a call is damaged: {found!r}")


def _recorded_decision(decision: Any) -> _RecordedVerdict | None:
    """Encodes a decision for the record; None for an invalid value of a hook."""
    match decision:
        case None | Proceed():
            return _RecordedVerdict("go")
        case Rewrite(Message() as message):
            return _RecordedVerdict("rewrite", messages=dump_messages([message]).decode(), note="one")
        case Rewrite(messages) if isinstance(messages, Iterable) and not isinstance(messages, str):
            found = list(messages)
            if not all(isinstance(message, Message) for message in found):
                return None
            return _RecordedVerdict("rewrite", messages=dump_messages(found).decode())
        case Skip(str() | Message() as result) | Again(str() | Message() as result):
            kind: Literal["skip", "again"] = "skip" if isinstance(decision, Skip) else "again"
            if isinstance(result, str):
                return _RecordedVerdict(kind, note=result)
            return _RecordedVerdict(kind, messages=dump_messages([result]).decode())
        case Stop(reason):
            return _RecordedVerdict("stop", note=reason)
        case _:
            return None


def _hook_decision(found: _RecordedVerdict) -> Any:
    messages = load_messages(found.messages) if found.messages else []
    match found.kind:
        case "rewrite":
            return Rewrite(messages[0] if found.note == "one" else messages)
        case "skip":
            return Skip(messages[0] if messages else found.note)
        case "again":
            return Again(messages[0] if messages else found.note)
        case "stop":
            return Stop(found.note)
        case _:
            return Proceed()


def checked_result(value: Any, call_id: str) -> ToolResult:
    """Encodes an external result for the record: a ToolResult, or any value that a tool may return.

    raises: InvalidRequest for a result of another call
    """
    if isinstance(value, ToolResult):
        if value.tool_call_id != call_id:
            raise InvalidRequest(f"the result for {call_id!r} names the call {value.tool_call_id!r}")
        return value
    made = ToolOutcome.of(value).fitted()
    return ToolResult(call_id, made.content, made.error is not None, parts=made.parts)
