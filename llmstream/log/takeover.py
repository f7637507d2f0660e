"""Continues a run whose producer died, in the same log: readers see one sequence without a gap.

Logged events cannot be removed. A `retry` event declares an interrupted step void, as when a request is
retried; complete steps stay. Ids that are in use get a suffix.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RetryNotice,
    StepFinish,
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
from llmstream.log.producer import Closable

__all__ = ["Progress", "Takeover", "taken_over"]

Takeover: TypeAlias = Literal["continue", "repeat", "replay"]
"""The events of the new source:

"continue": the rest of the run, with steps that count from 0 again, such as `agent.stream(history)`
"repeat":   the run from its beginning, with the steps that it had
"replay":   the run from its beginning, with the same calls in each step whose response was complete, so that
only the interrupted step is void: a durable run
"""

_BLOCKS: Final = (
    *(TextStart, TextDelta, TextEnd),
    *(ReasoningStart, ReasoningDelta, ReasoningEnd),
    *(ToolInputStart, ToolInputDelta, ToolInputEnd),
)

# The text for the model instead of a result; the model decides whether to call again.
_ENDED: Final = "The process ended while the call ran. It may have had effects."


class Progress:
    """The progress of a run, accumulated from the events of its log.

    step:     number of the last step that began
    complete: whether that step's response was complete
    stepped:  whether there are steps: an agent's run has them, a single response does not
    calls:    the calls without a result, and their tools
    ids:      of blocks and calls, in use
    usage:    tokens of the steps that were complete
    order:    the calls of the last step, in order
    ended:    those of them that have a result
    asked:    the requested approvals
    """

    def __init__(self) -> None:
        self.step = 0
        self.complete = self.stepped = False
        self.calls: dict[str, str] = {}
        self.ids: set[str] = set()
        self.usage = Usage()
        self.order: list[str] = []
        self.ended: set[str] = set()
        self.asked: set[str] = set()
        self._began = False

    def see(self, event: Event) -> None:
        """Processes the next event."""
        match event:
            case StreamStart():
                return
            case StepStart(step):
                self.step, self.complete, self.stepped = step, False, True
                self.calls.clear()
                self.order.clear()
                self.ended.clear()
            case RetryNotice(discard_step=step) if step == self.step:
                self.complete = False
                self.calls.clear()
                self.order.clear()
                self.ended.clear()
            case StepFinish(usage=usage):
                self.complete = True
                self.usage += usage
            case ToolCall(name, _, call_id):
                self.ids.add(call_id)
                self.calls[call_id] = name
                self.order.append(call_id)
            case ToolApprovalRequest(approval_id=approval_id):
                self.asked.add(approval_id)
            case ToolResult(tool_call_id=call_id, preliminary=preliminary):
                if not preliminary:
                    self.calls.pop(call_id, None)
                    self.ended.add(call_id)
            case TextStart(block_id) | ReasoningStart(block_id) | ToolInputStart(_, block_id):
                self.ids.add(block_id)
            case _:
                pass
        self._began = True

    @property
    def broke_off(self) -> bool:
        """Whether a step must be repeated."""
        return self._began and not self.complete


async def taken_over(
    source: AsyncIterable[Event], progress: Progress, kind: Takeover, epoch: int
) -> AsyncGenerator[Event]:
    """Yields the events that a source adds to a log with this progress."""
    rest = _RESTS[kind](progress, epoch)
    for event in rest.begin():
        yield event
    try:
        async for event in source:
            for found in rest.take(event):
                yield found
    finally:
        if isinstance(source, Closable):
            await source.aclose()


class _Rest:
    """The common part of all modes: the retry of a step, and unused ids."""

    def __init__(self, progress: Progress, epoch: int) -> None:
        self.progress = progress
        self.epoch = epoch

    def retry(self) -> RetryNotice:
        return RetryNotice("producer-lost", discard_step=self.progress.step, attempt=self.epoch, wait_s=0.0)

    def renamed(self, event: Event) -> Event:
        """The event with an id that is new to the log; results follow their calls."""
        ids = self.progress.ids
        # The epoch makes it unique: each takeover has another one.
        if isinstance(event, _BLOCKS) and event.id in ids:
            return msgspec.structs.replace(event, id=f"{event.id}~{self.epoch}")
        if isinstance(event, ToolCall | ToolResult | ToolApprovalRequest) and event.tool_call_id in ids:
            return msgspec.structs.replace(event, tool_call_id=f"{event.tool_call_id}~{self.epoch}")
        return event


class _Continued(_Rest):
    """The rest of the run: its steps get the next numbers, and its tokens are added."""

    def begin(self) -> Iterator[Event]:
        """Voids an interrupted step, or adds the missing results to the calls of a complete one."""
        if self.progress.broke_off:
            yield self.retry()
            return
        for call_id, name in self.progress.calls.items():
            yield ToolResult(_ENDED, call_id, name, is_error=True)

    def take(self, event: Event) -> Iterator[Event]:
        # An interrupted step is repeated under its own number.
        first = self.progress.step + self.progress.complete
        match event:
            case StepStart(step) | StepFinish(step):
                yield msgspec.structs.replace(event, step=step + first)
            case RetryNotice(discard_step=step):
                yield msgspec.structs.replace(event, discard_step=step + first)
            case Finish(usage=usage):
                yield msgspec.structs.replace(event, usage=self.progress.usage + usage)
            case _:
                yield self.renamed(event)


class _Repeated(_Rest):
    """The run from its beginning: events before the last logged step are already in the log.

    That step is void even if its response was complete, because its tools may not have ended.
    """

    def __init__(self, progress: Progress, epoch: int) -> None:
        super().__init__(progress, epoch)
        self._skips = progress.stepped

    def begin(self) -> Iterator[Event]:
        """Voids a response without steps."""
        if not self._skips and self.progress.broke_off:
            yield self.retry()

    def take(self, event: Event) -> Iterator[Event]:
        if self._skips:
            at_place = isinstance(event, StepStart) and event.step == self.progress.step
            if not (at_place or isinstance(event, Finish)):
                return
            self._skips = False
            yield self.retry()
        yield self.renamed(event)


class _Replayed(_Rest):
    """The run from its beginning, with the same calls: logged events are skipped.

    A step whose response was complete continues with its missing results. Its calls have other ids in the log
    if an earlier attempt had used theirs; they correspond by their order.
    """

    def __init__(self, progress: Progress, epoch: int) -> None:
        super().__init__(progress, epoch)
        self._skips = progress.stepped
        self._ids: dict[str, str] = {}  # maps calls of that step to those in the log
        self._there = False  # whether the replay has reached that step
        self._late: list[Event] = []  # results of eager calls missing in the log

    def begin(self) -> Iterator[Event]:
        """Voids a response without steps."""
        if not self._skips and self.progress.broke_off:
            yield self.retry()

    def take(self, event: Event) -> Iterator[Event]:
        if self._skips:
            yield from self._passed(event)
        elif self._ids:
            yield from self._rest_of_step(event)
        else:
            yield self.renamed(event)

    def _passed(self, event: Event) -> Iterator[Event]:
        """Skips logged events up to the end of the log."""
        progress = self.progress
        match event:
            case StepStart(step) if step == progress.step:
                self._there = True
                if not progress.complete:
                    self._skips = False
                    yield self.retry()
                    yield event
            case ToolCall(tool_call_id=call_id) if self._there:
                at = len(self._ids)
                self._ids[call_id] = progress.order[at] if at < len(progress.order) else call_id
            case ToolResult() if self._there:
                self._late += self._rest_of_step(event)
            case StepFinish() if self._there:
                self._skips = False
                yield from self._late
            case Finish():  # the run failed before the step in the log
                self._skips = False
                yield event
            case ErrorEvent():
                yield event
            case _:
                pass

    def _rest_of_step(self, event: Event) -> Iterator[Event]:
        """The events after the response: results and approval requests missing in the log."""
        progress = self.progress
        match event:
            case StepStart():
                self._ids = {}
                yield event
            case ToolApprovalRequest(approval_id=approval_id) if approval_id in progress.asked:
                pass
            case ToolResult(tool_call_id=call_id) if self._ids.get(call_id, call_id) in progress.ended:
                pass
            case ToolResult(tool_call_id=call_id) | ToolApprovalRequest(tool_call_id=call_id):
                yield msgspec.structs.replace(event, tool_call_id=self._ids.get(call_id, call_id))
            case _:
                yield event


_RESTS: Final[dict[Takeover, type[_Continued | _Repeated | _Replayed]]] = {
    "continue": _Continued,
    "repeat": _Repeated,
    "replay": _Replayed,
}
