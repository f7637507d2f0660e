"""Conversations as the messages of a page that loads.

Each response of the model is played through the writer, so that a page has the same messages after it was
reloaded, and `read` finds the same conversation in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from llmstream.agent.suspension import Suspension
from llmstream.chats.content import (
    Audio,
    Document,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    data_url,
)
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.events import ToolResult as ToolResultEvent
from llmstream.ui.ag_ui.agent_events import AgentEvents
from llmstream.ui.ag_ui.messages import response_of
from llmstream.ui.ag_ui.output import Output, Settings

__all__ = ["dump"]

_KINDS: Final = {Image: "image", Audio: "audio", Document: "document"}


def dump(messages: Iterable[Message], suspension: Suspension | None = None) -> list[dict[str, Any]]:
    """Returns messages of AG-UI: what `new HttpAgent({initialMessages})` starts with.

    The id of a message is "id" in its metadata, which `read` sets, or else counted. Left out are system
    messages, which are the server's, and sources and files of the model, which are no messages of AG-UI.

    messages:   as `run.messages()` returns them
    suspension: of the last run, if it waits; its calls have no results yet. See `interrupts`
    raises:     InvalidRequest for a role that AG-UI does not have
    """
    waiting: set[str] = set()
    if suspension is not None:
        # Their results are placeholders: the page has to see the calls as waiting.
        waiting = {pending.call_id for pending in suspension.pending} | suspension.inner.keys()
    settings = Settings("history", True, False, lambda error: error.public_message, None)
    output = Output(settings, [])
    agent = AgentEvents(output, prefix="history-")
    for number, message in enumerate(messages):
        given = (message.metadata or {}).get("id")
        name = given if isinstance(given, str) and given else None
        match message.role:
            case Role.SYSTEM:
                continue
            case Role.USER:
                output.transcript.add(_user(message, name or f"history-{number}"))
            case Role.ASSISTANT:
                agent = _responded(output, message, name, number)
            case Role.TOOL:
                for result in message.tool_results:
                    if result.tool_call_id not in waiting:
                        _settle(output, agent, result)
            case role:
                raise InvalidRequest(
                    f"AG-UI has no role {role!r}; remove message {number}, or change its role"
                )
    return output.transcript.messages


def _responded(output: Output, message: Message, name: str | None, number: int) -> AgentEvents:
    """Writes a response of the model; its results belong to what is returned."""
    # The ids that the writer gave them, so that a page that reloads has the same messages.
    prefix, step = response_of(name or "") or (f"{name or 'history'}-", number)
    agent = AgentEvents(output, prefix=prefix)
    agent.feed(StepStart(step))
    for place, part in enumerate(message.parts):
        if isinstance(part, ToolResult):
            _settle(output, agent, part)
        for event in _events(part, str(place)):
            agent.feed(event)
    agent.close(failed=False)
    return agent


def _events(part: Part, block: str) -> Iterator[Event]:
    match part:
        case Text(text, metadata):
            yield from (TextStart(block), TextDelta(text, block), TextEnd(block, False, metadata))
        case Reasoning(text, metadata):
            yield from (ReasoningStart(block), ReasoningDelta(text, block))
            yield ReasoningEnd(block, False, metadata)
        case ToolCall(call_id, name, arguments, by_provider, metadata):
            yield ToolCallEvent(name, arguments or "{}", call_id, by_provider, provider_metadata=metadata)


def _settle(output: Output, agent: AgentEvents, result: ToolResult) -> None:
    # The vendor may have given null; an empty text with no value is a result that was text.
    by_value = result.provider_executed and (result.result is not None or result.content in ("", "null"))
    value = result.result if by_value else result.content
    event = ToolResultEvent(
        value,
        result.tool_call_id,
        result.name,
        is_error=result.is_error,
        provider_executed=result.provider_executed,
        provider_metadata=result.metadata,
    )
    agent.feed(event)
    if result.parts:
        text = [{"type": "text", "text": result.content}] if result.content else []
        shown = agent.result_id(result.tool_call_id)
        output.transcript.replace_content(shown, [*text, *[_file(part) for part in result.parts]])


def _user(message: Message, name: str) -> dict[str, Any]:
    shown = {"id": name, "role": "user", **({"name": message.sender} if message.sender else {})}
    if all(isinstance(part, Text) for part in message.parts):
        return {**shown, "content": message.text}
    return {**shown, "content": [content for part in message.parts for content in _contents(part)]}


def _contents(part: Part) -> Iterator[dict[str, Any]]:
    if isinstance(part, Text):
        yield {"type": "text", "text": part.text}
    elif isinstance(part, Image | Audio | Document):
        yield _file(part)


def _file(part: Image | Audio | Document) -> dict[str, Any]:
    source = {"type": "url", "value": part.url}
    if not part.url:
        data = data_url(part.data, part.media_type).partition(",")[2]
        source = {"type": "data", "value": data}
    # Of a file at an address the server that has it knows the type; data has no other source for it.
    media_type = part.media_type or ("" if part.url else "application/octet-stream")
    return {"type": _KINDS[type(part)], "source": source | ({"mimeType": media_type} if media_type else {})}
