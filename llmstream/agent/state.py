"""The state of a run, as a table too, and stop conditions: callables of it, called after each step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from llmstream.chats.message import Message, copy_messages
from llmstream.errors import InvalidRequest, InvalidToolInput, UnknownTool
from llmstream.events import FinishReason, Timings, Usage
from llmstream.tools.outcome import ToolCallStatus
from llmstream.tools.signature import check_arguments

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun
    from llmstream.display.table import TableRow

__all__ = [
    "MAX_INVALID_CALLS",
    "Budget",
    "Expense",
    "Misses",
    "Price",
    "RunState",
    "Step",
    "StopCondition",
    "as_conditions",
    "cost_over",
    "elapsed_over",
    "no_progress",
    "run_table",
    "step_count",
    "tokens_over",
    "tool_called",
    "tool_calls_over",
]

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


class Expense(NamedTuple):
    """The usage of one response.

    model: "provider:model"
    cost:  by the agent's `price` on arrival; None if unknown
    """

    model: str
    usage: Usage
    cost: float | None = None


@dataclass(slots=True)
class RunState:
    """The state of a run, as passed to stop conditions, `prepare_step` and hooks.

    step:           the number of the current step, or between two steps of the next; from 0
    steps:          the steps completed in this process; in a resumed run, `step` continues and this is empty
    usage_by_model: tokens by "provider:model", including sub-agents
    spent:          model, tokens and cost of each response in this process, including sub-agents
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
    spent: list[Expense] = field(default_factory=list, repr=False)
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

    def spend(self, model: str, usage: Usage, cost: float | None = None) -> None:
        """Adds the tokens of one response and their cost: per response, as long prompts may cost more.

        cost: if already known
        """
        self.usage_by_model[model] = self.usage_by_model.get(model, Usage()) + usage
        cost = self.priced(model, usage) if cost is None else cost
        self.spent.append(Expense(model, usage, cost))
        if cost is not None:
            self.cost_estimate = (self.cost_estimate or 0.0) + cost


StopCondition: TypeAlias = Callable[[RunState], bool | Awaitable[bool]]
"""Returns whether the run should end; sync or async. The results of the last step stay in the history."""

_Sync: TypeAlias = Callable[[RunState], bool]


class Budget:
    """A condition that is a limit: it ends a run before the model has finished, so `Agent.run` raises.

    reason: the reason of the `LimitExceeded` of `Agent.run`
    name:   the value of `run.stopped_by`
    """

    def __init__(self, reason: str, name: str, reached: _Sync) -> None:
        self.reason = reason
        # `run.stopped_by` reports the name of any condition, whether a function or one of these.
        self.__name__ = self.__qualname__ = name
        self._reached = reached

    def __call__(self, state: RunState) -> bool:
        """Whether the run has reached the limit."""
        return self._reached(state)

    def __repr__(self) -> str:
        return self.__name__


def _named(condition: _Sync, name: str) -> StopCondition:
    """Sets the name that `run.stopped_by` returns."""
    condition.__name__ = condition.__qualname__ = name
    return condition


def step_count(steps: int) -> StopCondition:
    """Stops after a number of steps.

    raises: InvalidRequest for less than one
    """
    if steps < 1:
        raise InvalidRequest(f"steps must be at least 1, got {steps}")
    return Budget("step_count", f"step_count({steps})", lambda state: state.step >= steps)


def tool_called(*names: str) -> StopCondition:
    """Stops after a step that called one of these tools, whatever the result."""
    wanted = frozenset(names)

    def called(state: RunState) -> bool:
        return bool(state.steps) and any(status.name in wanted for status in state.steps[-1].statuses)

    return _named(called, f"tool_called({', '.join(map(repr, names))})")


def tokens_over(tokens: int) -> StopCondition:
    """Stops once the run has used more tokens than this, input and output together."""
    return Budget("tokens_over", f"tokens_over({tokens})", lambda state: _tokens(state) > tokens)


def tool_calls_over(calls: int) -> StopCondition:
    """Stops once more tool calls than this were run or refused; checked after each step."""
    return Budget("tool_calls_over", f"tool_calls_over({calls})", lambda state: state.tool_calls > calls)


def cost_over(cost: float) -> StopCondition:
    """Stops once the estimated cost is higher than this. Without the agent's `price` it never stops."""
    return Budget("cost_over", f"cost_over({cost:g})", lambda state: (state.cost_estimate or 0.0) > cost)


def elapsed_over(seconds: float) -> StopCondition:
    """Stops after this time, checked between steps; `Deadlines(total_s=...)` also ends a running step."""
    return Budget("elapsed_over", f"elapsed_over({seconds:g})", lambda state: state.elapsed_s > seconds)


def no_progress(steps: int = 3) -> StopCondition:
    """Stops once this many steps in a row made the same calls with the same results.

    raises: InvalidRequest for less than two
    """
    if steps < 2:
        raise InvalidRequest(f"no_progress compares at least 2 steps, got {steps}")

    def same(state: RunState) -> bool:
        last = state.steps[-steps:]
        # Steps without calls have nothing to repeat.
        return len(last) == steps and bool(last[0].statuses) and len({_done(step) for step in last}) == 1

    return Budget("no_progress", f"no_progress({steps})", same)


def as_conditions(given: StopCondition | Iterable[StopCondition] | None) -> tuple[StopCondition, ...]:
    """The conditions as a tuple.

    raises: InvalidRequest if one is not a function
    """
    if given is None:
        return ()
    if not callable(given) and not isinstance(given, Iterable):
        raise InvalidRequest(
            f"stop_when must be a function of the run's state or a list of them, got {given!r}"
        )
    conditions = (given,) if callable(given) else tuple(given)
    wrong = next((c for c in conditions if not callable(c)), None)
    if wrong is not None:
        raise InvalidRequest(f"a stop condition must be a function of the run's state, got {wrong!r}")
    for condition in conditions:
        check_arguments("a stop condition", condition, "state")
    return conditions


def _tokens(state: RunState) -> int:
    usage = state.total_usage
    if usage.total_tokens is not None:
        return usage.total_tokens
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _done(step: Step) -> bytes:
    calls = {call.id: (call.name, call.arguments) for call in step.message.tool_calls}
    return msgspec.json.encode(
        [(calls.get(s.tool_call_id, s.name), s.result.content, s.result.is_error) for s in step.statuses]
    )


# The limit on invalid calls: a model that repeats the same mistake in each step does not recover.

MAX_INVALID_CALLS: Final = 3
"""Steps with invalid calls of one tool. Models that use the error text succeed at the second try."""

# The key for calls of tools that do not exist, whatever their names.
_UNKNOWN: Final = ""


class Misses:
    """Counts, for each tool, the steps with invalid calls since its last valid call.

    limit: steps after which the run ends; None for never
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}

    def over(self, statuses: Iterable[ToolCallStatus]) -> bool:
        """Counts one more step; returns whether a limit is reached. A call that ran resets its count."""
        missed: set[str] = set()
        ran: set[str] = set()
        for status in statuses:
            match status.exception:
                case UnknownTool():
                    missed.add(_UNKNOWN)
                case InvalidToolInput():
                    missed.add(status.name)
                case _:
                    ran.add(status.name)
        for name in ran:
            self._counts.pop(name, None)
        # For a model that invents names and never calls a real tool, nothing else resets the count.
        if ran and _UNKNOWN not in missed:
            self._counts.pop(_UNKNOWN, None)
        # A tool with a valid call in this step made progress.
        for name in missed - ran:
            self._counts[name] = self._counts.get(name, 0) + 1
        return self._limit is not None and any(self._counts[n] >= self._limit for n in missed - ran)


# The steps of a run as an HTML table for notebooks.


def run_table(run: AgentRun[Any]) -> str:
    """The completed steps of a run: model, calls, tokens, cost and times of each, and their sums.

    The sum of the tokens includes sub-agents. The times are those of the responses, without tools.
    """
    # Imported only for notebooks.
    from llmstream.display.table import CallCell, TableRow, html_table

    times = [step.timings.total_s for step in run.steps if step.timings.total_s is not None]
    total = TableRow(
        "Total", usage=run.total_usage, cost=run.cost_estimate, total_s=sum(times) if times else None
    )
    rows = [_row(step) for step in run.steps]
    if run.suspended is not None:
        calls = [CallCell(call.name, pending=True) for call in run.suspended.pending]
        rows.append(TableRow(str(run.step), finish="suspended", calls=calls, usage=run.usage))
    return html_table(repr(run).strip("<>"), rows, total, error=run.error)


def _row(step: Step) -> TableRow:
    from llmstream.display.table import CallCell, TableRow

    ran = {status.tool_call_id for status in step.statuses}
    calls = [CallCell(status.name, status.error) for status in step.statuses]
    # Calls that the vendor ran have their results in the message; others wait for a decision.
    done = ran | {result.tool_call_id for result in step.message.tool_results}
    calls += [
        CallCell(call.name, pending=call.id not in done)
        for call in step.message.tool_calls
        if call.id not in ran
    ]
    return TableRow(
        str(step.number),
        step.model,
        step.finish_reason,
        calls,
        step.usage,
        step.cost_estimate,
        step.timings.first_content_s,
        step.timings.total_s,
    )
