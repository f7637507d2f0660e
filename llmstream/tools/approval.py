"""Decisions about calls: of a person, who sees the call as it will run, and of the gate of a runner."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from llmstream.chats.content import ToolCall
from llmstream.errors import InvalidRequest
from llmstream.tools.outcome import ToolCallStatus, ToolOutcome

__all__ = [
    "Approve",
    "Approver",
    "Deny",
    "PendingCall",
    "Run",
    "Settled",
    "Verdict",
    "Wait",
    "as_decision",
    "asked",
    "denied",
]


@dataclass(frozen=True, slots=True)
class Approve:
    """The call may run, with the arguments that were shown or with the ones in `arguments`.

    arguments: by name, instead of those that were shown. They must fit the tool's schema, and the
               history contains them, so that the model reads what ran. None changes nothing
    note:      for the tool, as `ToolContext.note`; the model never sees it

    raises: InvalidRequest for arguments that are not a mapping or that JSON cannot represent
    """

    arguments: Mapping[str, Any] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.note, str):
            raise InvalidRequest(f"Approve(note=...) must be a str, got {self.note!r}")
        if self.arguments is None:
            return
        if not isinstance(self.arguments, Mapping):
            raise InvalidRequest(f"Approve(arguments=...) must be a dict by name, got {self.arguments!r}")
        # Checked when the decision is made: later the run would fail with the decision used up.
        try:
            # Copied, because msgspec encodes no Mapping but a dict.
            msgspec.json.encode(dict(self.arguments))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(
                f"Approve(arguments=...) has a value that JSON cannot represent: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the model receives the reason."""

    reason: str = ""


class PendingCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that has not run, and what it waits for.

    call_id:     for a call of a sub-agent, prefixed with the id of the call that runs that agent: "a/b", or
                 "a/b#2" if another waiting call has that id
    arguments:   raw JSON text, exactly as it will run
    approval_id: the key of a decision; "" if the call waits for an external result
    digest:      over all of the above and the suspension; "" before there is one
    agent:       the sub-agent that made the call; "" for the run's own calls

    `str()` shows the exact arguments, with control and direction characters escaped.
    """

    call_id: str
    name: str
    arguments: str
    approval_id: str = ""
    digest: str = ""
    agent: str = ""

    @property
    def call(self) -> ToolCall:
        """The call itself."""
        return ToolCall(self.call_id, self.name, self.arguments)

    def __str__(self) -> str:
        who = f"{_shown(self.agent)}: " if self.agent else ""
        return f"{who}{_shown(self.name)}({_shown(self.arguments)})"


# The verdicts of a gate on a call; see `CallRunner`.


@dataclass(frozen=True, slots=True)
class Run:
    """The call may run, with these arguments. `note` is for `ToolContext.note`."""

    call: ToolCall
    note: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """The call does not run and has this status. `stop` is the reason to end the run, or None."""

    call: ToolCall
    status: ToolCallStatus
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """The call waits for a decision or for an external result."""

    call: ToolCall
    pending: PendingCall


Verdict: TypeAlias = Run | Settled | Wait


Approver: TypeAlias = Callable[
    [PendingCall], Approve | Deny | bool | Awaitable[Approve | Deny | bool | None] | None
]
"""Called for a person's decision while other calls run; None leaves the call waiting."""


async def asked(approve: Approver | None, pending: PendingCall) -> Approve | Deny | None:
    """The approver's decision; None without an approver, or if it leaves the call waiting.

    raises: InvalidRequest if it returns anything but a decision; exceptions of the approver
    """
    if approve is None:
        return None
    answer = approve(pending)
    decision = await answer if inspect.isawaitable(answer) else answer
    return None if decision is None else as_decision(decision)


def as_decision(given: object) -> Approve | Deny:
    """The decision of a caller, who may also pass True or False.

    raises: InvalidRequest for anything else
    """
    if isinstance(given, bool):
        return Approve() if given else Deny()
    if isinstance(given, Approve | Deny):
        return given
    raise InvalidRequest(f"{given!r} is not a decision about a call. Pass Approve() or Deny(reason).")


def denied(call: ToolCall, decision: Deny) -> ToolCallStatus:
    """The status of a call that may not run."""
    why = f": {decision.reason}" if decision.reason else ""
    text = f"The call was denied{why}. It has not run."
    return ToolCallStatus.of(call, ToolOutcome.failed(text, unrun="denied"))


# A model could send line breaks, escapes of terminals or bidi marks that hide what a person approves.
def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
