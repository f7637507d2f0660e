"""Encodes a conversation as the `input` of a request: messages to items.

Every call has a result and every result a call, or the API refuses the request.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.history_parts import (
    FOREIGN_REASONING,
    MessageVendors,
    is_foreign,
    result_or_failure_text,
    role_of,
    without_custom_parts,
)
from llmstream.dialects.openai_responses.content import own, write_part
from llmstream.dialects.openai_responses.quirks import InputQuirks, Quirks
from llmstream.dialects.openai_responses.wire import KEY
from llmstream.dialects.requests import RequestWarnings
from llmstream.dialects.tool_calls import json_input
from llmstream.dialects.written import Carry, write
from llmstream.errors import Unsupported

__all__ = ["InputWriter"]


# Responses of the model as items of the input.
#
# Text goes back with its item's id and phase, reasoning with its encrypted form, the vendor's own
# calls unchanged. Another vendor's become plain messages and functions, or are left out if the API
# would refuse them.

# Longer ids of calls are refused. source: FunctionCallOutputItemParam in OpenAI's OpenAPI specification
_MAX_CALL_ID: Final = 64
_OURS: Final = frozenset({"type", "item_id", "provider", "item", "input", "part", "encrypted_content"})
_TEXT_OURS: Final = _OURS | {"annotations", "logprobs", "refusal", "content", "role"}
_REASONING_OURS: Final = _OURS | {"summary"}
_WITHOUT_ID: Final = ("message", "function_call", "custom_tool_call")


def wire_id(call_id: str) -> str:
    """Shortens another vendor's id to what the API accepts; the same for call and result."""
    if len(call_id) <= _MAX_CALL_ID:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:40]}"


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") in ("function_call", "custom_tool_call")


class _Carry(Carry):
    """What messages depend on, of those before.

    instructions: the first system message, if it has a field of its own
    sent_ids:     of items
    """

    instructions: str | None = None
    sent_ids: set[str] = msgspec.field(default_factory=set)


class AssistantWriter:
    """Encodes the assistant's messages of one segment.

    sent_ids: of items, also before the segment
    stored:   the vendor stores the conversation, so an id alone refers to reasoning
    warn:     called with the text of a warning

    calls:  items of calls that wait for a result, by our ids
    """

    def __init__(
        self,
        quirks: Quirks,
        sent_ids: set[str],
        *,
        provider: str,
        stored: bool,
        warn: Callable[[str], None],
    ) -> None:
        self.calls: dict[str, dict[str, Any]] = {}
        self._sent_ids = sent_ids
        self._quirks = quirks
        self._provider = provider
        self._stored = stored
        self._warn = warn

    def write(self, message: Message) -> list[dict[str, Any]]:
        """Returns the items of one message."""
        items: list[dict[str, Any]] = []
        vendors = MessageVendors(message)
        for part in message.parts:
            match part:
                case Text():
                    self._text(part, items)
                case Reasoning():
                    if self._quirks.thinking.plain and self._is_foreign_reasoning(part, vendors):
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
                case _:  # the caller's results, and sources
                    pass
        fresh = [self._with_fresh_id(item) for item in self._chained(items)]
        # Again: reasoning that is stored at the vendor is of no use without the id that it may have lost.
        written = self._chained(fresh)
        return sorted(written, key=_is_call) if self._quirks.input.calls_last else written

    def _text(self, part: Text, items: list[dict[str, Any]]) -> None:
        own_fields = own(part)
        item_id = self._id(own_fields)
        if isinstance(own_fields.get("content"), list):
            content = own_fields["content"]
        elif own_fields.get("refusal"):
            content = [{"type": "refusal", "refusal": part.text}]
        else:
            piece: dict[str, Any] = {"type": "output_text", "text": part.text}
            if own_fields.get("annotations"):
                piece["annotations"] = own_fields["annotations"]
            content = [piece]
        last = items[-1] if items else {}
        if item_id is not None and last.get("role") == "assistant" and last.get("id") == item_id:
            last["content"] = [*last["content"], *content]
            return
        item: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
        if item_id is not None:
            item["id"] = item_id
        items.append(item | {k: v for k, v in own_fields.items() if k not in _TEXT_OURS})

    def _reasoning(self, part: Reasoning, items: list[dict[str, Any]]) -> None:
        """Adds a part of reasoning. Parts with the same id are one item."""
        own_fields = own(part)
        foreign = not own_fields or self._is_foreign(own_fields)
        encrypted = own_fields.get("encrypted_content") if not foreign else None
        bare = foreign or own_fields.get("part") == "reasoning_text"
        item_id = self._id(own_fields)
        piece = {"type": "reasoning_text" if bare else "summary_text", "text": part.text}
        last = items[-1] if items else {}
        if last.get("type") == "reasoning" and item_id is not None and last.get("id") == item_id:
            item = last
        else:
            item = {"type": "reasoning", "summary": []}
            if item_id is not None:
                item["id"] = item_id
            items.append(item)
        if isinstance(own_fields.get("summary"), list):
            item["summary"] = own_fields["summary"]
        elif part.text and not bare:
            item["summary"] = [*item["summary"], piece]
        elif part.text:
            item["content"] = [*item.get("content", ()), piece]
        if encrypted:
            item["encrypted_content"] = encrypted
        if not foreign:
            item |= {k: v for k, v in own_fields.items() if k not in _REASONING_OURS}

    def _call(self, part: ToolCall, items: list[dict[str, Any]]) -> None:
        own_fields = own(part)
        kind = own_fields.get("type", "function_call")
        if part.provider_executed:
            if isinstance(own_fields.get("item"), dict):
                self._hosted(part, own_fields["item"], items)
                if kind == "mcp_approval_request":
                    self.calls[part.id] = own_fields["item"]
            elif not own_fields:
                self._warn(f"the call {part.id!r}, which another vendor ran, was left out")
            return
        item: dict[str, Any]
        if isinstance(own_fields.get("item"), dict) and not self._is_foreign(own_fields):
            item = dict(own_fields["item"])
        elif kind == "custom_tool_call":
            item = {"type": kind, "call_id": wire_id(part.id), "name": part.name}
            item["input"] = own_fields.get("input", part.arguments)
        else:
            item = {"type": "function_call", "call_id": wire_id(part.id), "name": part.name}
            item["arguments"] = json_input(part.arguments.strip(), part.metadata)
        item_id = self._id(own_fields)
        if item_id is not None and "id" not in item:
            item["id"] = item_id
        if item["type"] in ("function_call", "custom_tool_call"):
            item |= {k: v for k, v in own_fields.items() if k not in _OURS}
        self.calls[part.id] = item
        items.append(item)

    def _hosted(
        self, part: ToolCall | ToolResult | Custom, item: object, items: list[dict[str, Any]]
    ) -> None:
        """Adds an item that only this API knows, unchanged."""
        own_fields = own(part)
        if own_fields and isinstance(item, dict) and not self._is_foreign(own_fields):
            items.append(item)
            return
        name = part.type if isinstance(part, Custom) else getattr(part, "tool_call_id", "")
        self._warn(f"{part_kind(part)} {name!r} was left out: it belongs to another vendor")

    def _chained(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Removes reasoning that would be refused: without its encrypted form, or with no item after it."""
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
                self._warn("reasoning at the end of an answer was left out: no item follows it")
        if dropped:
            self._warn("reasoning that is not the vendor's own, not encrypted or repeated was left out")
            # The API refuses the id of an item whose reasoning is missing; without an id it accepts the item.
            out = [_without_id(item) if item.get("type") in _WITHOUT_ID else item for item in out]
        return out[::-1]

    def _with_fresh_id(self, item: dict[str, Any]) -> dict[str, Any]:
        """Removes the id of an item that an earlier item had: the API refuses a second one."""
        item_id = item.get("id")
        if not isinstance(item_id, str) or item.get("type") == "item_reference":
            return item
        if item_id in self._sent_ids:
            return _without_id(item)
        self._sent_ids.add(item_id)
        return item

    def _can_return(self, item: dict[str, Any]) -> bool:
        if item.get("encrypted_content") or (self._quirks.thinking.plain and item.get("content")):
            return True
        return self._stored and item.get("id") is not None

    def _id(self, own_fields: dict[str, Any]) -> str | None:
        """Returns the id of an item, if this provider has made it."""
        value = own_fields.get("item_id")
        return (
            value
            if isinstance(value, str) and self._quirks.input.item_ids and not self._is_foreign(own_fields)
            else None
        )

    def _is_foreign_reasoning(self, part: Reasoning, vendors: MessageVendors) -> bool:
        """Whether reasoning, which goes back as plain text here, is known to come from another vendor."""
        return self._is_foreign(own(part)) or is_foreign(part, vendors, KEY, self._provider)

    def _is_foreign(self, own_fields: dict[str, Any]) -> bool:
        return own_fields.get("provider") not in (None, self._provider)


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}


# Results of calls as items of the input: each kind of call requires its own.


def output_item(
    result: ToolResult, call_id: str, call: dict[str, Any], quirks: InputQuirks, *, provider: str
) -> dict[str, Any]:
    """Returns the item with the result of a call.

    call_id: as on the wire
    call:    item of the call, whose type decides; {} for a function

    raises: Unsupported for files that the wire does not support
    """
    own_fields = own(result)
    if isinstance(own_fields.get("item"), dict):
        return dict(own_fields["item"])
    match call.get("type"):
        case "custom_tool_call":
            kind = "custom_tool_call_output"
        case "shell_call":
            return _shell(result, call_id, call)
        case "local_shell_call":
            return {"type": "local_shell_call_output", "call_id": call_id, "output": result.content}
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            out = {"type": "apply_patch_call_output", "call_id": call_id, "status": status}
            return {**out, "output": result.content} if result.content else out
        case "computer_call":
            return _screenshot(result, call_id)
        case "tool_search_call":
            return _found_tools(result, call_id)
        case "mcp_approval_request":
            return _approval(result, call)
        case _:
            kind = "function_call_output"
    output: str | list[dict[str, Any]] = result_or_failure_text(result)
    if result.parts:
        text = [{"type": "input_text", "text": output}] if output else []
        output = [*text, *(write_part(part, quirks, provider=provider) for part in result.parts)]
    extras: dict[str, Any] = {
        name: own_fields[name] for name in ("id", "status", "caller") if name in own_fields
    }
    return {"type": kind, "call_id": call_id, "output": output, **extras}


def _value(result: ToolResult) -> Any:
    """Returns a result as a JSON value, if it is one."""
    if result.result is not None:
        return result.result
    try:
        return msgspec.json.decode(result.content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _shell(result: ToolResult, call_id: str, call: dict[str, Any]) -> dict[str, Any]:
    """Returns the output of each command; plain text is the output of a single one."""
    value = _value(result)
    if isinstance(value, dict) and isinstance(value.get("output"), list):
        value = value["output"]
    if not (isinstance(value, list) and value and all(isinstance(one, dict) for one in value)):
        outcome = {"type": "exit", "exit_code": int(result.is_error)}
        value = [{"stdout": result.content, "stderr": "", "outcome": outcome}]
    out = {"type": "shell_call_output", "call_id": call_id, "output": value}
    action = call.get("action")
    most = action.get("max_output_length") if isinstance(action, dict) else None
    return out if most is None else {**out, "max_output_length": most}


def _screenshot(result: ToolResult, call_id: str) -> dict[str, Any]:
    output: Any = _value(result)
    image = next((part for part in result.parts if isinstance(part, Image)), None)
    if image is not None:
        url = image.url
        if image.data:
            data = base64.b64encode(image.data).decode()
            url = f"data:{image.media_type or 'image/png'};base64,{data}"
        output = {"type": "computer_screenshot", "image_url": url}
    return {"type": "computer_call_output", "call_id": call_id, "output": output}


def _found_tools(result: ToolResult, call_id: str) -> dict[str, Any]:
    value = _value(result)
    if isinstance(value, dict):
        value = value.get("tools")
    tools = value if isinstance(value, list) else []
    out = {"type": "tool_search_output", "call_id": call_id, "execution": "client"}
    return {**out, "status": "completed", "tools": tools}


def _approval(result: ToolResult, call: dict[str, Any]) -> dict[str, Any]:
    """Returns the decision: a result of true or false, else approved unless the result is an error."""
    value = _value(result)
    approve = value if isinstance(value, bool) else not result.is_error
    out = {"type": "mcp_approval_response", "approval_request_id": call.get("id"), "approve": approve}
    return {**out, "reason": result.content} if not approve and value is not False else out


_NOT_RUN: Final = "No result: the call was not run."


class InputWriter:
    """Encodes the messages of one request.

    role:      the model's name of the system role
    stored:    the vendor stores the conversation, so an id alone refers to reasoning
    continued: the request continues a conversation at the vendor, which has the calls that are missing here

    warnings:  of the request; those about parts that were left out are added

    instructions: the first system message, if it has a field of its own
    """

    def __init__(
        self,
        quirks: Quirks,
        *,
        provider: str,
        role: str,
        warnings: RequestWarnings,
        stored: bool = False,
        continued: bool = False,
    ) -> None:
        self.instructions: str | None = None
        self._warnings = warnings
        self._warn = warnings.note_once
        self._quirks = quirks
        self._provider = provider
        self._role = role
        self._stored = stored
        self._continued = continued
        # Of one segment of the conversation.
        self._answered_at: dict[str, int] = {}  # by id of the call: the last message with a result
        self._out: list[dict[str, Any]] = []
        self._carry = _Carry()
        self._answers: AssistantWriter

    def write(self, messages: Sequence[Message]) -> list[Any]:
        """Returns the items, as objects or as their JSON.

        raises: Unsupported if content would be lost, InvalidRequest for an unknown role
        """
        wire = (self._quirks, self._provider, self._role, self._stored, self._continued)
        out, carry = write(messages, _Carry(), self._segment, *wire, warnings=self._warnings)
        self.instructions = carry.instructions
        # The API refuses an empty input.
        if not out and self.instructions is not None:
            self._message(self._role, [Text(self.instructions)])
            self.instructions = None
            return self._out
        return out

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any] | None:
        self._out, self._answered_at = [], {}
        self._carry = carry
        self._answers = AssistantWriter(
            self._quirks, carry.sent_ids, provider=self._provider, stored=self._stored, warn=self._warn
        )
        for place, message in enumerate(messages):
            for result in message.tool_results:
                self._answered_at[result.tool_call_id] = place
        for place, message in enumerate(messages):
            for left in without_custom_parts((message,), self._warn):
                self._read(left, place)
        carry.begun = carry.begun or bool(self._out)
        return self._out

    def _read(self, message: Message, place: int) -> None:
        role = role_of(message)
        if role == Role.SYSTEM:
            self._system(message)
        elif role == Role.USER:
            self._user(message)
        elif role == Role.ASSISTANT:
            self._out.extend(self._answers.write(message))
            self._results(message.parts)
            self._close_calls(message, place)
        else:
            self._results(message.parts)

    def _system(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                raise self._unsupported(part, "a system message")
        role = next((own(part).get("role") for part in message.parts), None)
        if message.role == "developer":
            role = "developer"
        first = not (self._out or self._carry.begun) and self._carry.instructions is None
        if first and self._quirks.input.system == "instructions" and role is None and message.parts:
            self._carry.instructions = message.text
        elif message.parts:
            self._message(role or self._role, message.parts)

    def _user(self, message: Message) -> None:
        self._results(message.parts)
        parts = [part for part in message.parts if not isinstance(part, ToolResult)]
        if parts:
            self._message("user", parts)

    def _message(self, role: str, parts: Iterable[Part]) -> None:
        content = [write_part(part, self._quirks.input, provider=self._provider) for part in parts]
        self._out.append({"role": role, "content": content})

    # Results of calls that the caller ran.

    def _results(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if not isinstance(part, ToolResult) or part.provider_executed:
                continue
            known = self._answers.calls.get(part.tool_call_id)
            if known is None and not self._continued:
                self._warn(f"the result of {part.tool_call_id!r} was left out: it belongs to no call")
                continue
            call_id = str((known or {}).get("call_id") or wire_id(part.tool_call_id))
            self._out.append(
                output_item(part, call_id, known or {}, self._quirks.input, provider=self._provider)
            )

    def _close_calls(self, message: Message, place: int) -> None:
        """Adds error results to calls without one, which the API refuses."""
        for call in message.tool_calls:
            if call.provider_executed or self._answered_at.get(call.id, -1) >= place:
                continue
            self._warn(f"the call {call.id!r} has no result; it was closed with an error")
            result = ToolResult(call.id, _NOT_RUN, is_error=True)
            item = self._answers.calls.get(call.id, {})
            call_id = str(item.get("call_id") or wire_id(call.id))
            self._out.append(output_item(result, call_id, item, self._quirks.input, provider=self._provider))

    def _unsupported(self, part: object, where: str) -> Unsupported:
        kind = part_kind(part)
        return Unsupported(f"{self._provider} does not accept a part of kind {kind!r} in {where}. Send text.")
