"""A request in Ollama's words, and what these have no word for."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
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
from llmstream.chats.message import Message, Role
from llmstream.dialects.base import Encoded
from llmstream.dialects.guarded_decoder import FOREIGN_REASONING, MessageVendors, is_foreign
from llmstream.dialects.history_parts import told_result
from llmstream.dialects.ollama.wire import object_text
from llmstream.dialects.requests import ANSWER_IN_JSON, RequestWarnings, described_schema, says_json
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.request import ProviderTool, Request

__all__ = ["OPTIONS", "PATH", "encode_request", "is_inline"]

PATH: Final = "/api/chat"

OPTIONS: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "num_predict",
    "stop": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Our settings by their names in Ollama's `options`."""

THINK: Final[dict[str, bool | str]] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}

_encoder = msgspec.json.Encoder()


def encode_request(request: Request, *, provider: str) -> Encoded:
    """The HTTP request for one answer, as a stream.

    raises: Unsupported for images by URL, audio and documents
    """
    return _RequestEncoder(request, provider).encode()


def is_inline(part: Image) -> bool:
    """Whether the URL of an image holds the image, in base64."""
    return part.url.startswith("data:") and part.url.partition(",")[0].endswith(";base64")


class _RequestEncoder:
    """Writes one request and notes what it leaves out."""

    def __init__(self, request: Request, provider: str) -> None:
        self.request = request
        self.provider = provider
        self.warnings: list[Warning] = RequestWarnings()
        self.names: dict[str, str] = {}

    def encode(self) -> Encoded:
        request = self.request
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [m for message in request.messages for m in self.messages(message)],
            "stream": True,
        }
        tools = self.tools()
        if tools:
            body["tools"] = tools
        wanted = request.response_format
        if wanted is not None and wanted.schema is not None:
            body["format"] = described_schema(wanted)
        elif wanted is not None:
            body["format"] = "json"
            if not says_json(request.messages):
                body["messages"].insert(0, {"role": "system", "content": ANSWER_IN_JSON})
        think = self.think()
        if think is not None:
            body["think"] = think
        options = self.options()
        if options:
            body["options"] = options
        self.add_provider_options(body)
        headers = {"content-type": "application/json", "accept": "application/x-ndjson", **request.headers}
        try:
            data = _encoder.encode(body)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"the request cannot be written as JSON: {error}") from None
        return Encoded(HttpRequest(PATH, data, headers), self.warnings)

    def messages(self, message: Message) -> list[dict[str, Any]]:
        """One message as Ollama's; results of tools are a message each."""
        texts: list[str] = []
        thoughts: list[str] = []
        images: list[str] = []
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        vendors = MessageVendors(message)
        for part in message.parts:
            match part:
                case Text(text):
                    texts.append(text)
                case Reasoning() if is_foreign(part, vendors, "ollama", self.provider):
                    self.warnings.append(OtherWarning(FOREIGN_REASONING))
                case Reasoning(text):
                    thoughts.append(text)
                case Image():
                    images.append(self.image(part))
                case ToolCall() if not part.provider_executed:
                    calls.append(self.call(part, len(calls)))
                case ToolResult() if not part.provider_executed:
                    results.append(self.result(part))
                case _:
                    self.leave_out(part)
        wire: dict[str, Any] = {"role": str(message.role), "content": "".join(texts)}
        if any(thoughts):
            wire["thinking"] = "".join(thoughts)
        if images:
            wire["images"] = images
        if calls:
            wire["tool_calls"] = calls
        if message.role == Role.TOOL or (results and len(wire) == 2 and not texts):
            return results
        return [wire, *results]

    def image(self, part: Image) -> str:
        """The bare base64 of an image's bytes."""
        if part.data:
            return base64.b64encode(part.data).decode()
        if is_inline(part):
            return part.url.partition(",")[2]
        raise Unsupported(
            "Ollama takes images as bytes only, not by URL. Load the picture and pass Image(data=...).",
            provider=self.provider,
        )

    def call(self, part: ToolCall, index: int) -> dict[str, Any]:
        self.names[part.id] = part.name
        arguments, whole = object_text(part.arguments)
        if not whole:
            self.warnings.append(
                OtherWarning(f"the input of call {part.id!r} is no JSON object; it was sent inside one")
            )
        function = {"index": index, "name": part.name, "arguments": arguments}
        return {"id": part.id, "type": "function", "function": function}

    def result(self, part: ToolResult) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": "tool", "content": told_result(part)}
        name = part.name or self.names.get(part.tool_call_id, "")
        if name:
            wire["tool_name"] = name
        if part.tool_call_id:
            wire["tool_call_id"] = part.tool_call_id
        pictures = [self.image(p) for p in part.parts if isinstance(p, Image)]
        if pictures:
            wire["images"] = pictures
        for extra in part.parts:
            if not isinstance(extra, Image):
                self.leave_out(extra)
        return wire

    def leave_out(self, part: Part) -> None:
        """Refuses what the model was meant to read, and notes the rest.

        raises: Unsupported
        """
        match part:
            case Audio():
                remedy = "Transcribe it and pass the text."
            case Document():
                remedy = "Extract its text and pass that as text, or its pages as images."
            case Source():
                return
            case ToolCall() | ToolResult() | File():
                self.warnings.append(
                    OtherWarning(f"a {part_kind(part)} that another vendor made was left out of the history")
                )
                return
            case _:
                self.warnings.append(OtherWarning(f"a part of kind {part_kind(part)!r} was left out"))
                return
        raise Unsupported(
            f"Ollama takes text and images, not parts of kind {part_kind(part)!r}. {remedy}",
            provider=self.provider,
        )

    def tools(self) -> list[dict[str, Any]]:
        choice = self.request.tool_choice
        if choice == "none":
            return []
        if choice is not None and choice != "auto":
            self.warnings.append(
                UnsupportedSetting(
                    "tool_choice", "Ollama lets the model choose; ask for the call in the prompt"
                )
            )
        tools: list[dict[str, Any]] = []
        for tool in self.request.tools:
            if isinstance(tool, ProviderTool):
                self.warnings.append(UnsupportedTool(tool.name or tool.type, "Ollama runs no tools itself"))
                continue
            if tool.strict:
                words = f"Ollama has no strict tools; {tool.name!r} was sent without"
                self.warnings.append(OtherWarning(words))
            schema = {"type": "object", "properties": {}, **tool.input_schema}
            function = {"name": tool.name, "description": tool.description, "parameters": schema}
            tools.append({"type": "function", "function": function})
        return tools

    def think(self) -> bool | str | None:
        reasoning = self.request.reasoning
        if reasoning is None:
            return None
        if reasoning.budget_tokens is not None:
            self.warnings.append(
                UnsupportedSetting("reasoning.budget_tokens", "Ollama knows efforts only: low, medium, high")
            )
        if reasoning.effort is None:
            return True if reasoning.budget_tokens else None
        think = THINK[reasoning.effort]
        if think not in (False, reasoning.effort):
            self.warnings.append(
                UnsupportedSetting("reasoning.effort", f"{reasoning.effort!r} was sent as {think!r}")
            )
        return think

    def options(self) -> dict[str, Any]:
        settings = self.request.settings
        if settings.parallel_tool_calls is not None:
            self.warnings.append(UnsupportedSetting("parallel_tool_calls"))
        given = {name: getattr(settings, ours) for ours, name in OPTIONS.items()}
        return {name: value for name, value in given.items() if value not in (None, ())}

    def add_provider_options(self, body: dict[str, Any]) -> None:
        """The caller's own fields win; `options` are merged one by one."""
        for key in dict.fromkeys(("ollama", self.provider)):
            for name, value in self.request.provider_options.get(key, {}).items():
                if name == "options" and isinstance(value, dict):
                    value = {**body.get("options", {}), **value}
                body[name] = value
