"""An agent as a tool of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from llmstream.agent.nested import Nested, Spent, Waits
from llmstream.agent.resumption import Continuation, Results, Resumption
from llmstream.agent.run import AgentRun, answer_of
from llmstream.agent.suspension import Suspension
from llmstream.errors import InvalidRequest, LLMStreamError, ToolError
from llmstream.events import Finish, Raw, StreamStart
from llmstream.tools.approval import Approve, Deny
from llmstream.tools.context import ToolContext
from llmstream.tools.function import tool_from_function
from llmstream.tools.outcome import ToolOutput
from llmstream.tools.tool import Tool

__all__ = ["sub_agent_tool"]


class SubAgent(Protocol):
    """The part of `Agent` that the tool needs; `agent.py` imports this module, so it is not imported here."""

    name: str

    def stream(self, prompt: str, *, deps: Any = None) -> AgentRun:
        """Starts a run."""

    def resume(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Results = (),
        deps: Any = None,
    ) -> AgentRun:
        """Continues a suspended run."""

    def check(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Results = (),
    ) -> Resumption:
        """Checks the arguments of `resume`."""


def sub_agent_tool(agent: SubAgent, name: str, description: str, **options: Any) -> Tool:
    """The tool that runs the agent; see `Agent.as_tool`.

    raises: InvalidRequest if neither tool nor agent has a name
    """
    if not name:
        raise InvalidRequest("an agent used as a tool needs a name: agent.as_tool('research', ...)")
    text = description or f"Ask the agent {name}."
    return tool_from_function(_SubAgentFunction(agent, name), name=name, description=text, **options)


class _SubAgentFunction:
    """The function of the tool: starts a run of the agent, or resumes a suspended one."""

    def __init__(self, agent: SubAgent, name: str) -> None:
        self.agent = agent
        self._name = name

    def check_continuation(self, continuation: Continuation) -> None:
        """See `Continues`."""
        self.agent.check(continuation.suspension, continuation.decisions, results=continuation.results)

    async def __call__(self, prompt: str, context: ToolContext) -> ToolOutput:
        async with self._run(prompt, context) as run:
            try:
                await _report_events(run, self.agent.name or self._name, context)
            except LLMStreamError as error:
                raise ToolError(f"The agent {self._name} failed: {error}") from error
            finally:
                await context.report(Spent(tuple(run.state.spent)))
            if run.suspended is not None:
                await context.report(Waits(run.suspended))
                # A caller that cannot wait reads this error.
                waiting = ", ".join(map(str, run.suspended.pending))
                raise ToolError(f"The agent {self._name} cannot continue without a decision about {waiting}.")
            return ToolOutput(run.text, value=self._value(run))

    def _value(self, run: AgentRun) -> Any:
        """The answer for the application: the value if it has an output type, else the message.

        raises: ToolError if the run has no answer, or one that does not fit its type
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


async def _report_events(run: AgentRun, name: str, context: ToolContext) -> None:
    """Reports the events of the run, without start and finish: the call itself marks these."""
    async for event in run:
        if not isinstance(event, StreamStart | Finish | Raw):
            await context.report(Nested(name, event))
