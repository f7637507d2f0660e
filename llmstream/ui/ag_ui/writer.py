"""Writes events as an AG-UI response: the run around its agents' events.

The client validates the events, and treats a body without a terminal event as a success. So each response
begins with `RUN_STARTED` and ends with `RUN_FINISHED` or `RUN_ERROR`, even if the source fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypedDict

import msgspec

from llmstream.chats.content import OWN_KEY
from llmstream.errors import ErrorInfo, InvalidRequest
from llmstream.events import ErrorEvent, Event, File, Finish, ReasoningFile, StreamStart, Usage
from llmstream.serve.writers import PING, UNBUFFERED
from llmstream.ui.ag_ui.agent_events import AgentEvents
from llmstream.ui.ag_ui.output import Output, Settings, Waiting, builtins, interrupt_of, present

__all__ = ["PROTOCOL_VERSION", "Writer", "WriterOptions"]

PROTOCOL_VERSION: Final = "1.0"
"""The version of AG-UI that is written."""

_INCOMPLETE: Final = ErrorInfo("incomplete-stream", "the source ended without a finish", retryable=True)

# The largest integer of JavaScript, which is the schema's maximum.
_MAX_TOKENS: Final = 2**53 - 1

# Names of the six counts that differ from ours; the others are equal in camelCase.
_COUNTS: Final = {"cacheWriteTokens": "cacheWriteInputTokens"}


class WriterOptions(TypedDict, total=False):
    """The keyword arguments of `Writer`, which describes them."""

    messages: Iterable[Mapping[str, Any]] | None
    protocol_version: str | None
    parent_run_id: str | None
    reasoning: bool
    raw: bool
    approval_ttl_s: float | None
    error_text: Callable[[ErrorInfo], str] | None
    file_url: Callable[[File | ReasoningFile], str] | None


class Writer:
    """Writes a response for a client of AG-UI 1.0; see `serve.Body`.

        asked = ag_ui.read(body)
        serve.starlette.respond(serve.Body(agent.stream(asked.messages), asked.writer()))

    Calls that wait for a decision end the run with the outcome `interrupt`; `RunInput.answers` reads what the
    user decided. What AG-UI has no event for is `CUSTOM`, named `llmstream.source`, `llmstream.file`,
    `llmstream.warning`, `llmstream.retry`, `llmstream.error` or `llmstream.custom`.

    thread_id, run_id: as in the request; `RunInput.writer` sets them, and the two below
    messages:          the client's messages, in its form. Needed to take back text, and to rename a call
                       whose id the thread already has
    protocol_version:  of the client; None for one before 1.0 (0.0.45 and newer). It refuses sub-agents, of
                       which it gets the results alone, and all outcomes but `interrupt`; releases up to
                       0.0.53 do not know that one either, so interrupts are a `CUSTOM` event, too:
                       `llmstream.interrupts`
    parent_run_id:     the run that this one branches from
    reasoning:         False leaves the reasoning out
    raw:               True writes wire events of the vendor as `RAW`; requests need `include_raw=True`
    approval_ttl_s:    seconds until the interrupts expire; that of the agent
    error_text:        makes the sentence that a visitor sees from an error; by default `public_message`
    file_url:          returns an address for a file that the model made; by default it is a data URL
    """

    content_type = "text/event-stream"
    heartbeat = PING

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        messages: Iterable[Mapping[str, Any]] | None = None,
        protocol_version: str | None = PROTOCOL_VERSION,
        parent_run_id: str | None = None,
        reasoning: bool = True,
        raw: bool = False,
        approval_ttl_s: float | None = None,
        error_text: Callable[[ErrorInfo], str] | None = None,
        file_url: Callable[[File | ReasoningFile], str] | None = None,
    ) -> None:
        for name, given in (("thread_id", thread_id), ("run_id", run_id)):
            if not isinstance(given, str) or not given:
                raise InvalidRequest(f"{name} must be the text that the request has, got {given!r}")
        self._ids = {"threadId": thread_id, "runId": run_id}
        self._parent_run_id = parent_run_id
        self._is_current = protocol_version is not None
        self._approval_ttl_s = approval_ttl_s
        self._error_text = error_text or _public_message
        settings = Settings(run_id, reasoning, raw, self._error_text, file_url, self._is_current)
        self._out = Output(settings, None if messages is None else list(messages))
        self._agent = AgentEvents(self._out, prefix=f"{run_id}-")
        # Held back: the next event shows whether it ends the run.
        self._error: ErrorInfo | None = None
        self._is_over = False

    @property
    def headers(self) -> dict[str, str]:
        """Headers that keep proxies from collecting events."""
        return dict(UNBUFFERED)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that the client has by now, in its form and without activities."""
        return self._out.transcript.messages

    def feed(self, event: Event) -> bytes:
        """Returns the frames of one event; b"" if they are written later.

        raises: Unsupported for a retry that retracts text, if `messages` are unknown
        """
        if self._is_over:
            return b""
        if not self._out.wrote_any:
            self._start()
        if isinstance(event, Finish):
            self._finish(event)
        elif isinstance(event, ErrorEvent):
            self._release_error()
            self._error = event.error
        elif isinstance(event, StreamStart):
            self._agent.warn(event.warnings)
        else:
            self._release_error()
            self._agent.feed(event)
        return self._out.take()

    def close(self) -> bytes:
        """Returns the end of the body: nothing after a finish, else an error."""
        if self._is_over:
            return b""
        if not self._out.wrote_any:
            self._start()
        self._error = self._error or _INCOMPLETE
        self._finish(Finish("error"))
        return self._out.take()

    def refuse(self, error: ErrorInfo) -> tuple[str, bytes] | None:
        """Returns the error as a `RUN_ERROR` in JSON: the client has it as `payload` of its exception.

        None for a run that was stopped, if the client knows its outcome "cancelled".
        """
        if self._was_stopped(error):
            return None
        return "application/json", msgspec.json.encode({"type": "RUN_ERROR", **self._error_fields(error)})

    def _start(self) -> None:
        parent = present(parentRunId=self._parent_run_id)
        self._out.write("RUN_STARTED", **self._ids, protocolVersion=PROTOCOL_VERSION, **parent)

    def _release_error(self) -> None:
        """Writes an error that turned out not to end the run."""
        if self._error is not None:
            self._agent.failed(ErrorEvent(self._error))
            self._error = None

    def _finish(self, event: Finish) -> None:
        error = (self._error or _INCOMPLETE) if event.finish_reason == "error" else None
        if error is None:
            self._release_error()
        if error is None or self._was_stopped(error):
            self._finish_run(event, was_stopped=error is not None)
        else:
            self._agent.close(failed=True)
            fields = self._error_fields(error)
            facts = self._facts(event) | fields.pop("metadata")[OWN_KEY]
            self._out.write("RUN_ERROR", **fields, metadata={OWN_KEY: facts}, **self._usage(event.usage))
        self._is_over = True

    def _was_stopped(self, error: ErrorInfo) -> bool:
        # Clients before 1.0 refuse the outcome of a stopped run, and get an error.
        return error.code == "stopped" and self._is_current

    def _finish_run(self, event: Finish, *, was_stopped: bool) -> None:
        # Collected before closing, which ends waiting calls.
        waiting, unanswered = self._agent.waiting(), self._agent.unanswered()
        self._agent.close(failed=False)
        interrupts = self._interrupts(waiting)
        outcome: dict[str, Any] = {}
        if was_stopped:
            outcome = {"outcome": {"type": "cancelled"}}
        elif self._is_current or waiting:
            outcome = {"outcome": self._outcome(interrupts, unanswered)}
        if waiting and not self._is_current:
            self._agent.custom("interrupts", interrupts)
        ended = {"metadata": {OWN_KEY: self._facts(event)}, **self._usage(event.usage)}
        self._out.write("RUN_FINISHED", **self._ids, **outcome, **ended)

    def _facts(self, event: Finish) -> dict[str, Any]:
        return present(
            finishReason=event.finish_reason,
            rawFinishReason=event.raw_finish_reason,
            model=self._agent.model,
            responseId=self._agent.response_id,
        )

    def _outcome(self, interrupts: list[dict[str, Any]], unanswered: list[str]) -> dict[str, Any]:
        if interrupts:
            return {"type": "interrupt", "interrupts": interrupts}
        return {"type": "success", **present(pendingToolCallIds=unanswered or None)}

    def _interrupts(self, waiting: list[Waiting]) -> list[dict[str, Any]]:
        expires = None if self._approval_ttl_s is None else time.time() + self._approval_ttl_s
        return [interrupt_of(one, expires) for one in waiting]

    def _usage(self, total: Usage) -> dict[str, Any]:
        """The tokens of this run by model: those of its steps, and of a last one that failed.

        The total of a resumed run has the tokens of the run before it too, which the client has counted.
        """
        usage = dict(self._out.usage)
        if not self._agent.is_resumed:
            rest = _difference(total, sum(usage.values(), Usage()))
            usage[self._agent.model] = usage.get(self._agent.model, Usage()) + rest
        entries = []
        for model, one in usage.items():
            counts = builtins(msgspec.structs.replace(one, raw=None))
            if counts:
                # A count beyond the maximum would make the client refuse the event.
                named = {_COUNTS.get(name, name): min(count, _MAX_TOKENS) for name, count in counts.items()}
                entries.append({**present(model=model), **named})
        return {"usage": entries} if entries else {}

    def _error_fields(self, error: ErrorInfo) -> dict[str, Any]:
        facts = {"retryable": error.retryable, **present(retryAfterS=error.retry_after_s)}
        return {"message": self._error_text(error), "code": error.code, "metadata": {OWN_KEY: facts}}


def _difference(total: Usage, counted: Usage) -> Usage:
    """The counts of the total that are not in the others; None if none remain."""
    rest = {}
    for name in (name for name in Usage.__struct_fields__ if name != "raw"):
        count = getattr(total, name)
        if count is not None and count > (getattr(counted, name) or 0):
            rest[name] = count - (getattr(counted, name) or 0)
    return Usage(**rest)


def _public_message(error: ErrorInfo) -> str:
    return error.public_message
