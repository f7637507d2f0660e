"""Writes a request of Ollama's chat API."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

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
from llmstream.dialects.history_parts import own_parts, result_or_failure_text
from llmstream.dialects.ollama.wire import object_text
from llmstream.dialects.requests import (
    ANSWER_IN_JSON,
    Field,
    FieldTable,
    RequestWriter,
    described_schema,
    mentions_json,
    merged,
)
from llmstream.dialects.written import Carry, write
from llmstream.errors import Unsupported
from llmstream.request import ProviderTool, Request

__all__ = ["FIELDS", "KEY", "PATH", "encode_request", "is_inline"]

KEY: Final = "ollama"
PATH: Final = "/api/chat"

# All of them are fields of the object `options`.
FIELDS: Final = FieldTable(
    Field("temperature", "temperature"),
    Field("top_p", "top_p"),
    Field("top_k", "top_k"),
    Field("max_output_tokens", "num_predict"),
    Field("stop", "stop"),
    Field("seed", "seed"),
    Field("presence_penalty", "presence_penalty"),
    Field("frequency_penalty", "frequency_penalty"),
)

THINK: Final[dict[str, bool | str]] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request for a streamed response.

    raises: Unsupported for images by URL, audio and documents
    """
    return _Body(RequestWriter(request, provider=provider, key=KEY)).encode()


def is_inline(part: Image) -> bool:
    """Whether the URL of an image is a data URL."""
    return part.url.startswith("data:") and part.url.partition(",")[0].endswith(";base64")


class _Body:
    """Fills the body of one request."""

    def __init__(self, writer: RequestWriter) -> None:
        self.writer = writer
        self.request = writer.request
        self.provider = writer.provider
        self.warnings = writer.warnings
        self.names: dict[str, str] = {}

    def encode(self) -> Encoded:
        request = self.request
        messages, _ = write(request.messages, Carry(), self.segment, self.provider, warnings=self.warnings)
        body: dict[str, Any] = {"model": request.model, "messages": messages, "stream": True}
        tools = self.tools()
        if tools:
            body["tools"] = tools
        wanted = request.response_format
        if wanted is not None and wanted.schema is not None:
            body["format"] = described_schema(wanted)
        elif wanted is not None:
            body["format"] = "json"
            # Without the word in the prompt, JSON mode may write white space up to the token limit.
            if not mentions_json(request.messages):
                body["messages"].insert(0, {"role": "system", "content": ANSWER_IN_JSON})
        think = self.think()
        if think is not None:
            body["think"] = think
        options = self.options()
        if options:
            body["options"] = options
        body = merged(body, self.writer.options)
        return self.writer.encoded(PATH, body, {"accept": "application/x-ndjson"})

    def segment(self, messages: Sequence[Message], carry: Carry) -> list[Any]:
        """Writes messages that follow others, or are the first."""
        self.names = {}
        return [written for message in messages for written in self.messages(message)]

    def messages(self, message: Message) -> list[dict[str, Any]]:
        """Writes one message; each tool result becomes a message."""
        texts: list[str] = []
        thoughts: list[str] = []
        images: list[str] = []
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for part in own_parts(message, key=KEY, provider=self.provider, warn=self.warnings.note):
            match part:
                case Text(text):
                    texts.append(text)
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
        # A message of results alone: an empty one before them would be a separate turn.
        if message.role == Role.TOOL or (results and len(wire) == 2 and not texts):
            return results
        return [wire, *results]

    def image(self, part: Image) -> str:
        """Returns the base64 of an image's bytes."""
        if part.data:
            return base64.b64encode(part.data).decode()
        if is_inline(part):
            return part.url.partition(",")[2]
        raise Unsupported(
            "Ollama supports images only as bytes, not by URL. Load the image and pass Image(data=...).",
            provider=self.provider,
        )

    def call(self, part: ToolCall, index: int) -> dict[str, Any]:
        self.names[part.id] = part.name
        arguments, is_object = object_text(part.arguments)
        if not is_object:
            self.warnings.note(f"the input of call {part.id!r} is not a JSON object; it was wrapped in one")
        function = {"index": index, "name": part.name, "arguments": arguments}
        return {"id": part.id, "type": "function", "function": function}

    def result(self, part: ToolResult) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": "tool", "content": result_or_failure_text(part)}
        # Models' templates show the tool's name; servers before ids match results by it.
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
        """Raises for content the model should read; adds a warning for other parts.

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
                self.warnings.note(f"a {part_kind(part)} of another vendor was left out of the history")
                return
            case _:
                self.warnings.note(f"a part of kind {part_kind(part)!r} was left out")
                return
        raise Unsupported(
            f"Ollama supports text and images, not parts of kind {part_kind(part)!r}. {remedy}",
            provider=self.provider,
        )

    def tools(self) -> list[dict[str, Any]]:
        choice = self.request.tool_choice
        # The API has no tool choice: what must not be called is not offered.
        if choice == "none":
            return []
        if choice is not None and choice != "auto":
            details = "Ollama does not support it; ask for the call in the prompt"
            self.warnings.unsupported("tool_choice", details)
        tools: list[dict[str, Any]] = []
        for tool in self.request.tools:
            if isinstance(tool, ProviderTool):
                self.warnings.unsupported_tool(tool, "Ollama has no tools of its own")
                continue
            if tool.strict:
                self.warnings.note(
                    f"the tool {tool.name!r} was sent without strict: Ollama does not support it"
                )
            schema = {"type": "object", "properties": {}, **tool.input_schema}
            function = {"name": tool.name, "description": tool.description, "parameters": schema}
            tools.append({"type": "function", "function": function})
        return tools

    def think(self) -> bool | str | None:
        reasoning = self.request.reasoning
        if reasoning is None:
            return None
        if reasoning.budget_tokens is not None:
            details = "Ollama supports only efforts: low, medium, high"
            self.warnings.unsupported("reasoning.budget_tokens", details)
        if reasoning.effort is None:
            # `think: true` is an error for models that do not think, so it is sent only if requested.
            return True if reasoning.budget_tokens else None
        think = THINK[reasoning.effort]
        if think not in (False, reasoning.effort):
            self.warnings.unsupported("reasoning.effort", f"{reasoning.effort!r} was sent as {think!r}")
        return think

    def options(self) -> dict[str, Any]:
        if self.request.settings.parallel_tool_calls is not None:
            self.warnings.unsupported("parallel_tool_calls")
        return self.writer.settings(FIELDS)
