"""The reverse of `input_writer.py`: the items of a request to messages, checked as OpenAI checks them."""

from __future__ import annotations

from typing import Any, Final

from llmstream.chats.content import Audio, Document, Image, Part, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.openai_answers import refused
from llmstream.dialects.openai_responses.answer_reader import read_answer_item, read_answer_message
from llmstream.dialects.openai_responses.content_parts import own, read_part
from llmstream.dialects.openai_responses.sources import KEY

__all__ = ["InputReader"]

_ROLES: Final = ("assistant", "system", "developer", "user")
_OUTPUTS: Final = {
    "function_call_output": "function call output",
    "custom_tool_call_output": "custom tool call output",
    "computer_call_output": "computer call output",
    "local_shell_call_output": "local shell call output",
    "shell_call_output": "shell call output",
    "apply_patch_call_output": "apply patch call output",
    "tool_search_output": "tool search output",
}
"""Items that answer a call of the caller's."""

_PLAIN: Final = ("function_call_output", "custom_tool_call_output")


class InputReader:
    """Reads the input of one request.

    role:      what the model calls the system role
    leading:   a system message at the beginning would be taken for the instructions
    continued: the request goes on from a conversation at the vendor
    """

    def __init__(self, *, role: str, leading: bool, continued: bool) -> None:
        self._role = role
        self._leading = leading
        self._continued = continued
        self._out: list[Message] = []
        self._parts: list[list[Part]] = []  # of each of them
        self._names: dict[str, str] = {}
        self._pending: dict[str, str] = {}
        self._ids: set[str] = set()
        self._reasoning: str | None = None

    def read(self, value: object) -> list[Message]:
        """Our messages; neighbouring items of one side become one message.

        raises: BadRequest with the vendor's message
        """
        if isinstance(value, str):
            return [Message("", "user", (Text(value),))]
        if not isinstance(value, list):
            raise refused("Invalid type for 'input': expected a string or an array.", "invalid_type")
        if not value and not self._continued:
            raise refused(
                "Invalid 'input': empty array. Expected an array with minimum length 1, "
                "but got an empty array instead.",
                "empty_array",
            )
        for place, item in enumerate(value):
            self._item(f"input[{place}]", item)
        self._need_next()
        if self._pending:
            call_id = next(iter(self._pending))
            raise refused(f"No tool output found for function call {call_id}.")
        for message, parts in zip(self._out, self._parts, strict=True):
            message.parts = tuple(parts)
        return self._out

    def _item(self, where: str, item: object) -> None:
        if not isinstance(item, dict):
            raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
        kind = item.get("type", "message" if "role" in item else None)
        if not isinstance(kind, str):
            raise refused(f"Missing required parameter: '{where}.type'.", "missing_required_parameter")
        self._check_id(item, kind)
        if kind == "message":
            self._message(where, item)
        elif kind in _OUTPUTS and (kind in _PLAIN or item.get("call_id") in self._pending):
            self._need_next()
            self._append("tool", self._output(where, kind, item))
        elif kind == "mcp_approval_response":
            self._need_next()
            self._append("tool", self._approval(where, item))
        else:
            for part in read_answer_item(where, item):
                if isinstance(part, ToolCall) and not part.provider_executed:
                    self._pending[part.id] = part.name
                    self._names[part.id] = part.name
                self._append("assistant", part)
            self._reasoning = str(item.get("id")) if kind == "reasoning" else None

    def _check_id(self, item: dict[str, Any], kind: str) -> None:
        item_id = item.get("id")
        if not isinstance(item_id, str) or kind == "item_reference":
            return
        if item_id in self._ids:
            raise refused(
                f"Duplicate item found with id {item_id}. "
                "Remove duplicate items from your input and try again."
            )
        self._ids.add(item_id)

    def _need_next(self) -> None:
        if self._reasoning is not None:
            raise refused(
                f"Item '{self._reasoning}' of type 'reasoning' was provided "
                "without its required following item."
            )

    def _append(self, role: str, part: Part) -> None:
        if self._out and self._out[-1].role == role:
            self._parts[-1].append(part)
        else:
            self._add(role, [part])

    def _add(self, role: str, parts: list[Part]) -> None:
        self._out.append(Message("", role))
        self._parts.append(parts)

    def _message(self, where: str, item: dict[str, Any]) -> None:
        role = item.get("role")
        if role not in _ROLES:
            raise refused(
                f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, _ROLES))}.",
                "invalid_value",
            )
        if role == "assistant":
            self._reasoning = None
            for part in read_answer_message(where, item):
                self._append("assistant", part)
            return
        self._need_next()
        content = item.get("content")
        if isinstance(content, str):
            content = [{"type": "input_text", "text": content}]
        if not isinstance(content, list):
            raise refused(f"Missing required parameter: '{where}.content'.", "missing_required_parameter")
        parts = [read_part(f"{where}.content[{i}]", part) for i, part in enumerate(content)]
        if role == "user":
            self._add("user", parts)
        else:
            self._add("system", self._system(role, parts))

    def _system(self, role: str, parts: list[Part]) -> list[Part]:
        """The parts of a system message, marked where it would not be written so at this place."""
        first = parts[0] if parts else None
        if isinstance(first, Text) and (role != self._role or (self._leading and not self._out)):
            parts[0] = Text(first.text, {KEY: {**own(first), "role": role}})
        return parts

    def _output(self, where: str, kind: str, item: dict[str, Any]) -> ToolResult:
        call_id = item.get("call_id")
        if not isinstance(call_id, str):
            raise refused(f"Missing required parameter: '{where}.call_id'.", "missing_required_parameter")
        if call_id not in self._names and not self._continued:
            raise refused(f"No tool call found for {_OUTPUTS[kind]} with call_id {call_id}.")
        self._pending.pop(call_id, None)
        name, output = self._names.get(call_id, ""), item.get("output")
        kept = {n: item[n] for n in ("id", "status", "caller") if item.get(n) is not None}
        if kind not in _PLAIN:
            content = output if isinstance(output, str) else ""
            failed = item.get("status") == "failed"
            return ToolResult(call_id, content, failed, name, metadata={KEY: {"item": item}})
        if isinstance(output, str):
            return ToolResult(call_id, output, name=name, metadata={KEY: kept} if kept else None)
        if not isinstance(output, list):
            raise refused(f"Missing required parameter: '{where}.output'.", "missing_required_parameter")
        parts = [read_part(f"{where}.output[{i}]", part) for i, part in enumerate(output)]
        texts = [part.text for part in parts if isinstance(part, Text)]
        files = [part for part in parts if isinstance(part, (Image, Document, Audio))]
        if len(texts) > 1 or (texts and not isinstance(parts[0], Text)) or not files:
            kept = {"item": item}  # what our result has no place for goes back as it came
        metadata = {KEY: kept} if kept else None
        return ToolResult(call_id, "\n".join(texts), name=name, parts=tuple(files), metadata=metadata)

    def _approval(self, where: str, item: dict[str, Any]) -> ToolResult:
        request_id = item.get("approval_request_id")
        if not isinstance(request_id, str) or not isinstance(item.get("approve"), bool):
            name = f"{where}.approval_request_id"
            raise refused(f"Missing required parameter: '{name}'.", "missing_required_parameter")
        words = str(item.get("reason") or ("true" if item["approve"] else "false"))
        return ToolResult(request_id, words, not item["approve"], metadata={KEY: {"item": item}})
