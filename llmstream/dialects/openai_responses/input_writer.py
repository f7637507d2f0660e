"""A conversation as the `input` of a request: messages of ours to items.

Every call has a result and every result a call: the API refuses them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from llmstream.chats.content import (
    Part,
    Text,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.custom_parts import without_custom_parts
from llmstream.dialects.openai_responses.answer_writer import AnswerWriter, wire_id
from llmstream.dialects.openai_responses.call_outputs import output_item
from llmstream.dialects.openai_responses.content_parts import own, write_part
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, Warning

__all__ = ["InputWriter"]

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
        self.warnings: list[Warning] = []
        self._quirks = quirks
        self._provider = provider
        self._role = role
        self._continued = continued
        self._out: list[dict[str, Any]] = []
        self._answers = AnswerWriter(quirks, provider=provider, stored=stored, warn=self._warn)

    def write(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The items.

        raises: Unsupported where content would be lost, InvalidRequest for a role nobody knows
        """
        messages = without_custom_parts(messages, self._warn)
        for place, message in enumerate(messages):
            if message.role in (Role.SYSTEM, "developer"):
                self._system(message)
            elif message.role == Role.USER:
                self._user(message)
            elif message.role == Role.ASSISTANT:
                self._out.extend(self._answers.write(message))
                self._results(message.parts)
                self._close_calls(message, messages[place + 1 :])
            elif message.role == Role.TOOL:
                self._results(message.parts)
            else:
                raise InvalidRequest(
                    f"{self._provider} has no role {message.role!r}. Use system, user, assistant or tool."
                )
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
        first = not self._out and self.instructions is None and self._quirks.system == "instructions"
        if first and role is None and message.parts:
            self.instructions = message.text_content
        elif message.parts:
            self._message(role or self._role, message.parts)

    def _user(self, message: Message) -> None:
        self._results(message.parts)
        parts = [part for part in message.parts if not isinstance(part, ToolResult)]
        if parts:
            self._message("user", parts)

    def _message(self, role: str, parts: Iterable[Part]) -> None:
        content = [write_part(part, self._quirks, provider=self._provider) for part in parts]
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
            self._out.append(output_item(part, call_id, known or {}, self._quirks, provider=self._provider))

    def _close_calls(self, message: Message, later: Sequence[Message]) -> None:
        """Calls that nobody answered get an output that says so: the API refuses them otherwise."""
        answered = {result.tool_call_id for after in later for result in after.tool_results}
        answered |= {result.tool_call_id for result in message.tool_results}
        for call in message.tool_calls:
            if call.provider_executed or call.id in answered:
                continue
            self._warn(f"the call {call.id!r} has no result; one was added that says it was not run")
            result = ToolResult(call.id, _NOT_RUN, is_error=True)
            item = self._answers.calls.get(call.id, {})
            call_id = str(item.get("call_id") or wire_id(call.id))
            self._out.append(output_item(result, call_id, item, self._quirks, provider=self._provider))

    def _lost(self, part: object, where: str) -> Unsupported:
        return Unsupported(f"{self._provider} cannot take a part of kind {part_kind(part)!r} in {where}.")

    def _warn(self, message: str) -> None:
        warning = OtherWarning(message)
        if warning not in self.warnings:
            self.warnings.append(warning)
