"""Writes events as the chunks of a UI message stream.

Strict releases (5.0.115, 6.0.0 to 6.0.180, 7.0.0) end a response at a field they do not know, so chunks have
only those that every release of the version accepts.

Requirements of the client:

- An `error` chunk ends its reading, and a response without one counts as complete. So errors are held back
  until the finish, usage is written before them, and the body never ends without a terminal chunk.
- Results of tools must precede `finish-step`; in our events they follow it. So a step ends at the next one.
- A call that stays open looks as if it were still streaming. So an incomplete one becomes `tool-input-error`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from llmstream.agent.nested import NestedEvent, nested_event
from llmstream.chats.content import OWN_KEY, data_url, outcome_of, own_values
from llmstream.chats.ui_form import json_value
from llmstream.errors import ErrorInfo, InvalidRequest, Unsupported
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Finish,
    Metadata,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    ResponseMetadata,
    RetryNotice,
    Source,
    StepStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.serve.writers import PING, UNBUFFERED
from llmstream.tools.approval import PendingCall
from llmstream.ui.page_run import CORRECTED
from llmstream.ui.vercel.reading import signed_approval
from llmstream.ui.vercel.sub_agents import SubAgentMessage

__all__ = ["APPROVAL_OF_5", "Version", "Writer", "answer_metadata"]

Version: TypeAlias = Literal[5, 6, 7]
"""The major version of the npm package `ai` in the page. The page's requests do not contain it."""

_HEADERS: Final = {
    **UNBUFFERED,
    "x-vercel-ai-ui-message-stream": "v1",
}

_encode = msgspec.json.Encoder().encode
APPROVAL_OF_5: Final = "llmstream-approval"
"""The name of the data part that asks for an approval in pages of npm ai 5."""

# The error code of a run that was stopped on request.
_STOPPED: Final = "stopped"

_INCOMPLETE: Final = "The response broke off. It is incomplete."
_CUT_OFF: Final = "The response broke off inside this call."


class Writer:
    """Writes a response for `useChat`; see `serve.Body`.

        serve.starlette.respond(serve.Body(agent.stream(prompt), vercel.Writer()))

    version:    of npm `ai` in the page. 6 is read by 7 too. 5 (5.0.20 and newer) has no approvals: they are
                `data-llmstream-approval` parts; and its finish reason is in the metadata
    message_id: of the assistant message that the response continues; it must be the one the page has, or the
                page shows two. None lets the page choose
    reasoning:  False leaves the reasoning out
    sources:    False leaves the sources out
    resets:     True lets a retry retract the content of a step; requires 7.0.77 or newer
    debug:      True adds `raw` events as transient `data-llmstream-raw`
    approval_key: signs approvals, for `read(history="client")`
    error_text: converts an error to the message that a visitor sees; by default `public_message`
    """

    content_type = "text/event-stream"
    heartbeat = PING

    def __init__(
        self,
        *,
        version: Version = 6,
        message_id: str | None = None,
        reasoning: bool = True,
        sources: bool = True,
        resets: bool = False,
        debug: bool = False,
        approval_key: bytes | None = None,
        error_text: Callable[[ErrorInfo], str] | None = None,
    ) -> None:
        if version not in (5, 6, 7):
            raise InvalidRequest(f"version is 5, 6 or 7, the major version of npm ai; not {version!r}")
        self._version = version
        self._message_id = message_id
        self._reasoning = reasoning
        self._sources = sources
        self._resets = resets
        self._debug = debug
        self._approval_key = approval_key
        self._error_text = error_text or _public_message
        self._in_step = False  # `start-step` is written, its end is not
        self._step_has_content = False
        self._in_step_of_sub_agents = False  # it has calls of sub-agents that wait, and nothing else
        self._calls: dict[str, _OpenCall] = {}
        self._sub_agents: dict[str, SubAgentMessage] = {}  # by the call that runs one
        self._model: str | None = None
        self._error: ErrorInfo | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers that the protocol has, and those that keep proxies from collecting chunks."""
        return dict(_HEADERS)

    def feed(self, event: Event) -> bytes:
        """Returns the chunks of one event; b"" if the page cannot show it."""
        write = _WRITE.get(type(event))
        return b"" if write is None else write(self, event)

    def data(self, name: str, value: Any, *, id: str | None = None, transient: bool = False) -> bytes:
        """Returns a `data-NAME` chunk: a part of the message that the application defines.

        id:        a later chunk with the same id replaces the part
        transient: the page's `onData` gets it, and it does not become a part of the message
        """
        fields = _set(id=id) | ({"transient": True} if transient else {})
        return _chunk(f"data-{name}", data=value, **fields)

    def close(self) -> bytes:
        """Returns the end of the body."""
        return b"data: [DONE]\n\n"

    def refuse(self, error: ErrorInfo) -> tuple[str, bytes] | None:
        """Returns the error as plain text: the page shows the complete body as the message.

        None for a run that was stopped, which is no failure: the page reads an `abort`.
        """
        if error.code == _STOPPED:
            return None
        return "text/plain; charset=utf-8", self._error_text(error).encode()

    # The frame: start, steps, metadata, finish.

    def _start(self, event: StreamStart) -> bytes:
        warnings = b"".join(
            self.data("llmstream-warning", msgspec.to_builtins(warning), transient=True)
            for warning in event.warnings
        )
        return _chunk("start", **_set(messageId=self._message_id)) + warnings

    def _start_step(self, event: StepStart) -> bytes:
        return self._end_step() + self._begin_step()

    def _begin_step(self) -> bytes:
        """Starts the step that a plain stream has no event for."""
        if self._in_step:
            return b""
        self._in_step = True
        self._step_has_content = False
        self._in_step_of_sub_agents = False
        return _chunk("start-step")

    def _end_step(self) -> bytes:
        if not self._in_step:
            return b""
        self._in_step = False
        return _chunk("finish-step")

    def _content(self, kind: str, /, **fields: Any) -> bytes:
        begun = self._begin_step()
        self._step_has_content = True
        return begun + _chunk(kind, **fields)

    def _retry(self, event: RetryNotice) -> bytes:
        if not self._step_has_content:
            return b""
        if not self._resets:
            raise Unsupported(
                "a retry takes back what the page shows, which only npm ai 7.0.77 and newer can do: "
                "pass vercel.Writer(version=7, resets=True), or do without fallback(restart=True)"
            )
        # The calls of the step are retracted with it, and the next attempt may use their ids.
        self._calls.clear()
        self._step_has_content = False
        return _chunk("reset-step")

    def _response(self, event: ResponseMetadata) -> bytes:
        self._model = event.model_id or self._model
        return b""

    def _failed(self, event: ErrorEvent) -> bytes:
        """Holds the error back; a page that needs it at once reads the transient part."""
        error = self._error = event.error
        shown = {"code": error.code, "retryable": error.retryable}
        return self.data("llmstream-error", shown | _set(retryAfterS=error.retry_after_s), transient=True)

    def _finish(self, event: Finish) -> bytes:
        # Not every release knows "unknown".
        reason = "other" if event.finish_reason == "unknown" else event.finish_reason
        cost = own_values(event.provider_metadata).get("cost")
        shown = answer_metadata(event.usage, self._model, cost)
        # Releases up to 5.0.90 refuse a finish that has a `finishReason`, and so the complete response.
        old = self._version == 5
        if old:
            shown["finishReason"] = reason
        out = self._end_step() + _chunk("message-metadata", messageMetadata=shown)
        if self._error is not None and self._error.code == _STOPPED:
            # The page shows it as stopped by its visitor, not as failed.
            return out + _chunk("abort")
        if reason == "error":
            text = _INCOMPLETE if self._error is None else self._error_text(self._error)
            out += _chunk("error", errorText=text)
        return out + (_chunk("finish") if old else _chunk("finish", finishReason=reason))

    # Text and reasoning.

    def _text_start(self, event: TextStart) -> bytes:
        return self._content("text-start", id=event.id, **_metadata_of(event))

    def _text_delta(self, event: TextDelta) -> bytes:
        # Nearly all chunks are of this kind, so that they are written without a dict.
        return b'data: {"type":"text-delta","id":%s,"delta":%s}\n\n' % (
            _encode(event.id),
            _encode(event.delta),
        )

    def _text_end(self, event: TextEnd) -> bytes:
        return _chunk("text-end", id=event.id, **_metadata_of(event))

    def _reasoning_start(self, event: ReasoningStart) -> bytes:
        if not self._reasoning:
            return b""
        return self._content("reasoning-start", id=event.id, **_metadata_of(event))

    def _reasoning_delta(self, event: ReasoningDelta) -> bytes:
        return _chunk("reasoning-delta", id=event.id, delta=event.delta) if self._reasoning else b""

    def _reasoning_end(self, event: ReasoningEnd) -> bytes:
        return _chunk("reasoning-end", id=event.id, **_metadata_of(event)) if self._reasoning else b""

    # Calls, results and approvals. `dynamic` must be the same on every chunk of a call.

    def _input_start(self, event: ToolInputStart) -> bytes:
        call = self._calls[event.id] = _OpenCall(event.tool_name, _flags(event))
        # Releases of 5 end the response at this field.
        title = _set(title=event.title) if self._version > 5 else {}
        return self._content(
            "tool-input-start", toolCallId=event.id, toolName=call.name, **title, **call.flags
        )

    def _input_delta(self, event: ToolInputDelta) -> bytes:
        call = self._calls.get(event.id)
        if call is not None:
            call.text.append(event.delta)
        return _chunk("tool-input-delta", toolCallId=event.id, inputTextDelta=event.delta)

    def _input_end(self, event: ToolInputEnd) -> bytes:
        call = self._calls.get(event.id)
        if call is None or not event.incomplete:
            return b""
        return self._input_error(event.id, call, "".join(call.text), _CUT_OFF)

    def _call(self, event: ToolCall) -> bytes:
        call = self._calls.setdefault(event.tool_call_id, _OpenCall(event.tool_name, _flags(event)))
        call.text[:] = (event.input,)
        if event.invalid:
            return self._input_error(event.tool_call_id, call, event.input, "The input is not valid.")
        return self._begin_step_of_sub_agents(event.tool_call_id) + self._content(
            "tool-input-available",
            toolCallId=event.tool_call_id,
            toolName=call.name,
            input=json_value(event.input or "{}"),
            **call.flags,
            **_metadata_of(event),
        )

    def _begin_step_of_sub_agents(self, call_id: str) -> bytes:
        """Ends the step before the first waiting call of a sub-agent.

        A page sends decisions once no call of its last step is without a result, and the call that runs the
        sub-agent is.
        """
        slashes = [place for place, character in enumerate(call_id) if character == "/"]
        if self._in_step_of_sub_agents or not any(call_id[:place] in self._sub_agents for place in slashes):
            return b""
        out = self._end_step() + self._begin_step()
        self._in_step_of_sub_agents = True
        return out

    def _corrected(self, call: Mapping[str, Any]) -> bytes:
        call_id, name, arguments = str(call["call_id"]), str(call["name"]), str(call["arguments"])
        shown = self._calls.setdefault(call_id, _OpenCall(name, {}))
        shown.text[:] = (arguments,)
        fields = {"toolCallId": call_id, "toolName": name, "input": json_value(arguments or "{}")}
        return _chunk("tool-input-available", **fields, **shown.flags)

    def _input_error(self, call_id: str, call: _OpenCall, text: str, reason: str) -> bytes:
        return self._content(
            "tool-input-error",
            toolCallId=call_id,
            toolName=call.name,
            input=json_value(text or "{}"),
            errorText=reason,
            **call.flags,
        )

    def _result(self, event: ToolResult) -> bytes:
        nested = nested_event(event)
        if nested is not None:
            return self._nested(event, nested)
        call = self._calls.get(event.tool_call_id)
        flags = _flags(event) if call is None else call.flags
        # Releases of 5 have no such chunk, and show the text of the error.
        if self._version > 5 and outcome_of(event.provider_metadata) == "denied":
            return _chunk("tool-output-denied", toolCallId=event.tool_call_id)
        if event.is_error:
            text = event.result if isinstance(event.result, str) else _encode(event.result).decode()
            return _chunk("tool-output-error", toolCallId=event.tool_call_id, errorText=text, **flags)
        preliminary = {"preliminary": True} if event.preliminary else {}
        return _chunk(
            "tool-output-available",
            toolCallId=event.tool_call_id,
            output=event.result,
            **flags,
            **preliminary,
        )

    def _nested(self, event: ToolResult, nested: NestedEvent) -> bytes:
        """An event of a sub-agent: its message is the call's output until there is a result."""
        call_id = event.tool_call_id
        message = self._sub_agents.get(call_id)
        if message is None:
            message = SubAgentMessage(call_id, nested.agent, reasoning=self._reasoning)
            self._sub_agents[call_id] = message
        if not message.feed(nested.event):
            return b""
        return self._result(msgspec.structs.replace(event, result=message.value(), provider_metadata=None))

    def _approval(self, event: ToolApprovalRequest) -> bytes:
        approval_id, shown = event.approval_id, b""
        changed = own_values(event.provider_metadata)
        if "input" in changed:
            # A hook or a repair changed the call: the page must show the arguments that will run.
            call_id, name = event.tool_call_id, changed.get("tool_name", "")
            shown = self._corrected({"call_id": call_id, "name": name, "arguments": changed["input"]})
        if self._approval_key is not None:
            call = self._calls.get(event.tool_call_id)
            if call is None:
                # Part of an earlier response, which the page already has.
                return b""
            pending = PendingCall(event.tool_call_id, call.name, "".join(call.text))
            approval_id = signed_approval(self._approval_key, approval_id, pending)
        ids = {"approvalId": approval_id, "toolCallId": event.tool_call_id}
        if self._version == 5:
            return shown + self.data(APPROVAL_OF_5, ids, id=approval_id)
        return shown + _chunk("tool-approval-request", **ids)

    # Everything else.

    def _source(self, event: Source) -> bytes:
        if not self._sources:
            return b""
        if event.source_type == "url":
            fields = {"url": event.url, **_set(title=event.title)}
            return self._content("source-url", sourceId=event.id, **fields, **_metadata_of(event))
        name = event.filename or None
        return self._content(
            "source-document",
            sourceId=event.id,
            mediaType=event.media_type or "application/octet-stream",
            title=event.title or name or event.id,
            **_set(filename=name),
            **_metadata_of(event),
        )

    def _file(self, event: File | ReasoningFile) -> bytes:
        thought = isinstance(event, ReasoningFile)
        if thought and not self._reasoning:
            return b""
        # Only 7 has files of reasoning.
        kind = "reasoning-file" if thought and self._version == 7 else "file"
        url = event.data if isinstance(event.data, str) else data_url(event.data, event.media_type)
        return self._content(kind, mediaType=event.media_type, url=url, **_metadata_of(event))

    def _custom(self, event: Custom) -> bytes:
        if event.kind == CORRECTED:
            return self._corrected(own_values(event.provider_metadata))
        if self._version == 7 and "." in event.kind:
            return self._content("custom", kind=event.kind, **_metadata_of(event))
        return self.data("llmstream-custom", {"kind": event.kind, **_metadata_of(event)})

    def _raw(self, event: Raw) -> bytes:
        return self.data("llmstream-raw", event.raw_value, transient=True) if self._debug else b""


class _OpenCall:
    """A call as its first chunk had it.

    text: of its input so far, in pieces
    """

    __slots__ = ("flags", "name", "text")

    def __init__(self, name: str, flags: dict[str, bool]) -> None:
        self.name = name
        self.flags = flags
        self.text: list[str] = []


_WRITE: Final[Mapping[type, Callable[[Writer, Any], bytes]]] = {
    StreamStart: Writer._start,
    StepStart: Writer._start_step,
    ResponseMetadata: Writer._response,
    RetryNotice: Writer._retry,
    ErrorEvent: Writer._failed,
    Finish: Writer._finish,
    TextStart: Writer._text_start,
    TextDelta: Writer._text_delta,
    TextEnd: Writer._text_end,
    ReasoningStart: Writer._reasoning_start,
    ReasoningDelta: Writer._reasoning_delta,
    ReasoningEnd: Writer._reasoning_end,
    ToolInputStart: Writer._input_start,
    ToolInputDelta: Writer._input_delta,
    ToolInputEnd: Writer._input_end,
    ToolCall: Writer._call,
    ToolResult: Writer._result,
    ToolApprovalRequest: Writer._approval,
    Source: Writer._source,
    File: Writer._file,
    ReasoningFile: Writer._file,
    Custom: Writer._custom,
    Raw: Writer._raw,
}


def answer_metadata(usage: Usage, model: str | None, cost: float | None) -> dict[str, Any]:
    """Returns the metadata of a message for the page; `PageRun` puts the cost into the finish."""
    counts = msgspec.to_builtins(msgspec.structs.replace(usage, raw=None))
    return {"usage": counts, **_set(model=model, cost=cost)}


def _chunk(kind: str, /, **fields: Any) -> bytes:
    return b"data: %s\n\n" % _encode({"type": kind, **fields})


def _set(**fields: Any) -> dict[str, Any]:
    """Returns the fields that have a value: the client refuses null."""
    return {name: value for name, value in fields.items() if value is not None}


def _metadata_of(event: Any) -> dict[str, Metadata]:
    """Returns `providerMetadata`, with the mark of a block that broke off."""
    metadata: Metadata = event.provider_metadata or {}
    if getattr(event, "incomplete", False):
        metadata = {**metadata, OWN_KEY: {**own_values(metadata), "incomplete": True}}
    return {"providerMetadata": metadata} if metadata else {}


def _flags(event: ToolInputStart | ToolCall | ToolResult) -> dict[str, bool]:
    flags = {"providerExecuted": event.provider_executed, "dynamic": getattr(event, "dynamic", False)}
    return {name: True for name, value in flags.items() if value}


def _public_message(error: ErrorInfo) -> str:
    return error.public_message
