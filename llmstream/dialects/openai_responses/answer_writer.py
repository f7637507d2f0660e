"""An answer of the model as items of the input, ready to go back.

Text goes back with its item's id and phase, reasoning with its encrypted form, the vendor's own
calls whole. Another vendor's go back as plain messages and functions, or not at all where the
API would refuse them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message
from llmstream.dialects.foreign_reasoning import FOREIGN_REASONING, MessageVendors, is_foreign
from llmstream.dialects.openai_responses.content_parts import own
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.sources import KEY
from llmstream.dialects.tool_fragments import json_input

__all__ = ["AnswerWriter", "wire_id"]

_MAX_CALL_ID: Final = 64
_OURS: Final = frozenset({"type", "item_id", "provider", "item", "input", "part", "encrypted_content"})
_TEXT_OURS: Final = _OURS | {"annotations", "logprobs", "refusal", "content", "role"}
_REASONING_OURS: Final = _OURS | {"summary"}
_WITHOUT_ID: Final = ("message", "function_call", "custom_tool_call")


def wire_id(call_id: str) -> str:
    """Another vendor's id in the length that the API takes; the same for call and result."""
    if len(call_id) <= _MAX_CALL_ID:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:40]}"


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") in ("function_call", "custom_tool_call")


class AnswerWriter:
    """Writes the assistant's messages of one request.

    stored: the vendor keeps the conversation, so that ids alone stand for reasoning
    warn:   takes in words what was left out

    calls:  the items of calls that wait for a result, by our ids
    """

    def __init__(self, quirks: Quirks, *, provider: str, stored: bool, warn: Callable[[str], None]) -> None:
        self.calls: dict[str, dict[str, Any]] = {}
        self._sent_ids: set[str] = set()
        self._quirks = quirks
        self._provider = provider
        self._stored = stored
        self._warn = warn

    def write(self, message: Message) -> list[dict[str, Any]]:
        """The items of one message."""
        items: list[dict[str, Any]] = []
        vendors = MessageVendors(message)
        for part in message.parts:
            match part:
                case Text():
                    self._text(part, items)
                case Reasoning():
                    if self._quirks.plain_reasoning and self._is_anothers(part, vendors):
                        self._warn(FOREIGN_REASONING)
                    else:
                        self._reasoning(part, items)
                case ToolCall():
                    self._call(part, items)
                case ToolResult() if part.provider_executed:
                    self._hosted(part, part.result, items)
                case Custom():
                    self._hosted(part, own(part).get("item"), items)
                case File():
                    if not own(part):
                        self._warn(f"a file of type {part.media_type!r} was left out: none can go back")
                case Image() | Audio() | Document():
                    kind = part_kind(part)
                    self._warn(f"a file of the assistant ({kind}) cannot go back; it was left out")
                case _:  # results and sources that are no items
                    pass
        fresh = [self._with_fresh_id(item) for item in self._chained(items)]
        written = self._chained(fresh)  # stored reasoning that comes again is nothing without its id
        return sorted(written, key=_is_call) if self._quirks.calls_last else written

    def _text(self, part: Text, items: list[dict[str, Any]]) -> None:
        told = own(part)
        item_id = self._id(told)
        if isinstance(told.get("content"), list):
            content = told["content"]
        elif told.get("refusal"):
            content = [{"type": "refusal", "refusal": part.text}]
        else:
            piece: dict[str, Any] = {"type": "output_text", "text": part.text}
            if told.get("annotations"):
                piece["annotations"] = told["annotations"]
            content = [piece]
        last = items[-1] if items else {}
        if item_id is not None and last.get("role") == "assistant" and last.get("id") == item_id:
            last["content"] = [*last["content"], *content]
            return
        item: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
        if item_id is not None:
            item["id"] = item_id
        items.append(item | {k: v for k, v in told.items() if k not in _TEXT_OURS})

    def _reasoning(self, part: Reasoning, items: list[dict[str, Any]]) -> None:
        """Parts of one id are one item; what the vendor could not read again is left out."""
        told = own(part)
        foreign = not told or self._is_foreign(told)
        encrypted = told.get("encrypted_content") if not foreign else None
        bare = foreign or told.get("part") == "reasoning_text"
        item_id = self._id(told)
        piece = {"type": "reasoning_text" if bare else "summary_text", "text": part.text}
        last = items[-1] if items else {}
        if last.get("type") == "reasoning" and item_id is not None and last.get("id") == item_id:
            item = last
        else:
            item = {"type": "reasoning", "summary": []}
            if item_id is not None:
                item["id"] = item_id
            items.append(item)
        if isinstance(told.get("summary"), list):
            item["summary"] = told["summary"]
        elif part.text and not bare:
            item["summary"] = [*item["summary"], piece]
        elif part.text:
            item["content"] = [*item.get("content", ()), piece]
        if encrypted:
            item["encrypted_content"] = encrypted
        if not foreign:
            item |= {k: v for k, v in told.items() if k not in _REASONING_OURS}

    def _call(self, part: ToolCall, items: list[dict[str, Any]]) -> None:
        told = own(part)
        kind = told.get("type", "function_call")
        if part.provider_executed:
            if isinstance(told.get("item"), dict):
                self._hosted(part, told["item"], items)
                if kind == "mcp_approval_request":
                    self.calls[part.id] = told["item"]
            elif not told:
                self._warn(f"the call {part.id!r}, which another vendor ran, was left out")
            return
        item: dict[str, Any]
        if isinstance(told.get("item"), dict) and not self._is_foreign(told):
            item = dict(told["item"])
        elif kind == "custom_tool_call":
            item = {"type": kind, "call_id": wire_id(part.id), "name": part.name}
            item["input"] = told.get("input", part.arguments)
        else:
            item = {"type": "function_call", "call_id": wire_id(part.id), "name": part.name}
            item["arguments"] = json_input(part.arguments.strip(), part.metadata)
        item_id = self._id(told)
        if item_id is not None and "id" not in item:
            item["id"] = item_id
        if item["type"] in ("function_call", "custom_tool_call"):
            item |= {k: v for k, v in told.items() if k not in _OURS}
        self.calls[part.id] = item
        items.append(item)

    def _hosted(
        self, part: ToolCall | ToolResult | Custom, item: object, items: list[dict[str, Any]]
    ) -> None:
        """An item that only this API knows, whole."""
        told = own(part)
        if told and isinstance(item, dict) and not self._is_foreign(told):
            items.append(item)
            return
        name = part.type if isinstance(part, Custom) else getattr(part, "tool_call_id", "")
        self._warn(f"{part_kind(part)} {name!r} was left out: it is another vendor's own")

    def _chained(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Items without reasoning that would be refused: unreadable, or without what came of it."""
        out: list[dict[str, Any]] = []
        dropped = False
        for item in reversed(items):
            if item.get("type") != "reasoning":
                out.append(item)
            elif not self._can_return(item):
                dropped = True
            elif out:
                out.append(item)
            else:
                self._warn("reasoning at the end of an answer was left out: nothing came of it")
        if dropped:
            self._warn("reasoning that is not the vendor's own, not encrypted or there twice was left out")
            # Ids of items whose reasoning is missing are refused; without them nothing is missed.
            out = [_without_id(item) if item.get("type") in _WITHOUT_ID else item for item in out]
        return out[::-1]

    def _with_fresh_id(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item without its id where one before it had the same: the API refuses a second one."""
        item_id = item.get("id")
        if not isinstance(item_id, str) or item.get("type") == "item_reference":
            return item
        if item_id in self._sent_ids:
            return _without_id(item)
        self._sent_ids.add(item_id)
        return item

    def _can_return(self, item: dict[str, Any]) -> bool:
        if item.get("encrypted_content") or (self._quirks.plain_reasoning and item.get("content")):
            return True
        return self._stored and item.get("id") is not None

    def _id(self, told: dict[str, Any]) -> str | None:
        """The item's id, where it goes back to who gave it."""
        value = told.get("item_id")
        return (
            value if isinstance(value, str) and self._quirks.item_ids and not self._is_foreign(told) else None
        )

    def _is_anothers(self, part: Reasoning, vendors: MessageVendors) -> bool:
        """Whether reasoning, which goes back as plain text here, is known to be of another vendor."""
        return self._is_foreign(own(part)) or is_foreign(part, vendors, KEY, self._provider)

    def _is_foreign(self, told: dict[str, Any]) -> bool:
        return told.get("provider") not in (None, self._provider)


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}
