"""What the loop adds: steps of a run, and retries."""

from __future__ import annotations

import msgspec

from llmstream.events.base import BaseEvent
from llmstream.events.response import FinishReason, Warning
from llmstream.usage import Usage

__all__ = ["RetryNotice", "StepFinish", "StepStart", "Timings"]


class Timings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How long things took, in seconds from the step's request."""

    first_event_s: float | None = None
    first_content_s: float | None = None
    total_s: float | None = None


class StepStart(BaseEvent, frozen=True, tag="step-start"):
    """The loop asks the model; steps count from 0.

    warnings: what this step's request leaves out or changes; the first step's stand in `stream-start` too
    """

    step: int
    warnings: list[Warning] = msgspec.field(default_factory=list)


class StepFinish(BaseEvent, frozen=True, tag="step-finish"):
    """The model's answer of one step is over."""

    step: int
    finish_reason: FinishReason
    usage: Usage = msgspec.field(default_factory=Usage)
    timings: Timings | None = None


class RetryNotice(BaseEvent, frozen=True, tag="retry"):
    """A step is asked again; what it has streamed so far is to be thrown away."""

    reason: str
    discard_step: int
    attempt: int
    wait_s: float
