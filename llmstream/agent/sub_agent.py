"""An agent as a tool of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmstream.agent.nested import Nested, Spent
from llmstream.errors import InvalidRequest, LLMStreamError, ToolError
from llmstream.events import Finish, Raw, StreamStart
from llmstream.tools import Tool, ToolContext, ToolOutput, tool_from_function

if TYPE_CHECKING:
    from llmstream.agent.agent import Agent
    from llmstream.agent.run import AgentRun

__all__ = ["sub_agent_tool"]


def sub_agent_tool(agent: Agent, name: str, description: str, **options: Any) -> Tool:
    """The tool that asks the agent; see `Agent.as_tool`.

    raises: InvalidRequest where neither tool nor agent has a name
    """
    if not name:
        raise InvalidRequest("an agent that is a tool needs a name: agent.as_tool('research', ...)")

    async def ask(prompt: str, context: ToolContext) -> ToolOutput:
        async with agent.stream(prompt, context=context.app, within_s=context.remaining_s) as run:
            try:
                await _tell(run, agent.name or name, context)
            except LLMStreamError as error:
                raise ToolError(f"The agent {name} failed: {error}") from error
            finally:
                await context.report(Spent(dict(run.usage_by_model)))
            if run.suspended is not None:
                waiting = ", ".join(map(str, run.suspended.pending))
                raise ToolError(f"The agent {name} cannot go on without a decision about {waiting}.")
            return ToolOutput(run.text, value=run.message)

    words = description or f"Ask the agent {name}."
    return tool_from_function(ask, name=name, description=words, **options)


async def _tell(run: AgentRun, name: str, context: ToolContext) -> None:
    """Reports the events of the run; where its sentence begins and ends says the call itself."""
    async for event in run:
        if not isinstance(event, StreamStart | Finish | Raw):
            await context.report(Nested(name, event))
