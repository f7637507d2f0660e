"""What a run has done so far: steps, tokens, time, and what they may have cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, TypeAlias

from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message
from llmstream.events import FinishReason, Timings, Usage
from llmstream.tools import ToolCallStatus

__all__ = ["Price", "RunState", "Step"]

Price: TypeAlias = Callable[[str, Usage], float | None]
"""What the tokens of a model ("provider:model") cost, in a currency of the caller's; None where unknown."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step that is over: an answer of the model and the calls that it asked for.

    model:         "provider:model"
    statuses:      of the calls that were run or refused here, in call order
    cost_estimate: by the agent's `price`; None where that knows no price
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
    """A run as stop conditions, `prepare_step` and hooks see it.

    step:           the number of the step under way, or of the next between two; from 0
    steps:          those that are over in this process; a resumed run counts on but begins anew here
    usage_by_model: tokens by "provider:model", sub-agents' included
    spent:          model and tokens of each answer in this process, sub-agents' included
    tool_calls:     how many calls were run or refused in this process
    cost_estimate:  the sum of the prices of all answers that are known: an estimate, and at least that;
                    None where none is
    deps:           the application's own object
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
        """The conversation so far; copies."""
        return copy_messages(self.conversation)

    @property
    def total_usage(self) -> Usage:
        """Tokens of the whole run, sub-agents' included."""
        return reduce(add, self.usage_by_model.values(), Usage())

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run was first read, in this process."""
        return 0.0 if self.started is None else self.clock() - self.started

    def priced(self, model: str, usage: Usage) -> float | None:
        """What these tokens may cost, or None."""
        return None if self.price is None else self.price(model, usage)

    def spend(self, model: str, usage: Usage) -> None:
        """Counts the tokens of one answer, and what they cost: a long prompt may have a price of its own."""
        self.usage_by_model[model] = self.usage_by_model.get(model, Usage()) + usage
        self.spent.append((model, usage))
        cost = self.priced(model, usage)
        if cost is not None:
            self.cost_estimate = (self.cost_estimate or 0.0) + cost
