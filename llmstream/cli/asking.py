"""Asks a model for one turn of a conversation: the setup, the run of the agent, its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import msgspec

from llmstream.agent import Agent, AgentRun
from llmstream.chats.message import Message
from llmstream.cli.display import Display, Wait, warning_line
from llmstream.cli.key_store import api_key_for
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.events import Event, StepStart, StreamStart
from llmstream.providers.registry import find_provider
from llmstream.streams import Model
from llmstream.streams.observations import AttemptFailed, AttemptStarted, Observation, Observe
from llmstream.tools import Tool

__all__ = ["TOOL_SETS", "Asker", "Outcome", "Setup"]


@dataclass(frozen=True)
class Outcome:
    """How a turn ended.

    messages: the complete conversation; a stopped or failed turn adds its partial answer
    stopped:  whether Ctrl-C stopped it
    error:    why it failed, or None
    """

    messages: list[Message]
    stopped: bool = False
    error: LLMStreamError | None = None


class Asker:
    """Runs turns and shows the answers; each warning appears once.

    show:     creates the display of one turn; called inside a running event loop
    warnings: whether to show warnings
    """

    def __init__(self, show: Callable[[], Display], *, warnings: bool = True) -> None:
        self._make_show = show
        self._warnings = warnings
        self._shown_warnings: set[str] = set()
        self._show: Display | None = None
        self._run: AgentRun | None = None
        self.max_retries = 0

    def observe(self, observation: Observation) -> None:
        """Observes the model, to show why a turn waits for its next attempt."""
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
        """Runs one turn and shows it.

        A cancellation stops it and closes the socket; the outcome has the partial answer.
        """
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
        """Returns the outcome of the last turn after a second Ctrl-C cut its shutdown short."""
        return Outcome(self._run.messages() if self._run is not None else [], stopped=True)

    def _once(self, event: Event) -> Event:
        """Removes warnings that were shown before."""
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
"""Names of the tool sets that `--tools` and `/tools` offer."""


@dataclass(frozen=True)
class Setup:
    """The model to ask and the options of the requests.

    tool_set: a name from TOOL_SETS, or "" for no tools
    options:  passed to `Agent`
    """

    model: str
    base_url: str | None = None
    tool_set: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def agent(self, observe: Observe | None = None) -> Agent:
        """Creates the agent.

        raises: InvalidRequest for options that do not fit
        """
        model = Model(self.model, base_url=self.base_url, api_key=api_key_for(self.model), observe=observe)
        return Agent(model, tools=self.tools, **self.options)

    def check_key(self) -> None:
        """Reports a missing key before anything is sent.

        raises: MissingKey
        """
        find_provider(self.model.partition(":")[0]).key(api_key_for(self.model))

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools offered to the model."""
        if not self.tool_set:
            return ()
        from llmstream.cli.demo_tools import DEMO_TOOLS

        return DEMO_TOOLS

    @property
    def stored_model(self) -> str:
        """Model to store in a saved conversation; "" with a base URL.

        Continuing a conversation with a private server must not send it to the vendor.
        """
        return "" if self.base_url else self.model

    def with_model(self, model: str) -> Self:
        """Returns the setup with another model; the base URL stays if the provider does."""
        same = model.partition(":")[0] == self.model.partition(":")[0]
        return replace(self, model=model, base_url=self.base_url if same else None)

    def with_tools(self, name: str) -> Self:
        """Returns the setup with another tool set.

        raises: InvalidRequest for an unknown name
        """
        if name and name not in TOOL_SETS:
            raise InvalidRequest(f"unknown tool set {name!r}. Available: {', '.join(TOOL_SETS)}, off.")
        return replace(self, tool_set=name)
