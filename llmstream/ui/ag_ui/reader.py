"""The request of an AG-UI client: messages, tools of the page, shared state, and the user's decisions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Unpack

import msgspec

from llmstream.agent.nested import shown_ids
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.request import ToolSpec
from llmstream.tools.approval import Approve, Deny
from llmstream.ui.ag_ui import wire
from llmstream.ui.ag_ui.history import History
from llmstream.ui.ag_ui.writer import Writer, WriterOptions

__all__ = ["Context", "Limits", "RunInput", "read"]

# Maximum length of ids, which are part of each frame: those of the client have 36 characters.
_MAX_ID_CHARS: Final = 200

_DISMISSED: Final = "The user dismissed the question."


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum sizes of a request: above the size of a long conversation with pictures.

    max_bytes:    of the body; files are in it as base64
    max_messages: number of messages, which are several for each turn; and of answers to interrupts
    max_parts:    number of parts and calls of all messages
    max_tools:    number of tools, and of entries of the context
    """

    max_bytes: int = 20 * 1024 * 1024
    max_messages: int = 5_000
    max_parts: int = 10_000
    max_tools: int = 500


@dataclass(frozen=True, slots=True)
class Context:
    """Context from the page for the agent, such as the open document."""

    description: str
    value: str


@dataclass(frozen=True, kw_only=True)
class RunInput:
    """A request. All of it is unverified input from the page, including messages and results of earlier runs.

    thread_id:  the page chooses it, so it is no proof of whose conversation it is
    messages:   the conversation, for `Agent.stream`. Without system and developer messages, and without the
                messages of sub-agents
    system:     the texts of the page's system and developer messages; pass them on only if you trust the page
    tools:      tools that the page runs, for `tools=[*yours, *asked.tools]`
    context:    context from the page
    state:      the shared state; any JSON value
    forwarded:  `forwardedProps`, the page's own
    decisions:  about interrupts, by their id; empty unless the request resumes a run
    payloads:   the user's answer to each interrupt, unchanged
    dismissed:  the interrupts that the user did not answer
    ignored:    what could not be read, as places in the request
    raw:        the request itself
    """

    thread_id: str
    run_id: str
    messages: list[Message]
    system: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    context: tuple[Context, ...] = ()
    state: Any = None
    forwarded: Any = None
    payloads: Mapping[str, Any] = field(default_factory=dict)
    dismissed: tuple[str, ...] = ()
    protocol_version: str | None = None
    parent_run_id: str | None = None
    ignored: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def prompt(self) -> list[Message]:
        """The user's messages after the last one of the model: new ones, if the server has the history."""
        place = len(self.messages)
        while place and self.messages[place - 1].role == Role.USER:
            place -= 1
        return self.messages[place:]

    @property
    def context_text(self) -> str:
        """The context as text, for `extra_instructions`; "" if there is none."""
        return "\n\n".join(f"{one.description}:\n{one.value}" for one in self.context)

    @property
    def is_resume(self) -> bool:
        """Whether the request answers interrupts."""
        return bool(self.payloads or self.dismissed)

    @functools.cached_property
    def decisions(self) -> dict[str, Approve | Deny]:
        """The decision about each interrupt; a dismissed one is denied.

        raises: InvalidRequest for an answer that is no decision
        """
        found: dict[str, Approve | Deny] = {one: Deny(_DISMISSED) for one in self.dismissed}
        return found | {one: _decision(one, payload) for one, payload in self.payloads.items()}

    def answers(self, suspension: Suspension) -> tuple[dict[str, Approve | Deny], list[ToolResult]]:
        """The decisions and results that a suspended run waits for.

            decisions, results = asked.answers(suspension)
            run = agent.resume(suspension, decisions, results=results)

        Only these are read from the request: it cannot change earlier results.

        raises: InvalidRequest if a waiting call is left without an answer, or a decision belongs to none
        """
        decisions = self.decisions
        asked = {pending.approval_id for pending in suspension.pending if pending.approval_id}
        strange = [interrupt for interrupt in decisions if interrupt not in asked]
        if strange:
            raise InvalidRequest(
                f"no call waits for the decision {strange[0]!r}: it was made before, or is of another thread"
            )
        given = {result.tool_call_id: result for result in self._results()}
        results: list[ToolResult] = []
        names = shown_ids(suspension)
        for pending in suspension.pending:
            if pending.approval_id:
                if pending.approval_id not in decisions:
                    raise InvalidRequest(
                        f"the call of {pending.name} still waits for a decision. Answer every interrupt in "
                        "`resume`, with status resolved or cancelled."
                    )
                continue
            # The events of the run had another id for a call whose id an earlier step had used.
            shown = names[pending.call_id]
            found = given.get(shown) or _renamed(given, shown) or given.get(pending.call_id)
            if found is None:
                raise InvalidRequest(
                    f"the call {pending.call_id!r} of {pending.name} has no result. Send a tool message."
                )
            results.append(msgspec.structs.replace(found, tool_call_id=pending.call_id))
        return decisions, results

    def writer(self, **options: Unpack[WriterOptions]) -> Writer:
        """Returns a writer of the response.

        options: of `Writer`, such as `reasoning` or `error_text`
        """
        own: WriterOptions = {
            # The page's own messages, unchanged, because a snapshot must return them.
            "messages": self.raw["messages"],
            "protocol_version": self.protocol_version,
            "parent_run_id": self.parent_run_id,
        }
        chosen: WriterOptions = {**own, **options}
        return Writer(self.thread_id, self.run_id, **chosen)

    def _results(self) -> list[ToolResult]:
        return [result for message in self.messages for result in message.tool_results]


def read(
    body: bytes | str | Mapping[str, Any],
    *,
    limits: Limits = Limits(),
    allow_url: Callable[[str], bool] | None = None,
) -> RunInput:
    """Reads a request.

    body:      JSON, or its value
    allow_url: whether a file may be read from an address; by default from any https: or http: one. Files that
               are in the request are always read
    raises:    InvalidRequest if it is no request of AG-UI, or larger than allowed: `reason` names the limit
    """
    if isinstance(body, bytes | str):
        # Before the decoding, whose values take many times the memory.
        _check_size("bytes", len(body), "max_bytes", limits)
    try:
        raw = msgspec.json.decode(body) if isinstance(body, bytes | str) else body
        found = msgspec.convert(raw, wire.Input)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"not a request of AG-UI: {error}. It is JSON with threadId, runId and messages."
        ) from None
    # After the decoding, before anything is converted: a body within its limit may still be ten million
    # parts.
    _check_size("messages", len(found.messages), "max_messages", limits)
    _check_size("answers", len(found.resume or ()), "max_messages", limits)
    _check_size("parts", sum(map(_part_count, found.messages)), "max_parts", limits)
    _check_size("tools", len(found.tools or ()), "max_tools", limits)
    _check_size("entries of the context", len(found.context or ()), "max_tools", limits)
    history = History(found.messages, allow_url or _is_web)
    return RunInput(
        thread_id=_named(found.thread_id, "threadId"),
        run_id=_named(found.run_id, "runId"),
        messages=history.messages,
        system=tuple(history.system),
        tools=tuple([_tool(tool) for tool in found.tools or ()]),
        context=tuple([Context(one.description, one.value) for one in found.context or ()]),
        state=found.state,
        forwarded=found.forwarded_props,
        payloads={one.interrupt_id: one.payload for one in found.resume or () if _is_resolved(one)},
        dismissed=tuple([one.interrupt_id for one in found.resume or () if not _is_resolved(one)]),
        protocol_version=found.protocol_version,
        parent_run_id=found.parent_run_id,
        ignored=tuple(history.ignored),
        raw=raw,
    )


def _check_size(what: str, counted: int, limit: str, limits: Limits) -> None:
    allowed = getattr(limits, limit)
    if counted > allowed:
        raise InvalidRequest(
            f"the request has {counted:,} {what}, and ag_ui.Limits({limit}={allowed}) allows no more",
            reason=limit,
        )


def _part_count(message: wire.Message) -> int:
    content = len(message.content) if isinstance(message.content, list) else 1
    return content + len(message.tool_calls or ())


def _is_web(url: str) -> bool:
    return url.lower().startswith(("https://", "http://"))


def _named(value: str, name: str) -> str:
    if not 0 < len(value) <= _MAX_ID_CHARS:
        raise InvalidRequest(f"not a request of AG-UI: {name} is text of 1 to {_MAX_ID_CHARS} characters")
    return value


def _tool(tool: wire.OfferedTool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description or "", tool.parameters or {"type": "object"})


def _is_resolved(entry: wire.Entry) -> bool:
    if entry.status not in ("resolved", "cancelled"):
        raise InvalidRequest(
            f"resume: the status of {entry.interrupt_id!r} is resolved or cancelled, not {entry.status!r}"
        )
    return entry.status == "resolved"


def _decision(interrupt: str, payload: Any) -> Approve | Deny:
    """Reads a payload as a decision. Anything but a clear approval is a denial or an error.

    raises: InvalidRequest
    """
    # A page may resolve an interrupt with a bare boolean.
    if isinstance(payload, bool):
        payload = {"approved": payload}
    approved = payload.get("approved") if isinstance(payload, Mapping) else None
    if not isinstance(approved, bool):
        raise InvalidRequest(
            f'resume: the payload of {interrupt!r} is not a decision. Send {{"approved": true}}, or '
            '{"approved": false, "reason": "..."}.'
        )
    if not approved:
        reason = payload.get("reason")
        return Deny(reason if isinstance(reason, str) else "")
    edited = payload.get("editedArgs")
    if edited is not None and not isinstance(edited, Mapping):
        raise InvalidRequest(f"resume: editedArgs of {interrupt!r} is an object of arguments by name")
    return Approve(edited)


def _renamed(given: Mapping[str, ToolResult], call_id: str) -> ToolResult | None:
    """The result of a call that the writer renamed because the thread already used its id."""
    return next((result for found, result in given.items() if found.startswith(f"{call_id}@")), None)
