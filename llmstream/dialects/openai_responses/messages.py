"""A conversation as the `input` of a request: messages of ours to items.

Every call has a result and every result a call: the API refuses them otherwise.
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
from llmstream.dialects.guarded_decoder import FOREIGN_REASONING, MessageVendors, is_foreign
from llmstream.dialects.history_parts import result_or_failure_text, role_of, without_custom_parts
from llmstream.dialects.openai_responses.content import own, write_part
from llmstream.dialects.openai_responses.quirks import InputQuirks, Quirks
from llmstream.dialects.openai_responses.wire import KEY
from llmstream.dialects.requests import RequestWarnings
from llmstream.dialects.tool_calls import json_input
from llmstream.errors import Unsupported

__all__ = ["InputWriter"]


# An answer of the model as items of the input, ready to go back.
#
# Text goes back with its item's id and phase, reasoning with its encrypted form, the vendor's own
# calls whole. Another vendor's go back as plain messages and functions, or not at all where the
# API would refuse them.

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
                    if self._quirks.thinking.plain and self._is_anothers(part, vendors):
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
        return sorted(written, key=_is_call) if self._quirks.input.calls_last else written

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
        if item.get("encrypted_content") or (self._quirks.thinking.plain and item.get("content")):
            return True
        return self._stored and item.get("id") is not None

    def _id(self, told: dict[str, Any]) -> str | None:
        """The item's id, where it goes back to who gave it."""
        value = told.get("item_id")
        return (
            value
            if isinstance(value, str) and self._quirks.input.item_ids and not self._is_foreign(told)
            else None
        )

    def _is_anothers(self, part: Reasoning, vendors: MessageVendors) -> bool:
        """Whether reasoning, which goes back as plain text here, is known to be of another vendor."""
        return self._is_foreign(own(part)) or is_foreign(part, vendors, KEY, self._provider)

    def _is_foreign(self, told: dict[str, Any]) -> bool:
        return told.get("provider") not in (None, self._provider)


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}


# Results of calls as items of the input: each kind of call wants its own.


def output_item(
    result: ToolResult, call_id: str, call: dict[str, Any], quirks: InputQuirks, *, provider: str
) -> dict[str, Any]:
    """The item that answers a call.

    call_id: as the wire has it
    call:    the call's item, whose type decides; {} for a function

    raises: Unsupported for files the wire cannot take
    """
    told = own(result)
    if isinstance(told.get("item"), dict):
        return dict(told["item"])
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
        words = [{"type": "input_text", "text": output}] if output else []
        output = [*words, *(write_part(part, quirks, provider=provider) for part in result.parts)]
    extras: dict[str, Any] = {name: told[name] for name in ("id", "status", "caller") if name in told}
    return {"type": kind, "call_id": call_id, "output": output, **extras}


def _value(result: ToolResult) -> Any:
    """A result as JSON, where it is."""
    if result.result is not None:
        return result.result
    try:
        return msgspec.json.decode(result.content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _shell(result: ToolResult, call_id: str, call: dict[str, Any]) -> dict[str, Any]:
    """What each command gave; plain words are what a single one wrote."""
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
    """An answer of true or false decides; any other approves unless it is an error."""
    value = _value(result)
    approve = value if isinstance(value, bool) else not result.is_error
    out = {"type": "mcp_approval_response", "approval_request_id": call.get("id"), "approve": approve}
    return {**out, "reason": result.content} if not approve and value is not False else out


_NOT_RUN: Final = "No result: the call was not run."


class InputWriter:
    """Writes the messages of one request.

    role:      what the model calls the system role
    stored:    the vendor keeps the conversation, so that ids alone stand for reasoning
    continued: the request goes on from a conversation at the vendor, which holds what is missing here

    instructions: the first system message, where it stands apart
    warnings:     what was left out
    """

    def __init__(
        self, quirks: Quirks, *, provider: str, role: str, stored: bool = False, continued: bool = False
    ) -> None:
        self.instructions: str | None = None
        self.warnings = RequestWarnings()
        self._warn = self.warnings.note_once
        self._quirks = quirks
        self._provider = provider
        self._role = role
        self._continued = continued
        self._answered_at: dict[str, int] = {}  # by id of the call: the last message with a result
        self._out: list[dict[str, Any]] = []
        self._answers = AnswerWriter(quirks, provider=provider, stored=stored, warn=self._warn)

    def write(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The items.

        raises: Unsupported where content would be lost, InvalidRequest for a role nobody knows
        """
        messages = without_custom_parts(messages, self._warn)
        for place, message in enumerate(messages):
            for result in message.tool_results:
                self._answered_at[result.tool_call_id] = place
        for place, message in enumerate(messages):
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
        if not self._out and self.instructions is not None:  # the API wants some input
            self._message(self._role, [Text(self.instructions)])
            self.instructions = None
        return self._out

    def _system(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                raise self._lost(part, "a system message")
        role = next((own(part).get("role") for part in message.parts), None)
        if message.role == "developer":
            role = "developer"
        first = not self._out and self.instructions is None and self._quirks.input.system == "instructions"
        if first and role is None and message.parts:
            self.instructions = message.text
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
                self._warn(f"the result of {part.tool_call_id!r} was left out: no call asks for it")
                continue
            call_id = str((known or {}).get("call_id") or wire_id(part.tool_call_id))
            self._out.append(
                output_item(part, call_id, known or {}, self._quirks.input, provider=self._provider)
            )

    def _close_calls(self, message: Message, place: int) -> None:
        """Calls that nobody answered get an output that says so: the API refuses them otherwise."""
        for call in message.tool_calls:
            if call.provider_executed or self._answered_at.get(call.id, -1) >= place:
                continue
            self._warn(f"the call {call.id!r} has no result; one was added that says it was not run")
            result = ToolResult(call.id, _NOT_RUN, is_error=True)
            item = self._answers.calls.get(call.id, {})
            call_id = str(item.get("call_id") or wire_id(call.id))
            self._out.append(output_item(result, call_id, item, self._quirks.input, provider=self._provider))

    def _lost(self, part: object, where: str) -> Unsupported:
        return Unsupported(f"{self._provider} cannot take a part of kind {part_kind(part)!r} in {where}.")
