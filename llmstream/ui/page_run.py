"""The events of a run in the form that a page needs, with additional data of the run.

- The calls of sub-agents that wait, which are not calls of the run. They come before the finish.
- The arguments that a person has edited, before the result.
- The estimated cost, in the metadata of the finish.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from llmstream.agent.nested import nested_event, shown_ids
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import OWN_KEY, outcome_mark, outcome_of, own_values
from llmstream.chats.content import ToolResult as ChatResult
from llmstream.chats.ui_form import Card, json_value
from llmstream.events import (
    Custom,
    Event,
    Finish,
    StreamStart,
    ToolApprovalRequest,
    ToolCall,
    ToolResult,
    Usage,
    merge_metadata,
)
from llmstream.tools.approval import Approve, Deny, PendingCall

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun

__all__ = ["CORRECTED", "PageRun", "calls_below", "correct", "settle"]

CORRECTED: Final = "llmstream.call"
"""The kind of a `Custom` event with the arguments that a call runs with, where the page shows others."""

_LOST: Final = "The agent of this call ended without its result."


class PageRun:
    """A run whose events are those that a page needs; closing it closes the run.

    run:           a new one, or one that `Agent.resume` returned
    resumed:       the suspension that it continues
    decisions, results: with which it continues
    before_finish: called once when the run is over: before its last event, with it; or with None when it is
                   closed
    allowed:       the run begins once it is set; one that is closed before has done nothing
    """

    def __init__(
        self,
        run: AgentRun[Any],
        *,
        resumed: Suspension | None = None,
        decisions: Mapping[str, Approve | Deny] = {},
        results: Iterable[ChatResult] = (),
        before_finish: Callable[[Finish | None], Awaitable[None]] | None = None,
        allowed: asyncio.Event | None = None,
    ) -> None:
        self.run = run
        self._allowed = allowed
        self._before_finish = before_finish
        names = {} if resumed is None else shown_ids(resumed)
        self._edited = [] if resumed is None else list(_edited(resumed, decisions, names))
        # Calls of sub-agents that the page shows, and that have no result yet.
        self._nested = {} if resumed is None else _nested(resumed, names)
        self._cards = {i: Card(i, call.name, call.arguments) for i, call in self._nested.items()}
        for edited in self._edited:
            correct(self._cards, edited)
        self._given = {names.get(result.tool_call_id, result.tool_call_id) for result in results}
        self._events: AsyncGenerator[Event] | None = None

    @property
    def total_usage(self) -> Usage:
        """Tokens of the run so far."""
        return self.run.total_usage

    @property
    def cards(self) -> list[Card]:
        """The calls of sub-agents that the page shows: those that waited before the run, or wait now."""
        return list(self._cards.values())

    def __aiter__(self) -> AsyncGenerator[Event]:
        self._events = self._read()
        return self._events

    async def aclose(self) -> None:
        """Closes the run."""
        if self._events is not None:
            await self._events.aclose()
        await self.run.aclose()

    async def _read(self) -> AsyncGenerator[Event]:
        if self._allowed is not None:
            await self._allowed.wait()
        try:
            async with self.run, aclosing(aiter(self.run)) as events:
                async for event in events:
                    if isinstance(event, Finish):
                        for added in self._missing():
                            yield added
                        # Stored before the page receives the end, so that its next request finds it.
                        event = _with_cost(event, self.run.cost_estimate)
                        await self._over(event)
                    elif isinstance(event, ToolResult) and event.tool_call_id in self._given:
                        # The model gets the page's output as text; the page has it as a value.
                        shown = json_value(event.result) if isinstance(event.result, str) else event.result
                        event = msgspec.structs.replace(event, result=shown)
                    yield event
                    for added in self._after(event):
                        yield added
        finally:
            # The run is closed, and its history is complete. A second cancellation must not lose it.
            await asyncio.shield(asyncio.ensure_future(self._over()))

    async def _over(self, finish: Finish | None = None) -> None:
        before_finish, self._before_finish = self._before_finish, None
        if before_finish is not None:
            await before_finish(finish)

    def _after(self, event: Event) -> Iterator[Event]:
        if isinstance(event, StreamStart):
            yield from self._edited
            return
        result = _nested_result(event) if self._nested else None
        if result is not None and self._nested.pop(result.tool_call_id, None) is not None:
            settle(self._cards, result)
            yield result

    def _missing(self) -> Iterator[Event]:
        """Events about waiting calls, and calls that waited and have no result, that the page lacks."""
        suspension = self.run.suspended
        waiting = {} if suspension is None else _nested(suspension, shown_ids(suspension))
        for call_id, lost in self._nested.items():
            if call_id not in waiting:
                mark = outcome_mark("cancelled")
                result = ToolResult(_LOST, call_id, lost.name, is_error=True, provider_metadata=mark)
                settle(self._cards, result)
                yield result
        for call_id, call in waiting.items():
            self._cards.setdefault(call_id, Card(call_id, call.name, call.arguments))
            if call.approval_id and call_id not in self._nested:
                yield ToolCall(call.name, call.arguments, call_id)
                yield ToolApprovalRequest(call_id, call.approval_id)


def calls_below(events: Iterable[Event]) -> set[str]:
    """The ids of calls of sub-agents among the calls and results of a page's run: they are in no message."""
    events = list(events)
    above = {nested.parent_call for event in events if (nested := nested_event(event)) is not None}
    ids = {event.tool_call_id for event in events if isinstance(event, ToolCall | ToolResult)}
    return {call_id for call_id in ids if any(parent in above for parent in _parents(call_id))}


def _parents(call_id: str) -> Iterator[str]:
    """Calls that the id may begin with; ids of vendors may contain slashes of their own."""
    return (call_id[:place] for place, character in enumerate(call_id) if character == "/")


def correct(cards: dict[str, Card], event: Custom) -> bool:
    """Sets the arguments that a person has edited; returns whether they are those of a card."""
    edited = own_values(event.provider_metadata)
    card = cards.get(str(edited.get("call_id")))
    if card is not None:
        cards[card.id] = msgspec.structs.replace(card, arguments=str(edited.get("arguments")))
    return card is not None


def settle(cards: dict[str, Card], result: ToolResult) -> bool:
    """Sets the result of a card; returns whether there is one."""
    card = cards.get(result.tool_call_id)
    if card is not None:
        outcome = outcome_of(result.provider_metadata)
        cards[card.id] = card.ended(result.result, result.is_error, outcome)
    return card is not None


def _nested(suspension: Suspension, names: Mapping[str, str]) -> dict[str, PendingCall]:
    """The waiting calls of sub-agents, by the ids that the page has of them."""
    return {names[call.call_id]: call for _, _, call in suspension.within}


def _edited(
    resumed: Suspension, decisions: Mapping[str, Approve | Deny], names: Mapping[str, str]
) -> Iterator[Custom]:
    """The approved calls that run with other arguments than the page shows."""
    for call in resumed.pending:
        decision = decisions.get(call.approval_id)
        if isinstance(decision, Approve) and decision.arguments is not None:
            arguments = msgspec.json.encode(dict(decision.arguments)).decode()
            # Not a `tool-call`, which the model has not made.
            value = {"call_id": names[call.call_id], "name": call.name, "arguments": arguments}
            yield Custom(CORRECTED, {OWN_KEY: value})


def _nested_result(event: Event) -> ToolResult | None:
    """The final result of a sub-agent's call, with the id under which the page shows the call."""
    path: list[str] = []
    while (nested := nested_event(event)) is not None:
        path.append(nested.parent_call)
        event = nested.event
    if not path or not isinstance(event, ToolResult) or event.preliminary:
        return None
    return msgspec.structs.replace(event, tool_call_id="/".join([*path, event.tool_call_id]))


def _with_cost(finish: Finish, cost: float | None) -> Finish:
    if cost is None:
        return finish
    metadata = merge_metadata(finish.provider_metadata, {OWN_KEY: {"cost": cost}})
    return msgspec.structs.replace(finish, provider_metadata=metadata)
