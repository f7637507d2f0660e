"""What the steps of one run share, and what they leave for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from llmstream.agent.answer import PlanMemory
from llmstream.agent.calls import StepCalls
from llmstream.agent.config import AgentConfig
from llmstream.agent.decisions import Again, Approve, Deny, Stop
from llmstream.agent.history import SettledPart
from llmstream.agent.ids import Ids
from llmstream.agent.journal import RunJournal
from llmstream.agent.state import RunState
from llmstream.agent.verdicts import Judge
from llmstream.agent.watching import RunWatch
from llmstream.chats.content import ToolCall
from llmstream.chats.copying import LateCopies
from llmstream.chats.message import Message
from llmstream.errors import InvalidOutput
from llmstream.streams.history import Repairs
from llmstream.tools import ToolContext, ToolSet

__all__ = ["Course"]


class Course:
    """The agent, the state and the journal of one run, and what has been said to it meanwhile.

    total_s:    how long the run may take; None for ever
    settled:    what of the history has a result for every call
    repairs:    what of the history was made fit for vendors already
    of_plan:    the same of what plans showed in its place
    inbox:      user messages that wait for the next step
    ids:        of blocks and calls, as the events have them
    values:     what tools gave the application, by the id that the events have for the call
    watch:      tells the run's observer; None where there is none
    stopped_by: the stop condition, tool or hook that ended the run, or None
    limit:      the limit that ended it before the model was done, as `LimitExceeded.reason` has it
    started:    in loop time, when the run was first read
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
        """The clocks run from now on."""
        self.state.started = self.config.clock()
        self.started = asyncio.get_running_loop().time()

    @property
    def deadline(self) -> float | None:
        """When the run has to be over, in loop time."""
        return None if self.total_s is None else self.started + self.total_s

    def stop(self, said: Stop) -> None:
        """A hook ends the run."""
        self.stopped_by = said.reason or "a hook stopped the run"

    def cut_short(self, by: str, limit: str | None) -> None:
        """A condition ends the run; where it is a limit, the model was not done."""
        self.stopped_by, self.limit = by, limit

    def again(self, said: Again, message: Message) -> None:
        """A hook has the model answer once more.

        message: the answer that will not do
        raises:  InvalidOutput once `Hooks.max_again` is used up
        """
        feedback = said.feedback
        asked = Message.user(feedback) if isinstance(feedback, str) else feedback
        self._rejected += 1
        if self._rejected > self.config.hooks.max_again:
            error = InvalidOutput(
                f"after_model rejected {self._rejected} answers; of the last it says: {asked.text}",
                reason="again",
            )
            error.partial, error.usage = message, self.state.total_usage
            raise error
        self.inbox.append(asked)

    def delivered(self) -> list[Message]:
        """Takes what is in the inbox."""
        inbox, self.inbox = self.inbox, []
        return inbox

    async def note(self) -> None:
        """Journals what is new in the conversation."""
        await self.journal.messages(self.state.step, self.state.conversation)

    def calls(self, tools: ToolSet, decided: Mapping[str, Approve | Deny] | None = None) -> StepCalls:
        """Where the calls of the step under way run.

        decided: a person's decisions from before, by the id of the call
        """
        config = self.config
        judge = Judge(
            self.state,
            config.hooks,
            approve=config.approve,
            repair=config.repair,
            decided=decided,
            context=self._context,
        )
        return StepCalls(
            tools,
            judge,
            self.state,
            after=config.hooks.after_tool,
            limit=config.tool_limit,
            timeout_s=config.tool_timeout_s,
            context=self._context,
            journal=self.journal,
            watch=self.watch,
        )

    def _context(self, call: ToolCall) -> ToolContext:
        state = self.state
        return ToolContext(
            call.id, call.name, state.step, LateCopies(state.conversation), self.deadline, state.deps
        )
