"""Logs each call of a model, with content only on request."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from llmstream.errors import LLMStreamError
from llmstream.events import Event, Finish, ReasoningDelta, TextDelta, ToolCall
from llmstream.middleware.wrapping import Ask, Middleware
from llmstream.request import Request

__all__ = ["log_calls"]


def log_calls(
    *,
    level: int = logging.INFO,
    content: bool = False,
    logger: str = "llmstream",
    clock: Callable[[], float] = time.monotonic,
) -> Middleware:
    """Logs the request of each call, and how it ended: reason, tokens, fragments, seconds.

    level:   of both lines
    content: also logs the last message and the answer, as Python literals; they may be private
    logger:  its name
    """
    log = logging.getLogger(logger)

    async def logged(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        name, began = f"{ask.model.provider.name}:{ask.model.name}", clock()
        log.log(
            level, "%s: requested, %d messages, %d tools", name, len(request.messages), len(request.tools)
        )
        if content and request.messages:
            log.log(level, "%s: the last message is %r", name, request.messages[-1].text)
        summary = _Summary(keep=content)
        # The default, if it neither ends nor fails: its reader closed it.
        how = "left"
        try:
            async with aclosing(ask(request)) as events:
                async for event in events:
                    summary.read(event)
                    yield event
            how = "finished"
        except LLMStreamError as error:
            how = f"failed: {error.code}"
            raise
        finally:
            log.log(level, "%s: %s after %.3f s, %s", name, how, clock() - began, summary)
            if content:
                log.log(
                    level, "%s: the answer is %r, and calls %r", name, "".join(summary.text), summary.calls
                )

    logged.__name__ = "log_calls"
    return logged


class _Summary:
    """Counts the content of an answer so far; stores the text itself only on request."""

    def __init__(self, *, keep: bool) -> None:
        self.text: list[str] = []
        self.calls: list[str] = []
        self._keep = keep
        self._counts: Counter[type[Event]] = Counter()
        self._finish: Finish | None = None

    def read(self, event: Event) -> None:
        self._counts[type(event)] += 1
        if isinstance(event, Finish):
            self._finish = event
        elif self._keep and isinstance(event, TextDelta):
            self.text.append(event.delta)
        elif self._keep and isinstance(event, ToolCall):
            self.calls.append(f"{event.tool_name}({event.input})")

    def __str__(self) -> str:
        text, reasoning, calls = (self._counts[kind] for kind in (TextDelta, ReasoningDelta, ToolCall))
        parts = f"{text} fragments of text, {reasoning} of reasoning, {calls} calls"
        if self._finish is None:
            return parts
        usage = self._finish.usage
        tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
        return f"{self._finish.finish_reason}, {parts}, {tokens}"
