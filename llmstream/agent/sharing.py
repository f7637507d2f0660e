"""Several agents in one chat: what each of them sees of it, and what it adds."""

from __future__ import annotations

from collections.abc import Iterable

from llmstream.chats.content import Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role

__all__ = ["own_view", "shared_message"]


def own_view(messages: Iterable[Message], name: str) -> list[Message]:
    """The chat as the agent of this name sees it.

    To a model an assistant's message is one of its own. So what other agents said is shown as a
    user's, with the sender's name before it; their tool calls and results are left out.
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


def shared_message(said: Message, name: str) -> Message:
    """The answer as it joins the chat: without calls, whose results stay with the agent."""
    parts = tuple([part for part in said.parts if not isinstance(part, ToolCall | ToolResult)])
    return Message(name, Role.ASSISTANT, parts, said.metadata)
