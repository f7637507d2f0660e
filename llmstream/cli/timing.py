"""How a run went: time to the first token, tokens per second, tokens in and out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from llmstream.events import Event, Finish, StepFinish, Usage

__all__ = ["Stopwatch", "status_line"]

_SHORTEST_RATED_S: Final = 0.2
"""A rate over less time is the network's buffer and says nothing of the model."""
_FIRST_TOKENS: Final = frozenset({"text-delta", "reasoning-delta", "tool-input-start", "tool-call", "file"})


class Stopwatch:
    """Watches the events of one run; started when it is made.

    first_token_s: from the start to the first content; None before
    retries:       how often a request was sent again; the waits are part of `first_token_s`
    writing_s:     the time in which the model wrote: from each step's first content to its end
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.first_token_s: float | None = None
        self.writing_s = 0.0
        self.finish: Finish | None = None
        self.retries = 0
        self._clock = clock
        self._started = clock()
        self._wrote_from: float | None = None

    def feed(self, event: Event) -> None:
        """Notes what an event tells about time."""
        if isinstance(event, StepFinish | Finish):
            self._pause()
            if isinstance(event, Finish):
                self.finish = event
        elif self._wrote_from is None and event.__struct_config__.tag in _FIRST_TOKENS:
            self._wrote_from = self._clock()
            if self.first_token_s is None:
                self.first_token_s = self._wrote_from - self._started

    def _pause(self) -> None:
        if self._wrote_from is not None:
            self.writing_s += self._clock() - self._wrote_from
            self._wrote_from = None


def status_line(watch: Stopwatch, *, stopped: bool = False) -> str:
    """The closing line, such as "0.42 s to first token · 63 tokens/s · 17 in · 63 out · stop".

    "" where the run failed before anything came: the error says it all.
    """
    finish = watch.finish
    failed = finish is None or finish.finish_reason == "error"
    if watch.first_token_s is None and failed and not stopped:
        return ""
    usage = finish.usage if finish is not None else Usage()
    facts = []
    if watch.first_token_s is not None:
        again = f" ({watch.retries} {'retry' if watch.retries == 1 else 'retries'})" if watch.retries else ""
        facts.append(f"{watch.first_token_s:.2f} s to first token{again}")
    if usage.output_tokens and watch.writing_s >= _SHORTEST_RATED_S:
        facts.append(f"{usage.output_tokens / watch.writing_s:.0f} tokens/s")
    if usage.input_tokens is not None:
        cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
        facts.append(f"{usage.input_tokens:,} in{cached}")
    if usage.output_tokens is not None:
        thought = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
        facts.append(f"{usage.output_tokens:,} out{thought}")
    if stopped or finish is None:
        facts.append("stopped" if stopped else "no finish")
    else:
        facts.append(finish.finish_reason)
    return " · ".join(facts)
