"""Several agents: one as a tool of another, or all in one chat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from llmstream.agent.hooks import Approve, Deny
from llmstream.agent.nested import Nested, Spent, Waits
from llmstream.agent.resumption import Continuation, Results, Resumption
from llmstream.agent.run import AgentRun, answer_of
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest, LLMStreamError, ToolError
from llmstream.events import Finish, Raw, StreamStart
from llmstream.tools import Tool, ToolContext, ToolOutput, tool_from_function

__all__ = ["own_view", "shared_message", "sub_agent_tool"]


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


# Several agents in one chat: the messages that each of them receives and adds.


def own_view(messages: Iterable[Message], name: str) -> list[Message]:
    """The chat as sent to the agent of this name.

    A model takes assistant messages for its own. So messages of other agents become user messages with
    the sender's name in front; their tool calls and results are left out.
    """
    seen: list[Message] = []
    foreign: set[str] = set()
    for message in messages:
        if message.role == Role.TOOL:
            own = [part for part in message.tool_results if part.tool_call_id not in foreign]
            if own:
                seen.append(Message(message.sender, message.role, tuple(own), message.metadata))
        elif message.role != Role.ASSISTANT or message.sender == name:
            foreign -= {call.id for call in message.tool_calls}
            seen.append(message)
        else:
            foreign |= {call.id for call in message.tool_calls}
            text = message.text
            if text:
                seen.append(
                    Message(message.sender, Role.USER, (Text(f"{message.sender or 'assistant'}: {text}"),))
                )
    return seen


def shared_message(message: Message, name: str) -> Message:
    """The answer for the chat, without calls, because their results are not in the chat."""
    parts = tuple([part for part in message.parts if not isinstance(part, ToolCall | ToolResult)])
    return Message(name, Role.ASSISTANT, parts, message.metadata)
