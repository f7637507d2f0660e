"""Runs one turn of a conversation with a model: the setup, the run of the agent, its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

from llmstream import Agent, AgentRun, Model
from llmstream.agent.state import Price
from llmstream.chats.chat import Chat
from llmstream.chats.message import Message
from llmstream.cli.approving import Approvals
from llmstream.cli.keys import api_key_for
from llmstream.cli.tool_sources import ToolSources
from llmstream.display.plain import Display, Wait, warning_line
from llmstream.errors import LLMStreamError
from llmstream.events import Event, StepStart, StreamStart
from llmstream.providers.registry import find_provider
from llmstream.streams.observations import AttemptFailed, AttemptStarted, Observation
from llmstream.usage import Usage

__all__ = ["Asker", "Outcome", "Setup", "Spent"]


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


@dataclass
class Spent:
    """Tokens and cost of all turns, by "provider:model"; a model without a known price has no cost."""

    usage: dict[str, Usage] = field(default_factory=dict)
    usd: dict[str, float] = field(default_factory=dict)

    def add(self, run: AgentRun, price: Price | None) -> float | None:
        """Adds a run; returns its cost in US dollars, None if unknown."""
        total = None
        for model, usage, _ in run.state.spent:
            self.usage[model] = self.usage.get(model, Usage()) + usage
            cost = price(model, usage) if price is not None else None
            if cost is not None:
                self.usd[model] = self.usd.get(model, 0.0) + cost
                total = (total or 0.0) + cost
        return total


class Asker:
    """Runs turns and shows the answers; each warning appears once.

    show:      creates the display of one turn; called inside a running event loop
    approvals: decides about tool calls
    price:     returns the cost of tokens; None to show no cost
    warnings:  whether to show warnings
    """

    def __init__(
        self,
        show: Callable[[], Display],
        approvals: Approvals | None = None,
        *,
        price: Price | None = None,
        warnings: bool = True,
    ) -> None:
        self._make_show = show
        self._price = price
        self.approvals = approvals
        self.spent = Spent()
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
                    why=f"{observation.status or ''} {observation.error_code.replace('-', ' ')}".strip(),
                    seconds=observation.wait_s,
                    attempt=observation.attempt + 1,
                    of=self.max_retries + 1,
                )
            )
        elif isinstance(observation, AttemptStarted) and observation.attempt > 1:
            self._show.wait(None)

    async def ask(self, agent: Agent, messages: Sequence[Message], chat: Chat | None = None) -> Outcome:
        """Runs one turn and shows it. A chat becomes the messages, and receives the answer as it comes.

        A cancellation stops it and closes the socket; the outcome has the partial answer.
        """
        self.max_retries = agent.model.retry.max_retries
        if chat is None:
            run = self._run = agent.stream(messages)
        else:
            chat.replace(*messages)
            run = self._run = agent.stream([], chat=chat)
        if self.approvals is not None:
            self.approvals.begin()
        shown = self._show = self._make_show()
        stopped, error = False, None
        try:
            async with run, aclosing(aiter(run)) as events:
                async for event in events:
                    shown.feed(self._once(event))
                    if self.approvals is not None:
                        await self.approvals.follow(event, shown)
        except asyncio.CancelledError:
            stopped = True
            task = asyncio.current_task()
            if task is not None:
                # Ctrl-C has stopped the turn, and ends nothing else.
                task.uncancel()
        except LLMStreamError as failure:
            error = failure
        finally:
            self._show = None
            shown.close(stopped=stopped, usd=self.spent.add(run, self._price))
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


@dataclass(frozen=True)
class Setup:
    """The model to ask and the options of the requests.

    options: passed to `Agent`
    """

    model: str
    base_url: str | None = None
    tools: ToolSources = field(default_factory=ToolSources)
    options: Mapping[str, Any] = field(default_factory=dict)

    def agent(self, asker: Asker | None = None) -> Agent:
        """Creates the agent, whose attempts and approvals the asker shows.

        raises: InvalidRequest for options that do not fit
        """
        observe = asker.observe if asker is not None else None
        approvals = asker.approvals if asker is not None else None
        approve = approvals.approve if approvals is not None else None
        model = Model(self.model, base_url=self.base_url, api_key=api_key_for(self.model), observe=observe)
        return Agent(model, tools=self.tools.offered, approve=approve, **self.options)

    def check_key(self) -> None:
        """Reports a missing key before anything is sent.

        raises: MissingKey
        """
        find_provider(self.model.partition(":")[0]).key(api_key_for(self.model))

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
