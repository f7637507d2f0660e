"""The progress of a sub-agent as a UI message: the preliminary output of the call that runs it.

    {"id": CALL_ID, "role": "assistant", "metadata": {"agent": "research"}, "parts": [...]}

A page draws it as it draws any message. The final output of the call is the sub-agent's answer.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.agent.nested import nested_event
from llmstream.chats.ui_form import json_value
from llmstream.events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RetryNotice,
    Source,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolResult,
)

__all__ = ["SubAgentMessage"]

# A message is rewritten once it has grown by one part in this number: total output stays linear in the
# sub-agent's text, and a message of 1,000 characters is rewritten after every 125 characters.
_EARNED_PER_CHAR: Final = 8

# Characters that any other event counts for: a call or a result justifies a message of about 2 KB.
_EARNED_PER_EVENT: Final = 2000


class SubAgentMessage:
    """The message of one sub-agent, built from its events.

    call_id:   of the call that runs it
    reasoning: False leaves the reasoning out
    """

    def __init__(self, call_id: str, agent: str, *, reasoning: bool = True) -> None:
        self._id, self._agent = call_id, agent
        self._parts: list[dict[str, Any]] = []
        self._step_begin = 0  # index in _parts where the current step begins
        self._texts: dict[str, list[str]] = {}  # of open blocks, in pieces
        self._reasoning = reasoning
        self._open: dict[str, dict[str, Any]] = {}  # index in _parts of blocks and calls, by id
        self._inner: dict[str, SubAgentMessage] = {}
        self._size = 0
        self._earned = 0

    def value(self) -> dict[str, Any]:
        """Returns the message so far."""
        # Joined when the message is written, and not for each fragment.
        for block_id, pieces in self._texts.items():
            pieces[:] = ["".join(pieces)]
            self._open[block_id]["text"] = pieces[0]
        for call_id, inner in self._inner.items():
            if self._open[call_id].get("preliminary"):
                self._open[call_id]["output"] = inner.value()
        metadata = {"agent": self._agent}
        return {"id": self._id, "role": "assistant", "metadata": metadata, "parts": self._parts}

    def feed(self, event: Event) -> bool:
        """Adds an event of the sub-agent; returns whether the message should be rewritten now."""
        old = self._size
        if not self._take(event):
            return False
        is_delta = isinstance(event, TextDelta | ReasoningDelta)
        self._earned += (self._size - old) * _EARNED_PER_CHAR + (0 if is_delta else _EARNED_PER_EVENT)
        if self._earned < self._size:
            return False
        self._earned = 0
        return True

    def _take(self, event: Event) -> bool:
        match event:
            case StepStart():
                self._step_begin = len(self._parts)
                self._parts.append({"type": "step-start"})
            case RetryNotice():
                # The step itself stays: its next attempt follows.
                del self._parts[self._step_begin + 1 :]
            case TextStart() | ReasoningStart():
                kind = "text" if isinstance(event, TextStart) else "reasoning"
                if kind == "text" or self._reasoning:
                    self._add(event.id, {"type": kind, "text": "", "state": "streaming"})
                    self._texts[event.id] = []
            case TextDelta(delta, block_id) | ReasoningDelta(delta, block_id) if block_id in self._texts:
                self._texts[block_id].append(delta)
                self._size += len(delta)
            case TextEnd(block_id) | ReasoningEnd(block_id) if block_id in self._texts:
                self._open[block_id] |= {"state": "done", "text": "".join(self._texts.pop(block_id))}
            case ToolCall():
                self._call(event)
            case ToolResult() if event.tool_call_id in self._open:
                return self._result(event)
            case Source(source_type="url"):
                self._parts.append({"type": "source-url", "sourceId": event.id, "url": event.url})
            case _:
                return False
        return True

    def _add(self, part_id: str, part: dict[str, Any]) -> None:
        self._open[part_id] = part
        self._parts.append(part)

    def _call(self, event: ToolCall) -> None:
        part = {"type": f"tool-{event.tool_name}", "toolCallId": event.tool_call_id}
        self._add(event.tool_call_id, {**part, "state": "input-available", "input": json_value(event.input)})
        self._size += len(event.input)

    def _result(self, event: ToolResult) -> bool:
        part = self._open[event.tool_call_id]
        if (nested := nested_event(event)) is not None:
            inner = self._inner.get(event.tool_call_id)
            if inner is None:
                inner = SubAgentMessage(event.tool_call_id, nested.agent, reasoning=self._reasoning)
                self._inner[event.tool_call_id] = inner
            part |= {"state": "output-available", "preliminary": True}
            old = inner._size
            changed = inner._take(nested.event)
            self._size += inner._size - old
            return changed
        part.pop("preliminary", None)
        if event.is_error:
            text = _text(event.result)
            part |= {"state": "output-error", "errorText": text}
        else:
            part |= {"state": "output-available", "output": event.result}
            if event.preliminary:
                part["preliminary"] = True
        self._size += len(msgspec.json.encode(event.result))
        return True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
