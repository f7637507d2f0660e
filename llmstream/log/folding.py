"""What the events of a run add up to: whether the stream is valid so far, and what is missing at its end.

Used by producers, and by whoever closes a run or takes it over after its producer died.
"""

from __future__ import annotations

from llmstream.errors import ErrorInfo
from llmstream.events import Event, Finish, StepFinish, StreamStart, Usage
from llmstream.grammar import Guard
from llmstream.log.store import RunState

__all__ = ["Fold"]


class Fold:
    """Passes events through the grammar's guard, and counts tokens."""

    def __init__(self) -> None:
        self._guard = Guard()
        self._began = False
        self._finish: Finish | None = None
        self._usage = Usage()

    def feed(self, event: Event) -> list[Event]:
        """Returns the event, repaired if it breaks a rule of the grammar; the first one begins the stream."""
        if self._began:
            found = self._guard.feed([event])
        else:
            self._began = True
            found = (
                # A source that is a bare generator has no `stream-start`; the grammar requires one.
                [event]
                if isinstance(event, StreamStart)
                else [*self._guard.start(), *self._guard.feed([event])]
            )
        for out in found:
            if type(out) is StepFinish:
                self._usage += out.usage
            elif type(out) is Finish:
                self._finish = out
        return found

    @property
    def finished(self) -> bool:
        """Whether the finish has come."""
        return self._guard.finished

    @property
    def state(self) -> RunState:
        """The state of a run that has finished."""
        return "failed" if self._finish is not None and self._finish.finish_reason == "error" else "closed"

    def close(self, error: ErrorInfo, usage: Usage | None = None) -> list[Event]:
        """Ends a stream without a finish: open blocks are incomplete, then the error and the finish.

        usage: tokens of the run; default: those of its completed steps
        """
        start = [] if self._began else self._guard.start()
        self._began = True
        # A source may have reported the error itself before it ended without a finish.
        known = any(found.code == error.code for found in self._guard.errors)
        return [*start, *self._guard.close(usage or self._usage, None if known else error)]
