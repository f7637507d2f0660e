"""One run of the loop: several responses and the tools between them, as one sentence."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from llmstream.chats.message import Message
from llmstream.errors import LLMStreamError
from llmstream.events import (
    Event,
    Finish,
    FinishReason,
    ResponseMetadata,
    StepFinish,
    StepStart,
    StreamStart,
    Timings,
    ToolResult,
    Usage,
)
from llmstream.streams.event_stream import EventStream
from llmstream.tools import ToolCallStatus

__all__ = ["AgentRun"]

_CONTENT_TAGS: Final = ("text-delta", "reasoning-delta", "tool-input-start", "tool-call", "file")


class AgentRun:
    """Iterate it for the events of all steps; leave it and everything stops at once.

    Ids of later steps are prefixed with the step's number where they would occur twice. The
    results of our tools follow their calls as `tool-result` events. A run that is stopped by
    `max_steps`, or by calls that nothing here can run, finishes with the reason "tool-calls".
    """

    def __init__(
        self, stream: EventStream, *, max_steps: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._max_steps = max_steps
        self._clock = clock
        self._ids = _Ids()
        self.step = 0
        self.finish_reason: FinishReason | None = None

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self._events()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leaves the run: the socket closes now."""
        await self._stream.aclose()

    def messages(self) -> list[Message]:
        """The whole conversation so far."""
        return self._stream.messages()

    @property
    def message(self) -> Message:
        """The message of the last step."""
        return self._stream.message

    @property
    def text(self) -> str:
        """The text of the last step."""
        return self._stream.text

    @property
    def usage(self) -> Usage:
        """Tokens of all steps that are over."""
        return self._stream.total_usage

    @property
    def error(self) -> LLMStreamError | None:
        """Why the run failed, or None."""
        return self._stream.error

    async def collect(self) -> Message:
        """Runs to the end and gives the last message."""
        async for _ in self._events():
            pass
        return self.message

    async def _events(self) -> AsyncGenerator[Event]:
        while True:
            finish = Finish("unknown")
            started, timings = self._clock(), dict[str, float]()
            events = aiter(self._stream)
            try:
                async for event in events:
                    if isinstance(event, StreamStart):
                        if self.step == 0:
                            yield event
                        yield StepStart(self.step)
                    elif isinstance(event, Finish):
                        finish = event
                    else:
                        self._time(event, started, timings)
                        yield self._ids.unique(event, self.step)
            except LLMStreamError:
                yield self._finished(finish)
                raise
            finally:
                await events.aclose()
            timings["total_s"] = self._clock() - started
            yield StepFinish(self.step, finish.finish_reason, finish.usage, Timings(**timings))
            if self.step + 1 >= self._max_steps or not self._stream.pending_calls:
                break
            statuses = await self._stream.call_tools()
            for status in statuses:
                yield self._ids.unique(_result_event(status), self.step)
            if not statuses or self._stream.pending_calls:
                break  # what is left is not ours to run
            self.step += 1
        yield self._finished(finish)

    def _finished(self, last: Finish) -> Finish:
        """The run's own finish: the last step's reason, the tokens of all steps."""
        self.finish_reason = last.finish_reason
        return msgspec.structs.replace(last, usage=self._stream.total_usage)

    def _time(self, event: Event, started: float, timings: dict[str, float]) -> None:
        """Notes when the step's first event and its first content came."""
        if "first_event_s" not in timings:
            timings["first_event_s"] = self._clock() - started
        if "first_content_s" not in timings and event.__struct_config__.tag in _CONTENT_TAGS:
            timings["first_content_s"] = self._clock() - started


class _Ids:
    """Keeps ids apart that two steps use both."""

    def __init__(self) -> None:
        self._step_of: dict[str, int] = {}

    def unique(self, event: Event, step: int) -> Event:
        for field in ("id", "tool_call_id"):
            block_id = getattr(event, field, None)
            if not isinstance(block_id, str) or isinstance(event, ResponseMetadata):
                continue
            if self._step_of.setdefault(block_id, step) != step:
                changes: dict[str, Any] = {field: f"{step}/{block_id}"}
                return msgspec.structs.replace(event, **changes)
        return event


def _result_event(status: ToolCallStatus) -> Event:
    result = status.result
    return ToolResult(result.content, result.tool_call_id, status.name, is_error=result.is_error)
