"""The events of one agent of a run as AG-UI: of the run's own agent, or of a sub-agent.

Requirements of the client:

- A call belongs to a message of the assistant. Consecutive calls share one, and the text before them; text
  after them is a new message. Adjacent texts are one message: vendors begin a block for each citation.
- Ids of messages contain run, step and position, `RUN-STEP-PLACE`. From these `read` finds the messages of
  one response of the model, which the client stores with results between them.
- Data that a vendor wants back verbatim is in `encryptedValue`, our own marks in `metadata`.
- A call that was cut off stays open if the run fails. If it does not, the client needs its end, and gets a
  result that reports it: a call without one is a call that the page should run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from llmstream.agent.nested import NestedEvent, nested_event
from llmstream.chats.content import OWN_KEY, data_url, own_values
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Metadata,
    Raw,
    ReasoningFile,
    ResponseMetadata,
    RetryNotice,
    Source,
    StepFinish,
    StepStart,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
    merge_metadata,
)
from llmstream.ui.ag_ui.application import KEY
from llmstream.ui.ag_ui.messages import Messages
from llmstream.ui.ag_ui.output import WIDEST_FRAME, Output, Waiting, builtins, packed, present

__all__ = ["AgentEvents"]

PROGRESS: Final = "llmstream.progress"
"""The type of activities that show the progress of a call."""

_CUT_OFF: Final = "The response broke off inside this call. It has not run."
_SUPERSEDED: Final = "The response that called this sub-agent was discarded."

_encode = msgspec.json.Encoder().encode


class AgentEvents:
    """Writes the events of one agent.

    prefix:      what the ids of its messages begin with
    call_prefix: what the ids of its calls begin with, which are unique within one agent alone
    owner:       its `subagentRunId`; None for the run's own agent

    model, response_id: of its last response
    is_resumed:         whether its first step is not the run's first
    """

    def __init__(
        self, output: Output, *, prefix: str, call_prefix: str = "", owner: str | None = None
    ) -> None:
        self.owner = owner
        self.model: str | None = None
        self.response_id: str | None = None
        self.is_resumed = False
        self._has_steps = False
        self._out = output
        self._settings = output.settings
        self._prefix, self._call_prefix = prefix, call_prefix
        self._tag: dict[str, Any] = {} if owner is None else {"subagentRunId": owner}
        self._step_name: str | None = None
        self._step_facts: dict[str, Any] = {}
        self._warned: set[bytes] = set()
        self._failure: str | None = None
        self._messages = Messages(output, prefix, owner)
        self._calls: dict[str, _Call] = {}  # calls without a result
        self._discarded: set[str] = set()
        self._progress: dict[str, dict[str, Any]] = {}
        self._approvals: dict[str, ToolApprovalRequest] = {}  # by the id of the call
        self._children: dict[str, AgentEvents] = {}  # running sub-agents, by the id of their call
        self._is_hidden = owner is not None and not output.settings.sub_agents
        self._all_below: set[str] = set()  # the sub-agents that it has started, and theirs
        self._below: set[str] = set()  # those of the response under way

    def feed(self, event: Event) -> None:
        """Writes one event; start and finish are the run's."""
        if not self._messages.feed(event):
            write = _WRITE.get(type(event))
            if write is not None:
                write(self, event)

    def custom(self, name: str, value: Any) -> None:
        """Writes a `CUSTOM` event, for what AG-UI has no event for."""
        self._out.write("CUSTOM", name=f"{OWN_KEY}.{name}", value=value, **self._tag)

    def result_id(self, call_id: str) -> str:
        """Returns the id of the message with the result of a call."""
        return f"{self._prefix}{call_id}-result"

    # Calls that wait at the end of a run.

    def waiting(self) -> list[Waiting]:
        """Returns the calls that wait for a decision, those of sub-agents too."""
        found = []
        for call_id, event in self._approvals.items():
            call = self._calls.get(call_id)
            shown = self._shown(call_id) if call is None else call.shown
            changed = own_values(event.provider_metadata)
            name = changed.get("tool_name", "" if call is None else call.name)
            text = changed.get("input")
            if self._is_hidden and call is not None:
                text = text or call.input
            found.append(Waiting(event.approval_id, shown, name, text, self.owner))
        for parent, child in self._children.items():
            below = child.waiting()
            if child._is_hidden:
                # The client has the call that runs the sub-agent, and none of the sub-agent's own.
                call = self._calls.get(parent)
                shown = self._shown(parent) if call is None else call.shown
                below = [msgspec.structs.replace(one, call_id=shown, owner=None) for one in below]
            found += below
        return found

    def unanswered(self) -> list[str]:
        """Returns the ids of the calls that the application or the page must run."""
        own = [
            call.shown
            for call_id, call in self._calls.items()
            # Excluded: calls never made, the vendor's own, those waiting for a person, and sub-agents'.
            if not (call.cut or call.by_provider or call_id in self._approvals or call_id in self._children)
        ]
        return own + [call for child in self._children.values() for call in child.unanswered()]

    def close(self, *, failed: bool) -> None:
        """Ends everything that is open; a failed run leaves incomplete calls open."""
        for call_id, child in list(self._children.items()):
            waiting = [one.approval_id for one in child.waiting()]
            child.close(failed=failed)
            if failed:
                self._end_child(call_id, failure="The run failed.")
            else:
                suspended = {"type": "suspended", **present(interruptIds=waiting or None)}
                self._end_child(call_id, outcome=suspended)
        self._messages.end_text()
        for call_id, call in list(self._calls.items()):
            # The end of an incomplete call would make it look complete; a failed run does not need it.
            if call.ended or (failed and call.cut):
                continue
            self._end_call(call)
            if call.cut:
                metadata = {OWN_KEY: {"isError": True, "incomplete": True}}
                self._write_result(call_id, call.shown, _CUT_OFF, metadata)
                del self._calls[call_id]
        self._end_step()

    # Steps.

    def _start_step(self, event: StepStart) -> None:
        # A run that begins with a later step continues a suspended one.
        self.is_resumed = self.is_resumed or (event.step > 0 and not self._has_steps)
        self._has_steps = True
        self._messages.start_step(event.step)
        self._below.clear()
        self._end_step()
        self._step_name = f"step-{event.step}"
        self._out.write("STEP_STARTED", stepName=self._step_name, **self._tag)
        self.warn(event.warnings)

    def _finish_step(self, event: StepFinish) -> None:
        """Holds the step's data back: results of calls belong to the step, but follow it in our stream."""
        self._messages.end_text()
        usage = self._out.usage
        usage[self.model] = usage.get(self.model, Usage()) + event.usage
        facts = builtins(event)
        self._step_facts = {name: facts[name] for name in ("finishReason", "timings") if name in facts}
        counts = builtins(msgspec.structs.replace(event.usage, raw=None))
        self._step_facts |= present(usage=counts or None, model=self.model, responseId=self.response_id)

    def _end_step(self) -> None:
        if self._step_name is None:
            return
        facts = {"metadata": {OWN_KEY: self._step_facts}} if self._step_facts else {}
        self._out.write("STEP_FINISHED", stepName=self._step_name, **facts, **self._tag)
        self._step_name, self._step_facts = None, {}

    def warn(self, warnings: list[Any]) -> None:
        """Writes the warnings of a request, each once."""
        for warning in warnings:
            value = builtins(warning)
            # A dict cannot be in a set; its JSON can.
            key = _encode(value)
            if key not in self._warned:
                self._warned.add(key)
                self.custom("warning", value)

    def _response(self, event: ResponseMetadata) -> None:
        self.model = event.model_id or self.model
        self.response_id = event.id or self.response_id

    def _retry(self, event: RetryNotice) -> None:
        """Retracts the output of the response; its open events are ended first, which the client checks."""
        self.custom("retry", {"attempt": event.attempt, "waitS": event.wait_s})
        self._messages.end_text()
        self._abandon_children()
        for call_id, call in self._calls.items():
            if not call.ended:
                self._end_call(call)
            self._discarded.add(call_id)
        for call_id in list(self._progress):
            self._end_progress(call_id, discarded=True)
        self._calls.clear()
        self._approvals.clear()
        self._out.take_back(self._messages.take(), self._below)
        self._below.clear()

    def _abandon_children(self) -> None:
        """Ends the sub-agents of a response that is discarded."""
        for call_id, child in list(self._children.items()):
            child._abandon_children()
            child.close(failed=False)
            self._end_child(call_id, failure=_SUPERSEDED)

    # Calls and their results.

    def _input_start(self, event: ToolInputStart) -> None:
        marks = present(title=event.title) | _flags(event)
        self._begin_call(event.id, event.tool_name, marks, event.provider_metadata)

    def _begin_call(self, call_id: str, name: str, marks: dict[str, Any], metadata: Metadata | None) -> _Call:
        parent = self._messages.for_call()
        # The client has one list of calls per thread, while our ids are unique within a run.
        shown = self._out.free_call_id(self._call_prefix + call_id)
        call = self._calls[call_id] = _Call(shown, name, marks, metadata)
        # A server that counts calls gives the next response the same ids.
        self._discarded.discard(call_id)
        fields = {"toolCallId": shown, "toolCallName": name, "parentMessageId": parent}
        self._out.write("TOOL_CALL_START", **fields, **call.marked, **self._tag)
        call.write = self._out.fragments("TOOL_CALL_ARGS", toolCallId=shown, **self._tag)
        return call

    def _input_delta(self, event: ToolInputDelta) -> None:
        call = self._calls[event.id]
        call.has_arguments = True
        call.metadata = merge_metadata(call.metadata, event.provider_metadata)
        call.write(event.delta)

    def _input_end(self, event: ToolInputEnd) -> None:
        """Writes nothing of a complete input: the call that follows ends it."""
        call = self._calls[event.id]
        call.metadata = merge_metadata(call.metadata, event.provider_metadata)
        if event.incomplete:
            call.cut = True
            call.marks["incomplete"] = True
            # An empty fragment with the mark: an end event would make the call look complete.
            self._out.write("TOOL_CALL_ARGS", toolCallId=call.shown, delta="", **call.marked, **self._tag)

    def _call(self, event: ToolCall) -> None:
        call = self._calls.get(event.tool_call_id)
        if call is None:
            call = self._begin_call(event.tool_call_id, event.tool_name, _flags(event), None)
        # Fragments have already sent them; the client would append them again.
        if not call.has_arguments:
            call.write(event.input or "{}")
        call.metadata = merge_metadata(call.metadata, event.provider_metadata)
        call.input = event.input
        if event.invalid:
            call.marks["invalid"] = True
        self._end_call(call)

    def _end_call(self, call: _Call) -> None:
        call.ended = True
        if call.metadata:
            self._messages.encrypted("tool-call", call.shown, packed(call.metadata))
        self._out.write("TOOL_CALL_END", toolCallId=call.shown, **call.marked, **self._tag)

    def _result(self, event: ToolResult) -> None:
        if event.preliminary:
            nested = nested_event(event)
            if nested is None:
                self._show_progress(event)
            else:
                self._nested(nested)
            return
        call_id = event.tool_call_id
        if call_id in self._discarded:
            return
        # Text after a result is a separate message.
        self._messages.part()
        child = self._children.get(call_id)
        if child is not None:
            child.close(failed=False)
            failure = (child._failure or "The sub-agent failed.") if event.is_error else None
            self._end_child(call_id, failure=failure)
        self._end_progress(call_id)
        call = self._calls.pop(call_id, None)
        self._approvals.pop(call_id, None)
        is_text = isinstance(event.result, str)
        own = own_values(event.provider_metadata)
        # Our marks in the event, such as that of a denied call, are passed on.
        marks = {**own, **_true(isError=event.is_error, json=not is_text), **_flags(event)}
        content = event.result if is_text else _encode(event.result).decode()
        metadata = {OWN_KEY: marks} if marks else {}
        message_id = self._write_result(
            call_id, self._shown(call_id) if call is None else call.shown, content, metadata
        )
        foreign = {key: value for key, value in (event.provider_metadata or {}).items() if key != OWN_KEY}
        if foreign:
            self._messages.encrypted("message", message_id, packed(foreign))

    def _write_result(self, call_id: str, shown: str, content: str, metadata: dict[str, Any]) -> str:
        message_id = self.result_id(call_id)
        # A retry also retracts results.
        self._messages.minted.add(message_id)
        fields: dict[str, Any] = {"messageId": message_id, "toolCallId": shown, "content": content}
        fields |= {"role": "tool"} | ({"metadata": metadata} if metadata else {})
        self._out.write("TOOL_CALL_RESULT", **fields, **self._tag)
        return message_id

    def _shown(self, call_id: str) -> str:
        """The client's id of a call that this run has not begun."""
        return self._out.earlier_call_id(self._call_prefix + call_id)

    def _show_progress(self, event: ToolResult) -> None:
        # Its response was retracted.
        if event.tool_call_id in self._discarded:
            return
        call = self._calls.get(event.tool_call_id)
        shown = self._shown(event.tool_call_id) if call is None else call.shown
        content = {"toolCallId": shown, "toolName": event.tool_name, "result": event.result, "done": False}
        self._progress[event.tool_call_id] = content
        self._write_progress(event.tool_call_id, content)

    def _end_progress(self, call_id: str, *, discarded: bool = False) -> None:
        content = self._progress.pop(call_id, None)
        if content is not None:
            self._write_progress(call_id, {**content, "done": True, **_true(discarded=discarded)})

    def _write_progress(self, call_id: str, content: dict[str, Any]) -> None:
        fields = {"messageId": f"{self._prefix}{call_id}-progress", "activityType": PROGRESS}
        self._out.write("ACTIVITY_SNAPSHOT", **fields, content=content, replace=True, **self._tag)

    def _approval(self, event: ToolApprovalRequest) -> None:
        self._approvals[event.tool_call_id] = event

    # Sub-agents.

    def _nested(self, nested: NestedEvent) -> None:
        child = self._children.get(nested.parent_call)
        if child is None:
            if nested.parent_call in self._discarded:
                return
            child = self._children[nested.parent_call] = self._start_child(nested)
        child.feed(nested.event)

    def _start_child(self, nested: NestedEvent) -> AgentEvents:
        call = self._calls.get(nested.parent_call)
        shown = self._shown(nested.parent_call) if call is None else call.shown
        owner = self._out.ids.fresh(f"{self._settings.run_id}/{shown}")
        above = present(parentSubagentRunId=self.owner, parentToolCallId=shown)
        self._out.write("SUBAGENT_STARTED", subagentRunId=owner, name=nested.agent, **above)
        self._below.add(owner)
        self._all_below.add(owner)
        below = f"{self._call_prefix}{nested.parent_call}/"
        return AgentEvents(self._out, prefix=f"{owner}-", call_prefix=below, owner=owner)

    def _end_child(
        self, call_id: str, *, failure: str | None = None, outcome: dict[str, Any] | None = None
    ) -> None:
        child = self._children.pop(call_id)
        self._below |= child._all_below
        # Stored here too: a retry of this agent retracts the output of nested sub-agents.
        self._all_below |= child._all_below
        if failure is not None:
            self._out.write("SUBAGENT_ERROR", subagentRunId=child.owner, message=failure)
            return
        ended = {"type": "success"} if outcome is None else outcome
        self._out.write("SUBAGENT_FINISHED", subagentRunId=child.owner, outcome=ended)

    # Events without an AG-UI equivalent, and events of the application.

    def _source(self, event: Source) -> None:
        self.custom("source", _fields(event))

    def _file(self, event: File | ReasoningFile) -> None:
        thought = isinstance(event, ReasoningFile)
        if thought and not self._settings.reasoning:
            return
        if self._settings.file_url is not None:
            url = self._settings.file_url(event)
        else:
            url = event.data if isinstance(event.data, str) else data_url(event.data, event.media_type)
        shown: dict[str, Any] = {"mediaType": event.media_type, "url": url}
        # Leaves space for the other fields: a frame beyond the limit fails the client's run.
        if len(url) > WIDEST_FRAME - 64 * 1024:
            shown = {"mediaType": event.media_type, "omitted": "too large; pass ag_ui.Writer(file_url=...)"}
        metadata = present(providerMetadata=event.provider_metadata)
        self.custom("reasoning-file" if thought else "file", shown | metadata)

    def _custom_event(self, event: Custom) -> None:
        # Events of the application are AG-UI's own, by their name; other kinds are a vendor's.
        kind = event.kind.removeprefix(f"{KEY}.")
        if kind == event.kind:
            self.custom("custom", _fields(event))
        else:
            self._out.write(kind, **(event.provider_metadata or {}).get(KEY, {}), **self._tag)

    def _raw(self, event: Raw) -> None:
        if self._settings.raw:
            self._out.write("RAW", event=event.raw_value, **self._tag)

    def failed(self, event: ErrorEvent) -> None:
        """Writes an error that does not end the run."""
        error = event.error
        self._failure = self._settings.error_text(error)
        shown = {"code": error.code, "message": self._failure, "retryable": error.retryable}
        self.custom("error", shown | present(retryAfterS=error.retry_after_s))


class _Call:
    """A call without a result.

    shown: its id at the client
    marks: what is ours in its metadata; each event that has any repeats them, since the last one wins
    cut:   whether the response broke off inside it
    input: the complete arguments; "" as long as there are fragments
    write: writes a fragment of its arguments
    """

    __slots__ = ("cut", "ended", "has_arguments", "input", "marks", "metadata", "name", "shown", "write")

    write: Callable[[str], None]

    def __init__(self, shown: str, name: str, marks: dict[str, Any], metadata: Metadata | None) -> None:
        self.shown = shown
        self.name = name
        self.marks = marks
        self.metadata = metadata
        self.input = ""
        self.has_arguments = self.ended = self.cut = False

    @property
    def by_provider(self) -> bool:
        return bool(self.marks.get("providerExecuted"))

    @property
    def marked(self) -> dict[str, Any]:
        return {"metadata": {OWN_KEY: dict(self.marks)}} if self.marks else {}


_WRITE: Final[Mapping[type, Callable[[AgentEvents, Any], None]]] = {
    StepStart: AgentEvents._start_step,
    StepFinish: AgentEvents._finish_step,
    ResponseMetadata: AgentEvents._response,
    RetryNotice: AgentEvents._retry,
    ErrorEvent: AgentEvents.failed,
    ToolInputStart: AgentEvents._input_start,
    ToolInputDelta: AgentEvents._input_delta,
    ToolInputEnd: AgentEvents._input_end,
    ToolCall: AgentEvents._call,
    ToolResult: AgentEvents._result,
    ToolApprovalRequest: AgentEvents._approval,
    Source: AgentEvents._source,
    File: AgentEvents._file,
    ReasoningFile: AgentEvents._file,
    Custom: AgentEvents._custom_event,
    Raw: AgentEvents._raw,
}


def _fields(event: Event) -> Any:
    """The event as JSON values, without its type."""
    return {name: value for name, value in builtins(event).items() if name != "type"}


def _flags(event: ToolInputStart | ToolCall | ToolResult) -> dict[str, bool]:
    return _true(providerExecuted=event.provider_executed, dynamic=getattr(event, "dynamic", False))


def _true(**flags: bool) -> dict[str, bool]:
    return {name: True for name, flag in flags.items() if flag}
