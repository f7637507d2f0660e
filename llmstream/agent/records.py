"""What a step leaves: its calls as they ran, their results, and the run as a value where it waits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from llmstream.agent.answer import Answer
from llmstream.agent.calls import StepCalls
from llmstream.agent.config import AgentConfig
from llmstream.agent.state import RunState
from llmstream.agent.suspension import Suspension
from llmstream.chats.content import File, Reasoning, Source, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.errors import IncompleteStream, LLMStreamError
from llmstream.tools import ToolCallStatus

__all__ = ["in_call_order", "is_empty", "results_of", "said_nothing", "shown_as_run", "suspension_of"]

_NO_ANSWER: Final = (Reasoning, ToolCall, ToolResult, Source)

_WAITS = "The call waits for a decision and has not run."
_WAITS_WITHIN = "The agent that this call asked waits for a decision about a call of its own."


def shown_as_run(message: Message, calls: StepCalls) -> Message:
    """The message with its calls as they ran: mended, and with the arguments that were approved."""
    parts = list(message.parts)
    for at, part in enumerate(parts):
        ran = calls.calls.get(part.id) if isinstance(part, ToolCall) else None
        if isinstance(part, ToolCall) and ran is not None:
            parts[at] = msgspec.structs.replace(part, name=ran.name, arguments=ran.arguments)
    return msgspec.structs.replace(message, parts=tuple(parts))


def in_call_order(calls: StepCalls, message: Message) -> tuple[ToolCallStatus, ...]:
    """The statuses of the calls that are done, as the message has them."""
    order = {call.id: at for at, call in enumerate(message.tool_calls)}
    done = calls.statuses.values()
    return tuple(sorted(done, key=lambda status: order.get(status.tool_call_id, math.inf)))


def results_of(calls: StepCalls | None, earlier: Mapping[str, ToolResult]) -> dict[str, ToolResult]:
    """The results of the step so far; of a call that waits, one that says so.

    earlier: those from before a suspension
    """
    if calls is None:
        return dict(earlier)
    waiting = {p.call_id: ToolResult(p.call_id, _WAITS, True, p.name) for p in calls.waiting.values()}
    within = {i: ToolResult(i, _WAITS_WITHIN, True, calls.calls[i].name) for i in calls.inner}
    return {**earlier, **waiting, **within, **calls.results}


def suspension_of(
    config: AgentConfig,
    state: RunState,
    calls: StepCalls,
    earlier: Mapping[str, ToolResult],
    inbox: Sequence[Message],
) -> Suspension:
    """The run as a value, with the calls that wait and the results of those that are done."""
    done = {**earlier, **calls.results}
    return Suspension.sealed(
        state.conversation,
        calls.waiting.values(),
        done.values(),
        inner=calls.inner,
        inbox=inbox,
        agent=config.name,
        step=state.step,
        usage_by_model=state.usage_by_model,
        cost_estimate=state.cost_estimate,
        key=config.approval_key,
        ttl_s=config.approval_ttl_s,
    )


def is_empty(message: Message) -> bool:
    """Whether a message gives its reader nothing: thoughts, calls and sources are no answer."""
    return all(
        not part.text.strip() if isinstance(part, Text) else isinstance(part, _NO_ANSWER)
        for part in message.parts
    )


def said_nothing(answer: Answer, message: Message) -> LLMStreamError | None:
    """An answer of which the limit of tokens left nothing is no answer, nor is one cut in its only call."""
    if answer.finish.finish_reason != "length":
        return None
    if answer.cut_call and not any(isinstance(part, ToolCall) for part in message.parts):
        words = "the answer reached its limit of tokens amid a tool call. Raise max_output_tokens."
    elif not any(isinstance(part, Text | ToolCall | File) for part in message.parts):
        words = "the answer reached its limit of tokens before it said anything. Raise max_output_tokens."
    else:
        return None
    error = IncompleteStream(words, provider=answer.stream.model.provider.name, retryable=False)
    error.partial, error.usage = message, answer.usage
    return error
