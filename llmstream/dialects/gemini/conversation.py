"""Messages of ours as the system instruction and the contents of a Gemini request.

Neighbours of one role become one content. The results of a turn's calls stand in call order and
alone in theirs; each call has exactly one result there, or the API refuses the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from llmstream.chats.content import (
    Audio,
    Document,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.foreign_reasoning import FOREIGN_REASONING, MessageVendors, is_foreign
from llmstream.dialects.gemini.function_response import encode_response
from llmstream.dialects.gemini.part_decoder import KEY
from llmstream.dialects.gemini.part_writer import PartWriter
from llmstream.dialects.result_text import result_text
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, Warning
from llmstream.model_rules.gemini import GeminiRules

__all__ = ["Conversation"]

_ROLES: Final = {
    Role.SYSTEM.value: "system",
    "developer": "system",
    Role.USER.value: "user",
    Role.TOOL.value: "user",
    Role.ASSISTANT.value: "model",
}
_SKIP_SIGNATURE: Final = "skip_thought_signature_validator"
"""Stands for a signature that was lost. source: "Thought signatures" in Google's documents"""

_OPENING: Final = "(The conversation begins with the assistant.)"
_NO_RESULT: Final = "The tool was not run."


class Conversation:
    """Gathers contents turn by turn.

    system:   the parts of the system instruction
    contents: the turns, as the body has them
    """

    def __init__(self, *, provider: str, vertex: bool, rules: GeminiRules, warnings: list[Warning]) -> None:
        self.system: list[dict[str, Any]] = []
        self.contents: list[dict[str, Any]] = []
        self._provider = provider
        self._rules = rules
        self._warnings = warnings
        self._writer = PartWriter(provider=provider, vertex=vertex, rules=rules, warnings=warnings)
        self._open_calls: list[ToolCall] = []
        self._open_ids: set[str] = set()
        self._answered: dict[str, Any] | None = None  # the latest turn of results
        self._results: dict[str, ToolResult] = {}
        self._to_come: dict[str, int] = {}

    def read(self, messages: Iterable[Message]) -> None:
        """Takes in a whole conversation.

        raises: InvalidRequest for unknown roles and empty conversations, Unsupported for media
        """
        messages = list(messages)
        for message in messages:
            for result in message.tool_results:
                if not result.provider_executed:
                    self._to_come[result.tool_call_id] = self._to_come.get(result.tool_call_id, 0) + 1
        for message in messages:
            role = _ROLES.get(message.role)
            if role is None:
                raise InvalidRequest(
                    f"no role {message.role!r} is known. Use system, user, assistant or tool."
                )
            vendors = MessageVendors(message)
            for part in message.parts:
                if isinstance(part, Reasoning) and is_foreign(part, vendors, KEY, self._provider):
                    self._warn(FOREIGN_REASONING)
                else:
                    self._part(role, part)
        self._settle()
        if self.contents and self.contents[0]["role"] == "model":
            self._warn("the conversation begins with the assistant: a turn of the user was put before it")
            self.contents.insert(0, {"role": "user", "parts": [{"text": _OPENING}]})
        if not self._rules.system:
            self._move_system()
        if not self.contents:
            raise InvalidRequest("the conversation is empty: the API wants at least one turn with content")

    def _part(self, role: str, part: Part) -> None:
        if role == "system":
            self._system(part)
        elif isinstance(part, ToolResult) and not part.provider_executed:
            self._result(part)
        elif role == "model" or (isinstance(part, (ToolCall, ToolResult)) and part.provider_executed):
            self._model_part(part)
        else:
            written = self._writer.user_part(part)
            if written is not None:
                self._settle()
                self._turn("user").append(written)

    def _system(self, part: Part) -> None:
        if not isinstance(part, Text):
            self._warn(f"a {part_kind(part)} part in a system message was left out: the API takes text there")
            return
        if self.contents:
            self._warn(
                "a system message inside the conversation was moved to the top: the API has no other place"
            )
        if part.text.strip():
            self.system.append({"text": part.text})

    def _model_part(self, part: Part) -> None:
        written = self._writer.model_part(part)
        if written is None:
            return
        if self._results or (not isinstance(part, ToolCall) and not self._waits()):
            self._settle()
        content = self._turn("model")
        if isinstance(part, ToolCall) and not part.provider_executed:
            follows = bool(content) and "functionCall" in content[-1]
            if self._rules.signs_calls and not follows:
                written.setdefault("thoughtSignature", _SKIP_SIGNATURE)
            self._open_calls.append(part)
            self._open_ids.add(part.id)
        content.append(written)

    # calls and their results

    def _waits(self) -> bool:
        """Whether the result of an open call is still to come."""
        return any(self._to_come.get(call.id) for call in self._open_calls)

    def _result(self, part: ToolResult) -> None:
        self._to_come[part.tool_call_id] -= 1
        if part.tool_call_id in self._open_ids:
            self._results[part.tool_call_id] = part
            return
        self._settle()
        self._warn(f"the result of {part.tool_call_id!r}, which nobody called, was sent as text")
        text = f"Result of the tool {part.name or part.tool_call_id}: {result_text(part)}"
        self._turn("user").extend([{"text": text}, *self._files(part.parts)])

    def _settle(self) -> None:
        """Writes the results of the open calls, in call order, and closes the calls that have none."""
        calls, self._open_calls, self._open_ids = self._open_calls, [], set()
        results, self._results = self._results, {}
        if not calls:
            return
        responses: list[dict[str, Any]] = []
        files: list[dict[str, Any]] = []
        for call in calls:
            result = results.get(call.id)
            if result is None:
                self._warn(f"the call {call.id!r} has no result; it was closed with an error")
                result = ToolResult(call.id, _NO_RESULT, is_error=True)
            response: dict[str, Any] = {"name": result.name or call.name, "response": encode_response(result)}
            media = self._files(result.parts)
            inside = [part for part in media if self._rules.result_media and "inlineData" in part]
            beside = [part for part in media if not (self._rules.result_media and "inlineData" in part)]
            if inside:
                response["parts"] = inside
            if beside:
                files.extend([{"text": f"This belongs to the result of {call.name}:"}, *beside])
            responses.append({"functionResponse": {**self._writer.id_of(call.id), **response}})
        self._answered = {"role": "user", "parts": responses}
        self.contents.append(self._answered)
        if files:
            self.contents.append({"role": "user", "parts": files})

    def _files(self, parts: Iterable[Image | Document | Audio]) -> list[dict[str, Any]]:
        return [self._writer.media(part) for part in parts]

    def _turn(self, role: str) -> list[dict[str, Any]]:
        last = self.contents[-1] if self.contents else None
        if last is None or last["role"] != role or last is self._answered:
            last = {"role": role, "parts": []}
            self.contents.append(last)
        parts: list[dict[str, Any]] = last["parts"]
        return parts

    def _move_system(self) -> None:
        """Models without a place for instructions read them at the begin of the first turn."""
        if self.system:
            text = "\n\n".join(part["text"] for part in self.system)
            if not self.contents:
                self.contents.append({"role": "user", "parts": []})
            self.contents[0]["parts"].insert(0, {"text": f"{text}\n\n"})
            self.system = []

    def _warn(self, message: str) -> None:
        warning = OtherWarning(message)
        if warning not in self._warnings:
            self._warnings.append(warning)
