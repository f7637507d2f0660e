"""The state of a run: steps, tokens, time and estimated cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, TypeAlias

from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message
from llmstream.events import FinishReason, Timings, Usage
from llmstream.tools.outcome import ToolCallStatus

__all__ = ["Price", "RunState", "Step"]

Price: TypeAlias = Callable[[str, Usage], float | None]
"""Returns the cost of tokens of a model ("provider:model"), in the caller's currency; None if unknown."""


@dataclass(frozen=True, slots=True)
class Step:
    """A completed step: a model response and the statuses of its calls.

    model:         "provider:model"
    statuses:      of the calls that were run or refused here, in call order
    cost_estimate: by the agent's `price`; None if that knows no price
    """

    number: int
    model: str
    message: Message
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    statuses: tuple[ToolCallStatus, ...] = ()
    cost_estimate: float | None = None


@dataclass(slots=True)
class RunState:
    """The state of a run, as passed to stop conditions, `prepare_step` and hooks.

    step:           the number of the current step, or between two steps of the next; from 0
    steps:          the steps completed in this process; in a resumed run, `step` continues and this is empty
    usage_by_model: tokens by "provider:model", including sub-agents
    spent:          model and tokens of each response in this process, including sub-agents
    tool_calls:     the number of calls that were run or refused in this process
    cost_estimate:  the sum of all known prices, so a lower bound; None if no price is known
    deps:           the application's object
    """

    deps: Any
    clock: Callable[[], float]
    price: Price | None = None
    step: int = 0
    steps: list[Step] = field(default_factory=list)
    usage_by_model: dict[str, Usage] = field(default_factory=dict)
    spent: list[tuple[str, Usage]] = field(default_factory=list, repr=False)
    tool_calls: int = 0
    cost_estimate: float | None = None
    conversation: list[Message] = field(default_factory=list, repr=False)
    started: float | None = None

    @property
    def messages(self) -> list[Message]:
        """Copies of the conversation so far."""
        return copy_messages(self.conversation)

    @property
    def total_usage(self) -> Usage:
        """Tokens of the complete run, including sub-agents."""
        return reduce(add, self.usage_by_model.values(), Usage())

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run was first read, in this process."""
        return 0.0 if self.started is None else self.clock() - self.started

    def priced(self, model: str, usage: Usage) -> float | None:
        """The estimated cost of these tokens, or None."""
        return None if self.price is None else self.price(model, usage)

    def spend(self, model: str, usage: Usage) -> None:
        """Adds the tokens of one response and their cost: per response, as long prompts may cost more."""
        self.usage_by_model[model] = self.usage_by_model.get(model, Usage()) + usage
        self.spent.append((model, usage))
        cost = self.priced(model, usage)
        if cost is not None:
            self.cost_estimate = (self.cost_estimate or 0.0) + cost
