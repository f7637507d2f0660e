"""Messages of ours as the system prompt and the turns of Converse."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.bedrock_converse.blocks import KEY, SERVER_TOOL
from llmstream.dialects.bedrock_converse.call_ids import CallIds
from llmstream.dialects.bedrock_converse.media import DocumentNames, encode_media
from llmstream.dialects.bedrock_converse.models import Traits
from llmstream.dialects.bedrock_converse.result_content import encode_result
from llmstream.dialects.bedrock_converse.turns import Group, Turn, ordered
from llmstream.dialects.json_text import object_text
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, Warning

__all__ = ["Conversation"]

_ROLES: Final = {
    Role.SYSTEM.value: "system",
    "developer": "system",
    Role.USER.value: "user",
    Role.TOOL.value: "user",
    Role.ASSISTANT.value: "assistant",
}
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


class Conversation:
    """Gathers blocks turn by turn.

    system:     the blocks of the system prompt
    messages:   the turns, as the body has them
    tool_names: of the calls in it, each once, as the keys
    """

    def __init__(self, *, can: Traits, provider: str, warnings: list[Warning]) -> None:
        self.system: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.tool_names: dict[str, None] = {}
        self._can = can
        self._provider = provider
        self._warnings = warnings
        self._ids = CallIds(short=can.short_ids)
        self._names = DocumentNames()
        self._turns: list[Turn] = []

    def read(self, messages: tuple[Message, ...]) -> None:
        """Takes in a whole conversation.

        raises: InvalidRequest for unknown roles and empty conversations, Unsupported for media that
            the API does not take
        """
        for message in messages:
            role = _ROLES.get(message.role)
            if role is None:
                raise InvalidRequest(
                    f"no role {message.role!r} is known. Use system, user, assistant or tool."
                )
            for part in message.parts:
                self._part(role, part)
        self.messages = ordered(self._turns, can=self._can, warn=self._warn)
        if not self.messages:
            raise InvalidRequest("the conversation is empty: the API wants at least one message with content")

    def _part(self, role: str, part: Part) -> None:
        if role == "system":
            self._system(part)
            return
        blocks = self._blocks(role, part)
        by_vendor = isinstance(part, (ToolCall, ToolResult)) and part.provider_executed
        turn = self._turn("assistant" if by_vendor else role)
        mark = self._cache_point(part)
        if blocks:
            turn.groups.append(Group([*blocks, *mark]))
        elif mark and turn.groups:
            turn.groups[-1].blocks.extend(mark)

    def _turn(self, role: str) -> Turn:
        if not self._turns or self._turns[-1].role != role:
            self._turns.append(Turn(role))
        return self._turns[-1]

    def _system(self, part: Part) -> None:
        if isinstance(part, Custom) and part.type.startswith(f"{KEY}."):
            self.system.append({part.type.removeprefix(f"{KEY}."): _told(part)})
            return
        if not isinstance(part, Text):
            self._warn(f"a {part_kind(part)} part in a system message was left out: the API takes text there")
            return
        if self._turns:
            self._warn(
                "a system message inside the conversation was moved to the top: the API has no other place"
            )
        if part.text.strip():
            self.system.append({"text": part.text})
            self.system.extend(self._cache_point(part))

    def _blocks(self, role: str, part: Part) -> list[dict[str, Any]]:
        match part:
            case Text():
                return self._text(role, part)
            case Audio() if not self._can.audio:
                raise Unsupported(
                    "this model on Bedrock takes no audio. Send a transcript, or ask a model that hears.",
                    provider=self._provider,
                )
            case Image() | Document() | Audio():
                return [encode_media(part, self._names, provider=self._provider)]
            case Reasoning():
                return self._reasoning(role, part)
            case ToolCall():
                return self._call(part)
            case ToolResult():
                return self._result(part)
            case Custom(type=kind) if kind.startswith(f"{KEY}."):
                return [{kind.removeprefix(f"{KEY}."): _told(part)}]
            case Source():
                return []  # told by the citations of the text, or for the reader alone
            case File():
                self._warn(f"a file of type {part.media_type!r} was left out: the API takes no files back")
            case _:
                self._warn(f"a part of kind {part_kind(part)!r} was left out: the API has no block for it")
        return []

    def _text(self, role: str, part: Text) -> list[dict[str, Any]]:
        if not part.text.strip():
            return []
        citations = _told(part).get("citations")
        if role == "assistant" and citations and self._can.citations:
            return [{"citationsContent": {"content": [{"text": part.text}], "citations": citations}}]
        return [{"text": part.text}]

    def _reasoning(self, role: str, part: Reasoning) -> list[dict[str, Any]]:
        """What is signed or encrypted goes back; signatures of Anthropic's own API hold here as well."""
        told = _told(part)
        theirs = (part.metadata or {}).get("anthropic", {}) if self._can.reasoning == "claude" else {}
        signature = told.get("signature") or theirs.get("signature")
        redacted = told.get("redacted_data")
        if redacted is None and isinstance(theirs.get("redacted_data"), str):
            redacted = base64.b64encode(theirs["redacted_data"].encode()).decode()
        blocks: list[dict[str, Any]] = []
        if role == "assistant" and signature:
            signed = {"text": part.text, "signature": signature}
            blocks.append({"reasoningContent": {"reasoningText": signed}})
        if role == "assistant" and redacted:
            blocks.append({"reasoningContent": {"redactedContent": redacted}})
        if not blocks and (part.text or part.metadata):
            self._warn("reasoning without a signature was left out: the API takes only its own")
        return blocks

    def _call(self, part: ToolCall) -> list[dict[str, Any]]:
        told = _told(part)
        if part.provider_executed and told.get("type") != SERVER_TOOL:
            self._warn(f"the call {part.id!r}, which another vendor ran, was left out")
            return []
        name = _NO_NAME.sub("_", part.name)[:64] or "tool"
        self.tool_names[name] = None
        block: dict[str, Any] = {"toolUseId": self._ids.of_call(part.id), "name": name}
        block["input"] = object_text(part.arguments, key="input")
        if part.provider_executed:
            block["type"] = SERVER_TOOL
        return [{"toolUse": block}]

    def _result(self, part: ToolResult) -> list[dict[str, Any]]:
        told = _told(part)
        block: dict[str, Any] = {"toolUseId": self._ids.of_result(part.tool_call_id)}
        if part.provider_executed:
            if "type" not in told:
                self._warn(f"the result of {part.tool_call_id!r}, which another vendor ran, was left out")
                return []
            content = part.result if isinstance(part.result, list) else [{"json": part.result}]
            return [{"toolResult": {**block, "content": content, **told}}]
        block["content"] = encode_result(part, self._names, provider=self._provider)
        if not self._can.result_status:
            if part.is_error:
                block["content"] = [{"text": "The tool failed:"}, *block["content"]]
        elif part.is_error or told.get("status") == "success":
            block["status"] = "error" if part.is_error else "success"
        return [{"toolResult": block}]

    def _cache_point(self, part: Part) -> list[dict[str, Any]]:
        """A mark after which the prompt so far is cached; Anthropic's mark says the same."""
        mark = _told(part).get("cache_point")
        if mark:
            return [{"cachePoint": {"type": "default", **(mark if isinstance(mark, dict) else {})}}]
        theirs = (getattr(part, "metadata", None) or {}).get("anthropic", {}).get("cache_control")
        if not isinstance(theirs, dict) or not self._can.caching:
            return []
        ttl = {"ttl": theirs["ttl"]} if theirs.get("ttl") else {}
        return [{"cachePoint": {"type": "default", **ttl}}]

    def _warn(self, message: str) -> None:
        warning = OtherWarning(message)
        if warning not in self._warnings:
            self._warnings.append(warning)


def _told(part: Any) -> dict[str, Any]:
    """What the metadata holds for this vendor."""
    return dict((getattr(part, "metadata", None) or {}).get(KEY, {}))
