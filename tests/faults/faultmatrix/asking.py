"""Asks a server that misbehaves, and holds what comes of it against what is always promised."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from faultmatrix.wires import Wire

import llmstream as ls
from llmstream.events import ErrorEvent
from llmstream.grammar import check
from llmstream.testing import FaultServer, Step, no_leaks
from llmstream.testing import answered as answered_by

KEY = "sk-canary-0123456789abcdef"
ONCE = ls.Retry(max_retries=0)
THRICE = ls.Retry(max_retries=2, max_wait_s=60.0)
PATIENT = ls.Deadlines(connect_s=10.0, first_event_s=10.0, idle_s=10.0, step_s=20.0, total_s=20.0)
QUICK = ls.Deadlines(first_event_s=0.1, idle_s=0.1)
QUICK_IDLE = ls.Deadlines(first_event_s=10.0, idle_s=0.1)
BOUND_S = 5.0

Script = Sequence[Step]


def answered(wire: Wire, *body: Step, **options: Any) -> list[Step]:
    """An answer of the wire, in chunks."""
    return answered_by(*body, **{"content_type": wire.content_type, **options})


@dataclasses.dataclass
class Outcome:
    """What came of asking once."""

    text: str
    error: ls.LLMStreamError | None
    seconds: float
    events: list[Any]
    server: FaultServer
    message: ls.Message
    stream: ls.EventStream

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if type(event) is kind]


async def ask(wire: Wire, *scripts: Script, prompt: Any = "Hi", call: Any = None, **options: Any) -> Outcome:
    """Asks a server that plays the scripts.

    What is held against every outcome: the events are one sentence, the error's `.partial` is what came,
    the server's connections end within a second, and no task, descriptor or thread stays.
    """
    options = {"api_key": KEY, "deadlines": PATIENT, "retry": ONCE, **options}
    error: ls.LLMStreamError | None = None
    events: list[Any] = []
    async with FaultServer(*scripts) as server, no_leaks():
        begun = time.monotonic()
        async with wire.model(server.url, **options).stream(prompt, **(call or {})) as stream:
            try:
                async with asyncio.timeout(15):
                    async for event in stream:
                        events.append(event)
            except ls.LLMStreamError as caught:
                error = caught
        seconds = time.monotonic() - begun
        await server.left(2.0)
    held(stream, events, error)
    return Outcome(stream.text, error, seconds, events, server, stream.message, stream)


def held(stream: ls.EventStream, events: list[Any], error: ls.LLMStreamError | None) -> None:
    """What is promised of every stream that was read to its end."""
    assert check(events) == []
    finishes = [event for event in events if isinstance(event, ls.Finish)]
    assert len(finishes) == 1
    assert events[-1] is finishes[0]
    assert stream.error is error
    if error is None:
        return
    assert type(error).__module__ == "llmstream.errors"
    assert error.provider
    assert error.partial is not None
    assert error.partial.text == stream.text
    assert any(isinstance(event, ErrorEvent) for event in events)
