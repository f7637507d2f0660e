"""An agent as a tool of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from llmstream.agent.decisions import Approve, Deny
from llmstream.agent.nested import Nested, Spent, Waits
from llmstream.agent.resumption import Continuation, Results, Resumption
from llmstream.agent.run import AgentRun
from llmstream.agent.suspension import Suspension
from llmstream.agent.unfinished import answer_of
from llmstream.errors import InvalidRequest, LLMStreamError, ToolError
from llmstream.events import Finish, Raw, StreamStart
from llmstream.tools import Tool, ToolContext, ToolOutput, tool_from_function

__all__ = ["sub_agent_tool"]


class AskedAgent(Protocol):
    """What the tool needs of an `Agent`, which makes such tools, so that they do not know it."""

    name: str

    def stream(self, prompt: str, *, deps: Any = None) -> AgentRun:
        """One run."""

    def resume(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Results = (),
        deps: Any = None,
    ) -> AgentRun:
        """Goes on with a run that was suspended."""

    def check(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Results = (),
    ) -> Resumption:
        """Whether `resume` would take these."""


def sub_agent_tool(agent: AskedAgent, name: str, description: str, **options: Any) -> Tool:
    """The tool that asks the agent; see `Agent.as_tool`.

    raises: InvalidRequest where neither tool nor agent has a name
    """
    if not name:
        raise InvalidRequest("an agent that is a tool needs a name: agent.as_tool('research', ...)")
    words = description or f"Ask the agent {name}."
    return tool_from_function(_Asking(agent, name), name=name, description=words, **options)


class _Asking:
    """The function of the tool: one run of the agent, from its beginning or from where it waited."""

    def __init__(self, agent: AskedAgent, name: str) -> None:
        self.agent = agent
        self._name = name

    def check_continuation(self, continuation: Continuation) -> None:
        """See `Continues`."""
        self.agent.check(continuation.suspension, continuation.decisions, results=continuation.results)

    async def __call__(self, prompt: str, context: ToolContext) -> ToolOutput:
        async with self._run(prompt, context) as run:
            try:
                await _tell(run, self.agent.name or self._name, context)
            except LLMStreamError as error:
                raise ToolError(f"The agent {self._name} failed: {error}") from error
            finally:
                await context.report(Spent(tuple(run.state.spent)))
            if run.suspended is not None:
                await context.report(Waits(run.suspended))
                # What a caller reads that has no way to wait:
                waiting = ", ".join(map(str, run.suspended.pending))
                raise ToolError(f"The agent {self._name} cannot go on without a decision about {waiting}.")
            return ToolOutput(run.text, value=self._value(run))

    def _value(self, run: AgentRun) -> Any:
        """What the application gets: the message, or of an answer of a type its value.

        raises: ToolError where the run has no answer, or one that does not fit
        """
        try:
            return answer_of(run)
        except LLMStreamError as error:
            raise ToolError(f"The agent {self._name} gave no answer: {error}") from error

    def _run(self, prompt: str, context: ToolContext) -> AgentRun:
        found = context.continued
        if isinstance(found, Continuation):
            run = self.agent.resume(
                found.suspension, found.decisions, results=found.results, deps=context.deps
            )
        else:
            run = self.agent.stream(prompt, deps=context.deps)
        run._limit(context.remaining_s)
        return run


async def _tell(run: AgentRun, name: str, context: ToolContext) -> None:
    """Reports the events of the run; where its sentence begins and ends says the call itself."""
    async for event in run:
        if not isinstance(event, StreamStart | Finish | Raw):
            await context.report(Nested(name, event))
