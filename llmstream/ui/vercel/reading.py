"""Requests of `useChat`, checked and converted.

All input is untrusted: the history in a request, its ids and its tool outputs are the visitor's claims.
So by default only the newest message is read, and decisions and results apply only to calls that wait.

source: `DefaultChatTransport` and `AbstractChat` of npm ai 5.0.115 to 7.0.173, read 2026-11
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Literal, TypeAlias

import msgspec

from llmstream.agent.suspension import Suspension, digest_of
from llmstream.chats.content import Audio, Document, File, Image, ToolResult, UIPart
from llmstream.chats.message import Message, Role
from llmstream.chats.ui_form import from_ui
from llmstream.errors import InvalidRequest
from llmstream.tools.approval import Approve, Deny, PendingCall

__all__ = ["History", "Limits", "PageRequest", "Trigger", "continues", "read", "signed_approval"]

Trigger: TypeAlias = Literal["submit-message", "regenerate-message"]
History: TypeAlias = Literal["server", "client"]

# Fields of the protocol; all others belong to the application.
_FIELDS: Final = frozenset({"id", "messages", "trigger", "messageId", "approvals"})

_ASSISTANT: Final = {"role": Role.ASSISTANT.value}

# Of ids: those of the packages have 16 to 40 characters.
_MAX_ID_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum sizes of a request.

    max_bytes:    of the body; files are in it as base64
    max_messages: number of messages
    max_parts:    number of parts of all messages
    """

    max_bytes: int = 20 * 1024 * 1024
    max_messages: int = 1000
    max_parts: int = 10_000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page's request.

    id:         of the chat, chosen by the page; an id of one visitor may be known to another
    trigger:    a new message or decisions; or another response in place of the last one
    message_id: of the message to continue, to edit or to regenerate; None for a new one
    messages:   the newest user message, or none where the page only decides; with `history="client"` the
                complete conversation
    continues:  the id that the response must have because it continues a message of the page; or None
    decisions:  about calls, by approval id
    results:    of calls that the page ran
    extra:      the application's own fields
    """

    id: str
    trigger: Trigger
    message_id: str | None
    messages: list[Message]
    continues: str | None
    decisions: dict[str, Approve | Deny] = field(default_factory=dict)
    results: list[ToolResult] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    _pending: tuple[PendingCall, ...] = ()

    def suspension(self, agent: str, key: bytes | None = None) -> Suspension:
        """Rebuilds the suspended run from a history stored in the page.

            agent.resume(request.suspension(agent.name, KEY), request.decisions)

        A page may send the same decision twice. Only the application can know that it was used.

        agent: the name of the agent that continues it
        key:   its `approval_key`
        """
        messages = list(self.messages)
        waiting = {pending.call_id for pending in self._pending}
        done: list[ToolResult] = []
        # Finished calls of the step that waits are in the suspension, not in the history.
        if messages and messages[-1].role == Role.TOOL:
            done = [result for result in messages.pop().tool_results if result.tool_call_id not in waiting]
        return Suspension.sealed(
            messages,
            self._pending,
            done,
            agent=agent,
            # The responses of the turn before this one, whose ids of calls the next ones do not use.
            step=max(0, len(_turn(messages)) - 1),
            usage_by_model={},
            cost_estimate=None,
            key=key,
            ttl_s=None,
        )


def read(
    body: bytes,
    *,
    history: History = "server",
    approval_key: bytes | None = None,
    allow_url: Callable[[str], bool] | None = None,
    limits: Limits = Limits(),
) -> PageRequest:
    """Reads the body of a request.

    history:      "server": the server has the conversation, and reads the newest user message alone.
                  "client": the page has it, and may write whatever it likes into it, except system messages
    approval_key: of the writer; with `history="client"`, decisions count only for approvals that it signed
    allow_url:    whether files may be fetched from an address; by default only `data:` URLs are allowed
    raises:       InvalidRequest
    """
    given = _decoded(body, limits)
    messages = _listed(given, limits)
    chat_id = given.get("id")
    if not isinstance(chat_id, str) or not 0 < len(chat_id) <= _MAX_ID_CHARS:
        raise InvalidRequest(f'the request has no chat id: "id" is text of 1 to {_MAX_ID_CHARS} characters')
    trigger = given.get("trigger", "submit-message")
    if trigger not in ("submit-message", "regenerate-message"):
        raise InvalidRequest(f"the request has the unknown trigger {trigger!r}")
    message_id = given.get("messageId")
    continued = _continued(given)
    calls = list(_calls(messages))
    if history == "client":
        # Instructions are the server's.
        if any(message.get("role") == "system" for message in messages):
            raise InvalidRequest("a page may not send system messages")
        shown = messages
    else:
        shown = [message for message in messages[-1:] if message.get("role") == "user"]
    read_messages = from_ui(shown)
    # Page-only parts are omitted from the request to a vendor, which rejects an empty message.
    if read_messages and all(isinstance(part, UIPart) for part in read_messages[-1].parts):
        raise InvalidRequest("the message is empty")
    _check_urls(read_messages, allow_url)
    decisions = _decisions(calls, given.get("approvals"))
    pending: tuple[PendingCall, ...] = ()
    if history == "client":
        decisions, pending = _verified(decisions, calls, approval_key)
    return PageRequest(
        id=chat_id,
        trigger=trigger,
        message_id=message_id if isinstance(message_id, str) else None,
        messages=read_messages,
        continues=None if continued is None else str(continued.get("id") or "") or None,
        decisions=decisions,
        results=[] if continued is None else list(_results(continued)),
        extra={name: value for name, value in given.items() if name not in _FIELDS},
        _pending=pending,
    )


def continues(body: bytes) -> str | None:
    """Returns the id that the response must have because it continues a message of the page; or None.

    A page that is sent another id shows a second message.

    raises: InvalidRequest
    """
    found = _continued(_decoded(body, Limits()))
    return None if found is None else str(found.get("id") or "") or None


def _decoded(body: bytes, limits: Limits) -> dict[str, Any]:
    if len(body) > limits.max_bytes:
        raise InvalidRequest(f"the request has {len(body)} bytes; the limit is {limits.max_bytes}")
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise InvalidRequest("the request is not JSON") from None
    if not isinstance(given, dict) or not isinstance(given.get("messages"), list):
        raise InvalidRequest('the request is not of useChat: it is an object with "messages"')
    return given


def _listed(given: dict[str, Any], limits: Limits) -> list[dict[str, Any]]:
    messages: list[Any] = given["messages"]
    if len(messages) > limits.max_messages:
        raise InvalidRequest(f"the request has {len(messages)} messages; the limit is {limits.max_messages}")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
            raise InvalidRequest("a message of the request has no parts")
    count = sum(len(message["parts"]) for message in messages)
    if count > limits.max_parts:
        raise InvalidRequest(f"the request has {count} parts; the limit is {limits.max_parts}")
    return messages


def _continued(given: dict[str, Any]) -> dict[str, Any] | None:
    """The message of the page that the response continues."""
    messages = [message for message in given["messages"] if isinstance(message, dict)]
    if given.get("trigger") == "regenerate-message" or not messages:
        return None
    named = [message for message in messages if message.get("id") == given.get("messageId")]
    # Without an id, as with an application's own transport, the last message determines it.
    found = named[-1] if named and given.get("messageId") else messages[-1]
    return found if found.get("role") == Role.ASSISTANT.value else None


def _calls(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The parts of calls in messages of the assistant."""
    for message in messages:
        if message.get("role") == Role.ASSISTANT.value:
            for part in message["parts"]:
                if isinstance(part, dict) and isinstance(part.get("toolCallId"), str):
                    yield part


def _results(message: dict[str, Any]) -> Iterator[ToolResult]:
    """The results in a message of the page, of calls that no vendor ran."""
    for read_message in from_ui([_ASSISTANT | {"parts": list(_calls([message]))}]):
        for result in read_message.tool_results:
            if not result.provider_executed:
                yield result


# Decisions: in the parts of calls, and in the field `approvals` for data without a field in parts.


def _decisions(calls: list[dict[str, Any]], given: object) -> dict[str, Approve | Deny]:
    """The decisions by approval id.

    given: `{APPROVAL_ID: {"approved": true, "reason": "...", "arguments": {...}}}`, of a page that lets its
           visitor edit the arguments, or of npm ai 5, whose parts have no approvals
    """
    found: dict[str, Approve | Deny] = {}
    for part in calls:
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and isinstance(approval, dict):
            found[str(approval.get("id"))] = _decision(approval)
    for approval_id, approval in given.items() if isinstance(given, dict) else ():
        if isinstance(approval, dict):
            found[str(approval_id)] = _decision(approval)
    return found


def _decision(approval: Mapping[str, Any]) -> Approve | Deny:
    # Anything but a clear approval is a denial.
    if approval.get("approved") is not True:
        reason = approval.get("reason")
        return Deny(reason if isinstance(reason, str) else "")
    arguments = approval.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise InvalidRequest("the arguments of an approval are an object")
    return Approve(arguments)


def _verified(
    decisions: dict[str, Approve | Deny], calls: list[dict[str, Any]], key: bytes | None
) -> tuple[dict[str, Approve | Deny], tuple[PendingCall, ...]]:
    """The decisions about approvals that our writer has signed, and all calls that wait for one.

    Approval ids are those without signatures.

    raises: InvalidRequest for a decision whose approval is not signed, or whose call was altered
    """
    if decisions and key is None:
        raise InvalidRequest("decisions about calls need approval_key=, of the writer and of read()")
    genuine: dict[str, PendingCall] = {}
    for part in calls:
        pending = _pending_call(part)
        if key is None or pending is None:
            continue
        own_id = pending.approval_id.rpartition(".")[0]
        # The signature covers the call, so that a page cannot have another call approved under this id.
        if hmac.compare_digest(pending.approval_id.encode(), signed_approval(key, own_id, pending).encode()):
            genuine[pending.approval_id] = msgspec.structs.replace(pending, approval_id=own_id)
    for approval_id in decisions:
        if approval_id not in genuine:
            raise InvalidRequest("an approval does not match its request, or its call was altered")
    decided = {genuine[approval_id].approval_id: decision for approval_id, decision in decisions.items()}
    return decided, tuple(genuine.values())


def _pending_call(part: dict[str, Any]) -> PendingCall | None:
    """The call of a part that waits for an approval, or receives it in this request."""
    approval = part.get("approval")
    if part.get("state") not in ("approval-requested", "approval-responded") or not isinstance(
        approval, dict
    ):
        return None
    calls = [call for message in from_ui([_ASSISTANT | {"parts": [part]}]) for call in message.tool_calls]
    approval_id = approval.get("id")
    if not calls or not isinstance(approval_id, str):
        return None
    return PendingCall(calls[0].id, calls[0].name, calls[0].arguments, approval_id)


def _check_urls(messages: list[Message], allow_url: Callable[[str], bool] | None) -> None:
    """Checks the addresses of files.

    raises: InvalidRequest for one that is not allowed
    """
    for message in messages:
        for part in message.parts:
            if not isinstance(part, Image | Audio | Document | File) or not part.url:
                continue
            if allow_url is None or not allow_url(part.url):
                raise InvalidRequest("a page may not send files by URL here: allow_url= allows addresses")


def _turn(messages: list[Message]) -> list[Message]:
    """The responses since the newest message of the user."""
    responses = takewhile(lambda message: message.role != Role.USER, reversed(messages))
    return [message for message in responses if message.role == Role.ASSISTANT]


# Signatures of approvals, for a history stored in the page: a decision applies to the call that was shown.
# They are the end of the approval's id, because the field `signature` of the protocol ends the response in
# releases that do not know it (6.0.0 to 6.0.180).


def signed_approval(key: bytes, approval_id: str, call: PendingCall) -> str:
    """Returns the id with an HMAC over it and the call, after a dot."""
    digest = digest_of(
        key, "llmstream.approval", approval_id, call.call_id, call.name, _canonical(call.arguments)
    )
    return f"{approval_id}.{digest}"


def _canonical(arguments: str) -> str:
    """The arguments in the form they have after a page has read and written them."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments
    # Sorted: JavaScript moves keys that are integers to the front.
    return msgspec.json.encode(_as_javascript(value), order="sorted").decode()


def _as_javascript(value: Any) -> Any:
    """The value with its numbers as JavaScript writes them: 1.0 is 1."""
    match value:
        case float() if math.isfinite(value) and value == int(value):
            return int(value)
        case list():
            return [_as_javascript(item) for item in value]
        case dict():
            return {name: _as_javascript(item) for name, item in value.items()}
    return value
