"""One turn: the agent runs, its events are shown, and whatever stops it is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import msgspec

from llmstream.agent import Agent, AgentRun
from llmstream.chats.message import Message
from llmstream.cli.show import Show, Wait, warning_line
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.events import Event, StepStart, StreamStart
from llmstream.streams import Model
from llmstream.streams.observations import AttemptFailed, AttemptStarted, Observation, Observe
from llmstream.tools import Tool

__all__ = ["TOOL_SETS", "Asker", "Outcome", "Setup"]


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


TOOL_SETS: Final = ("demo",)
"""Names of tools that can be offered."""


@dataclass(frozen=True)
class Setup:
    """Whom to ask, and how.

    tool_set: a name of TOOL_SETS, or "" for no tools
    options:  of `stream`
    """

    model: str
    base_url: str | None = None
    tool_set: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def agent(self, observe: Observe | None = None) -> Agent:
        """An agent of it. raises: InvalidRequest for what it cannot be made of"""
        model = Model(self.model, base_url=self.base_url, observe=observe)
        return Agent(model, tools=self.tools, **self.options)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools on offer."""
        if not self.tool_set:
            return ()
        from llmstream.cli.demo_tools import DEMO_TOOLS

        return DEMO_TOOLS

    @property
    def noted_model(self) -> str:
        """The model as a saved conversation may note it; "" with an address of its own.

        A conversation with a server of one's own is not to go to the vendor another time.
        """
        return "" if self.base_url else self.model

    def with_model(self, model: str) -> Self:
        """The same with another model; its address stays if the provider does."""
        same = model.partition(":")[0] == self.model.partition(":")[0]
        return replace(self, model=model, base_url=self.base_url if same else None)

    def with_tools(self, name: str) -> Self:
        """The same with other tools."""
        if name and name not in TOOL_SETS:
            raise InvalidRequest(f"there are no tools called {name!r}: {', '.join(TOOL_SETS)}, or off")
        return replace(self, tool_set=name)
