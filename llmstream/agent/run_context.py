"""State that the steps of one run share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from llmstream.agent.approvals import CallGate
from llmstream.agent.calls import StepCalls
from llmstream.agent.config import AgentConfig
from llmstream.agent.history import SettledPart
from llmstream.agent.hooks import Again, Approve, Deny, Stop
from llmstream.agent.journal import RunJournal
from llmstream.agent.model_response import PlanMemory
from llmstream.agent.nested import OWN_KEY
from llmstream.agent.observing import RunWatch
from llmstream.agent.state import RunState
from llmstream.chats.content import ToolCall
from llmstream.chats.copying import LateCopies
from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput
from llmstream.events import Event, ResponseMetadata
from llmstream.streams.history import Repairs
from llmstream.tools import ToolContext, ToolSet

__all__ = ["RunContext"]


class Ids:
    """Makes ids unique in a run: prefixes an id with the step's number if an earlier step used it."""

    def __init__(self) -> None:
        self._step_of: dict[str, int] = {}

    def unique(self, event: Event, step: int) -> Event:
        """The event, with an id that no other step uses."""
        for field in ("id", "tool_call_id"):
            block_id = getattr(event, field, None)
            if not isinstance(block_id, str) or isinstance(event, ResponseMetadata):
                continue
            if self._step_of.setdefault(block_id, step) != step:
                changes: dict[str, Any] = {field: f"{step}/{block_id}"}
                own = (getattr(event, "provider_metadata", None) or {}).get(OWN_KEY, {})
                if "parent_call" in own:
                    changes["provider_metadata"] = {OWN_KEY: {**own, "parent_call": changes[field]}}
                return msgspec.structs.replace(event, **changes)
        return event

    def shown(self, call_id: str, step: int) -> str:
        """The id in the run's events for a call of a step."""
        return call_id if self._step_of.get(call_id, step) == step else f"{step}/{call_id}"

    def original(self, shown: str, step: int) -> str:
        """The id within the step, without the prefix that `unique` may have added."""
        bare = shown.removeprefix(f"{step}/")
        return bare if self._step_of.get(bare, step) != step else shown


class RunContext:
    """The configuration, state and journal of one run.

    total_s:    time limit of the run in seconds; None for no limit
    settled:    the part of the history in which every call has a result
    repairs:    the part of the history that was already repaired for vendors
    of_plan:    the same for messages from plans
    inbox:      user messages for the next step
    ids:        maps ids of blocks and calls to those in the run's events
    values:     what tools returned to the application, by the id of the call in the events
    watch:      reports to the run's observer; None without one
    stopped_by: the stop condition, tool or hook that ended the run, or None
    limit:      the limit that ended it before the model had finished, as in `LimitExceeded.reason`
    started:    loop time of the first read
    """

    def __init__(self, config: AgentConfig, state: RunState, total_s: float | None) -> None:
        self.config = config
        self.state = state
        self.total_s = total_s
        self.journal = RunJournal(config.journal, config.name)
        self.watch = None if config.observe is None else RunWatch(config.observe, config.clock)
        self.settled = SettledPart()
        self.repairs = Repairs()
        self.of_plan = PlanMemory()
        self.inbox: list[Message] = []
        self.ids = Ids()
        self.values: dict[str, Any] = {}
        self.stopped_by: str | None = None
        self.limit: str | None = None
        self._rejected = 0
        self.started = 0.0

    def begin(self) -> None:
        """Starts the clocks."""
        self.state.started = self.config.clock()
        self.started = asyncio.get_running_loop().time()

    @property
    def deadline(self) -> float | None:
        """The loop time at which the run must be over, or None."""
        return None if self.total_s is None else self.started + self.total_s

    def stop(self, decision: Stop) -> None:
        """Ends the run on behalf of a hook."""
        self.stopped_by = decision.reason or "a hook stopped the run"

    def cut_short(self, by: str, limit: str | None) -> None:
        """Ends the run on behalf of a stop condition; `limit` names it if it is a limit."""
        self.stopped_by, self.limit = by, limit

    def again(self, decision: Again, message: Message) -> None:
        """Requests another response on behalf of a hook.

        message: the rejected response
        raises:  InvalidOutput once `Hooks.max_again` is used up
        """
        given = decision.feedback
        feedback = Message.user(given) if isinstance(given, str) else given
        self._rejected += 1
        if self._rejected > self.config.hooks.max_again:
            error = InvalidOutput(
                f"after_model rejected {self._rejected} answers; the last feedback was: {feedback.text}",
                reason="again",
            )
            error.partial, error.usage = message, self.state.total_usage
            raise error
        self.inbox.append(feedback)

    def delivered(self) -> list[Message]:
        """Takes the messages out of the inbox."""
        inbox, self.inbox = self.inbox, []
        return inbox

    async def note(self) -> None:
        """Writes new messages of the conversation to the journal."""
        await self.journal.messages(self.state.step, self.state.conversation)

    def calls(self, tools: ToolSet, decided: Mapping[str, Approve | Deny] | None = None) -> StepCalls:
        """Creates the runner for the calls of the current step.

        decided: decisions of a person from before, by the id of the call
        """
        config = self.config
        gate = CallGate(
            self.state,
            config.hooks,
            approve=config.approve,
            repair=config.repair,
            decided=decided,
            context=self._tool_context,
        )
        return StepCalls(
            tools,
            gate,
            self.state,
            after=config.hooks.after_tool,
            limit=config.tool_limit,
            timeout_s=config.tool_timeout_s,
            context=self._tool_context,
            journal=self.journal,
            watch=self.watch,
        )

    def _tool_context(self, call: ToolCall) -> ToolContext:
        state = self.state
        return ToolContext(
            call.id, call.name, state.step, LateCopies(state.conversation), self.deadline, state.deps
        )
