"""One turn: the agent runs, its events are shown, and whatever stops it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from llmstream.agent import Agent
from llmstream.chats.message import Message
from llmstream.cli.show import Show
from llmstream.errors import LLMStreamError

__all__ = ["Outcome", "ask"]


@dataclass(frozen=True)
class Outcome:
    """How a turn ended.

    messages: the whole conversation, with what came before it stopped or failed
    stopped:  Ctrl-C
    error:    why it failed, or None
    """

    messages: list[Message]
    stopped: bool = False
    error: LLMStreamError | None = None


async def ask(agent: Agent, messages: Sequence[Message], show: Callable[[], Show]) -> Outcome:
    """Asks and shows the answer. A cancellation stops it: the socket closes, what came is kept."""
    run = agent.stream(messages)
    shown = show()
    stopped, error = False, None
    try:
        async with run, aclosing(aiter(run)) as events:
            async for event in events:
                shown.feed(event)
    except asyncio.CancelledError:
        stopped = True
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
    except LLMStreamError as failure:
        error = failure
    finally:
        shown.close(stopped=stopped)
    return Outcome(run.messages(), stopped, error)
