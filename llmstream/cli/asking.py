"""One turn: the agent runs, its events are shown, and whatever stops it is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from llmstream.agent import Agent, AgentRun
from llmstream.chats.message import Message
from llmstream.cli.show import Show, Wait, warning_line
from llmstream.errors import LLMStreamError
from llmstream.events import Event, StepStart, StreamStart
from llmstream.streams.observations import AttemptFailed, AttemptStarted, Observation

__all__ = ["Asker", "Outcome"]


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


class Asker:
    """Asks, turn after turn, and shows the answers; a warning appears once.

    show:     makes what shows one turn; called where an event loop runs
    warnings: whether there are any
    """

    def __init__(self, show: Callable[[], Show], *, warnings: bool = True) -> None:
        self._make_show = show
        self._warnings = warnings
        self._shown_warnings: set[str] = set()
        self._show: Show | None = None
        self._run: AgentRun | None = None
        self.max_retries = 0

    def observe(self, observation: Observation) -> None:
        """Give this to the model: what is seen while nothing comes yet is a wait for the next attempt."""
        if self._show is None:
            return
        if isinstance(observation, AttemptFailed) and observation.wait_s is not None:
            self._show.wait(
                Wait(
                    why=str(observation.status or observation.error_code.replace("-", " ")),
                    seconds=observation.wait_s,
                    attempt=observation.attempt + 1,
                    of=self.max_retries + 1,
                )
            )
        elif isinstance(observation, AttemptStarted) and observation.attempt > 1:
            self._show.wait(None)

    async def ask(self, agent: Agent, messages: Sequence[Message]) -> Outcome:
        """Asks and shows the answer. A cancellation stops it and closes the socket; what came is kept."""
        self.max_retries = agent.model.retry.max_retries
        run = self._run = agent.stream(messages)
        shown = self._show = self._make_show()
        stopped, error = False, None
        try:
            async with run, aclosing(aiter(run)) as events:
                async for event in events:
                    shown.feed(self._once(event))
        except asyncio.CancelledError:
            stopped = True
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        except LLMStreamError as failure:
            error = failure
        finally:
            self._show = None
            shown.close(stopped=stopped)
        return Outcome(run.messages(), stopped, error)

    def interrupted(self) -> Outcome:
        """How the last turn ended where a second Ctrl-C did not let it wind up."""
        return Outcome(self._run.messages() if self._run is not None else [], stopped=True)

    def _once(self, event: Event) -> Event:
        """The event, without warnings that were shown before: nobody can do more about them now."""
        if not isinstance(event, StreamStart | StepStart) or not event.warnings:
            return event
        new = []
        for warning in event.warnings:
            line = warning_line(warning)
            if self._warnings and line not in self._shown_warnings:
                self._shown_warnings.add(line)
                new.append(warning)
        return msgspec.structs.replace(event, warnings=new)
