"""Models to wrap, and what a reader saw of one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import llmstream as ls
from llmstream.grammar import check


@dataclasses.dataclass
class Seen:
    """A stream as its reader saw it."""

    events: list[ls.Event]
    error: ls.LLMStreamError | None
    stream: ls.EventStream

    @property
    def text(self) -> str:
        return self.stream.text

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


class Reader:
    async def __call__(self, model: ls.Model, prompt: str = "Hi", **options: Any) -> Seen:
        """Reads a stream to its end, and checks that it is a sentence."""
        events: list[ls.Event] = []
        error = None
        async with model.stream(prompt, **options) as stream:
            try:
                async for event in stream:
                    events.append(event)
            except ls.LLMStreamError as caught:
                error = caught
        assert check(events) == []
        assert (error is not None) == any(isinstance(event, ls.ErrorEvent) for event in events)
        return Seen(events, error, stream)


@pytest.fixture
def read() -> Reader:
    return Reader()
