"""Writes a request of Mistral's chat API: settings and tools, then the field `messages`.

The API rejects unknown fields, so only documented ones are sent. The vendor checks the order of roles:
system messages come before assistant messages, the assistant follows tool results, every call has a result,
and a final assistant message is continued.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.base import Encoded
from llmstream.dialects.history_parts import (
    ShortCallIds,
    own_parts,
    result_or_failure_text,
    role_of,
    without_custom_parts,
)
from llmstream.dialects.media import audio_type, data_uri, read_data_uri
from llmstream.dialects.mistral.wire import KEY
from llmstream.dialects.requests import (
    Field,
    FieldTable,
    RequestWarnings,
    RequestWriter,
    merged,
    name_and_description,
)
from llmstream.dialects.schemas import inlined
from llmstream.dialects.written import Carry, write
from llmstream.errors import Unsupported
from llmstream.model_rules import nearest_effort
from llmstream.model_rules.mistral import MISTRAL
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = [
    "FIELDS",
    "PATH",
    "MessageWriter",
    "accepts_url",
    "decode_media",
    "encode_request",
]

PATH: Final = "/v1/chat/completions"

# source: Mistral's API reference, chat completion
FIELDS: Final = FieldTable(
    Field("temperature", "temperature", low=0.0, high=1.5),
    Field("top_p", "top_p", low=0.0, high=1.0),
    Field("top_k", "top_k"),
    Field("max_output_tokens", "max_tokens"),
    Field("stop", "stop"),
    Field("seed", "random_seed"),
    Field("presence_penalty", "presence_penalty", low=-2.0, high=2.0),
    Field("frequency_penalty", "frequency_penalty", low=-2.0, high=2.0),
)


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request, with warnings about what was left out or changed.

    `provider_options["mistral"]` is merged into the body last.

    raises: InvalidRequest, Unsupported
    """
    return _Body(RequestWriter(request, provider=provider, key=KEY)).encode()


class _Body:
    """Fills the body of one request."""

    def __init__(self, writer: RequestWriter) -> None:
        self.writer = writer
        self.request = writer.request
        self.warnings = writer.warnings
        self.body: dict[str, Any] = {"model": self.request.model}

    def encode(self) -> Encoded:
        messages = MessageWriter(provider=self.writer.provider, warnings=self.warnings)
        self.body["messages"] = messages.write(self.request.messages)
        self.body["stream"] = True
        self.body |= self.writer.settings(FIELDS)
        self.tools()
        self.reasoning()
        self.response_format()
        body = merged(self.body, self.writer.options)
        return self.writer.encoded(PATH, body, {"accept": "text/event-stream"})

    def tools(self) -> None:
        """Adds tools and tool choice.

        Without permission to call, no tools are sent: given tools that it must not call, the model writes
        calls as text.
        """
        request, choice = self.request, self.request.tool_choice
        tools: list[dict[str, Any]] = []
        inline = MISTRAL.find(request.model).inline_refs
        for tool in request.tools:
            if isinstance(tool, ProviderTool):
                self.warnings.unsupported_tool(tool, "the chat API has no tools of its own")
            else:
                tools.append(_tool(tool, inline=inline))
        # An empty list of tools is rejected with status 422.
        if not tools or choice == "none":
            return
        self.body["tools"] = tools
        if isinstance(choice, NamedTool):
            self.body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice is not None:
            self.body["tool_choice"] = "any" if choice == "required" else choice
        if request.settings.parallel_tool_calls is not None:
            self.body["parallel_tool_calls"] = request.settings.parallel_tool_calls

    def reasoning(self) -> None:
        reasoning, rules = self.request.reasoning, MISTRAL.find(self.request.model)
        if reasoning is None:
            return
        if reasoning.budget_tokens is not None:
            self.warnings.unsupported("reasoning.budget_tokens", "give an effort instead")
        effort = reasoning.effort
        if rules.prompt_mode:
            if effort == "none":
                self.warnings.unsupported("reasoning.effort", "this model always thinks")
            else:
                self.body["prompt_mode"] = "reasoning"
            if effort not in (None, "none", "high"):
                self.warnings.unsupported("reasoning.effort", "this model does not support efforts")
            return
        if not rules.efforts:
            if effort != "none":
                self.warnings.unsupported("reasoning", "this model does not support reasoning on request")
            return
        wanted = nearest_effort(effort or "high", rules.efforts)
        if effort == "none" and wanted != effort:
            self.warnings.unsupported(
                "reasoning.effort", f"this model always thinks; the effort {wanted} was sent"
            )
        elif effort not in (None, wanted):
            self.warnings.note(f"reasoning effort {effort!r} was sent as {wanted!r}")
        self.body["reasoning_effort"] = wanted

    def response_format(self) -> None:
        wanted = self.request.response_format
        if wanted is None:
            return
        if wanted.schema is None:
            self.body["response_format"] = {"type": "json_object"}
            return
        schema: dict[str, Any] = {"name": wanted.name, "schema": wanted.schema, "strict": wanted.strict}
        if wanted.description:
            schema["description"] = wanted.description
        self.body["response_format"] = {"type": "json_schema", "json_schema": schema}


def _tool(tool: ToolSpec, *, inline: bool) -> dict[str, Any]:
    function = name_and_description(tool)
    schema = tool.input_schema or {"type": "object", "properties": {}}
    function["parameters"] = inlined(schema) if inline else schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


# Images, recordings and documents.


def own(part: object) -> dict[str, Any]:
    """Returns the vendor's metadata of a part, which is sent back."""
    found: dict[str, Any] = (getattr(part, "metadata", None) or {}).get(KEY) or {}
    return found


def accepts_url(part: Image | Audio | Document | File) -> bool:
    """Whether a part can be sent as a URL."""
    kind = part.media_type or mimetypes.guess_type(part.url.partition("?")[0])[0] or ""
    # The API reads documents by OCR, which text files do not need and do not get.
    return not (isinstance(part, Document) and kind.startswith("text/"))


def encode_media(part: Image | Audio | Document | File) -> dict[str, Any]:
    """Returns the content part; bytes are sent as data URL, recordings as base64, texts as text."""
    if isinstance(part, Audio):
        data = base64.b64encode(part.data).decode() if part.data else part.url
        return {"type": "input_audio", "input_audio": data}
    if own(part).get("file_id"):
        return {"type": "file", "file_id": own(part)["file_id"]}
    if isinstance(part, Image) or part.media_type.startswith("image/"):
        url = data_uri(part.data, part.media_type or "image/png") if part.data else part.url
        detail = own(part).get("detail")
        return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
    # `document_url` takes PDFs and pictures of pages only.
    if part.data and part.media_type.startswith("text/"):
        return {"type": "text", "text": part.data.decode("utf-8", "replace")}
    url = data_uri(part.data, part.media_type or "application/pdf") if part.data else part.url
    name = getattr(part, "filename", "")
    return {"type": "document_url", "document_url": url, **({"document_name": name} if name else {})}


def decode_media(part: dict[str, Any]) -> Part | None:
    """Returns the part of a content part; None for unknown and empty ones.

    raises: ValueError if its content is not base64
    """
    kind = part.get("type")
    held = part.get(str(kind))
    if kind == "file" and isinstance(part.get("file_id"), str):
        return Document(metadata={KEY: {"file_id": part["file_id"]}})
    if kind == "input_audio":
        return _audio(held)
    url = held.get("url") if isinstance(held, dict) else held
    if kind not in ("image_url", "document_url") or not isinstance(url, str):
        return None
    inline = read_data_uri(url)
    if kind == "image_url":
        detail = held.get("detail") if isinstance(held, dict) else None
        kept: Metadata | None = {KEY: {"detail": detail}} if detail else None
        if inline is None:
            return Image(url=url, metadata=kept)
        return Image(data=inline[1], media_type=inline[0], metadata=kept)
    name = str(part.get("document_name") or "")
    if inline is None:
        return Document(url=url, filename=name)
    return Document(data=inline[1], media_type=inline[0], filename=name)


def _audio(held: object) -> Audio | None:
    """Reads a recording as base64, as a URL, or as an object in the form of other vendors."""
    data = held.get("data") if isinstance(held, dict) else held
    if not isinstance(data, str):
        return None
    if "://" in data:
        return Audio(url=data)
    inline = read_data_uri(data)
    if inline is not None:
        return Audio(data=inline[1], media_type=inline[0])
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        # An id or another name of the vendor.
        return Audio(url=data)
    return Audio(data=content, media_type=audio_type(content))


# Assistant message that is added between tool results and the next user message.
BRIDGE: Final = "OK"

NO_RESULT: Final = "There is no result: the call was not run."


class _Carry(Carry):
    """What messages depend on, of those before.

    system:    system messages, which come first
    ids:       of calls
    last_role: of the last message
    """

    system: list[dict[str, Any]] = msgspec.field(default_factory=list)
    ids: ShortCallIds = msgspec.field(default_factory=ShortCallIds)
    last_role: str = ""


class MessageWriter:
    """Writes the messages of one request.

    warnings: of the request; those about what was left out or moved are added
    """

    def __init__(self, *, provider: str, warnings: RequestWarnings) -> None:
        self._warnings = warnings
        self._warn = warnings.note_once
        self._provider = provider
        # Of one segment of the conversation.
        self._carry = _Carry()
        self._out: list[dict[str, Any]] = []
        self._awaited: dict[str, str] = {}

    def write(self, messages: Sequence[Message]) -> list[Any]:
        """Returns the wire's messages, as objects or as their JSON.

        raises: Unsupported if content would be lost, InvalidRequest for an unknown role
        """
        out, carry = write(messages, _Carry(), self._segment, self._provider, warnings=self._warnings)
        if carry.last_role == "assistant":
            # Without the mark an assistant message at the end is rejected; with it the model continues it.
            out[-1]["prefix"] = True
        return carry.system + out

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any] | None:
        self._out, self._awaited, self._carry = [], {}, carry
        if not carry.ids.add(messages):
            return None
        for message in without_custom_parts(messages, self._warn):
            role = role_of(message)
            if role == Role.SYSTEM:
                self._on_system(message)
            elif role == Role.USER:
                self._on_user(message)
            elif role == Role.ASSISTANT:
                self._on_assistant(message)
            else:
                self._on_results(message.parts)
        self._close_calls()
        carry.last_role = self._last_role()
        # It is marked if it is the last, and only then.
        carry.unfinished = carry.last_role == "assistant"
        return self._out

    def _last_role(self) -> str:
        return str(self._out[-1]["role"]) if self._out else self._carry.last_role

    def _on_system(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                raise self._unsupported(part, "a system message")
        written = {"role": "system", "content": self._content(message.parts)}
        if not self._last_role():
            self._carry.system.append(written)
        # In its place, because the API takes it there; only what it rejects is moved.
        elif self._last_role() in ("system", "user"):
            self._out.append(written)
        else:
            self._carry.system.append(written)
            self._warn(
                "a system message after an assistant message was moved to the top: the API rejects it there"
            )

    def _on_user(self, message: Message) -> None:
        self._on_results(message.parts)
        parts = [part for part in message.parts if not isinstance(part, ToolResult)]
        if parts or not message.parts:
            self._close_calls()
            if self._last_role() == "tool" and not _follows_results(message):
                # Most models reject a user message right after tool results ("Unexpected role 'user' after
                # role 'tool'").
                self._out.append({"role": "assistant", "content": BRIDGE})
            self._out.append({"role": "user", "content": self._content(parts)})

    def _on_assistant(self, message: Message) -> None:
        self._close_calls()
        content = []
        for part in own_parts(message, key=KEY, provider=self._provider, warn=self._warn):
            if isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Reasoning):
                content.append(_thinking(part))
            elif isinstance(part, (Image, Audio, Document, File)):
                self._warn(
                    f"a file of the assistant ({part_kind(part)}) was left out: the API takes no files back"
                )
            elif isinstance(part, ToolCall) and part.provider_executed:
                self._warn(f"the tool call {part.name!r}, which a vendor ran, was left out")
            elif isinstance(part, Custom):
                self._warn(f"a part of type {part.type!r} was left out: the API does not support it")
        out: dict[str, Any] = {"role": "assistant"}
        # The plain form, which every model takes.
        if all(part["type"] == "text" for part in content):
            out["content"] = "".join(part["text"] for part in content)
        else:
            out["content"] = content
        calls = [call for call in message.tool_calls if not call.provider_executed]
        if calls:
            out["tool_calls"] = [self._call(call) for call in calls]
            self._awaited = {call.id: call.name for call in calls}
        elif not out["content"]:
            self._warn("an empty assistant message was left out")
            return
        self._out.append(out)

    def _call(self, call: ToolCall) -> dict[str, Any]:
        # The API parses the arguments.
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        return {"id": self._carry.ids[call.id], "type": "function", "function": function}

    def _on_results(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if not isinstance(part, ToolResult):
                continue
            if part.provider_executed:
                self._warn(f"the result of {part.name!r}, which a vendor ran, was left out")
                continue
            name = self._awaited.pop(part.tool_call_id, None)
            if name is None:
                self._warn(f"the result {part.tool_call_id!r}, which has no call, was left out")
                continue
            self._result(part, part.name or name)

    def _result(self, part: ToolResult, name: str) -> None:
        text = result_or_failure_text(part)
        content: Any = text
        if part.parts:
            first = [{"type": "text", "text": text}] if text else []
            content = [*first, *(self._part(piece) for piece in part.parts)]
        call_id = self._carry.ids[part.tool_call_id]
        self._out.append({"role": "tool", "name": name, "tool_call_id": call_id, "content": content})

    def _close_calls(self) -> None:
        """Adds a result to every call without one, because the API requires it."""
        awaited, self._awaited = self._awaited, {}
        for call_id, name in awaited.items():
            self._warn(
                f"the call {call_id!r} got a placeholder result: the API requires a result for each call"
            )
            written = {
                "role": "tool",
                "name": name,
                "tool_call_id": self._carry.ids[call_id],
                "content": NO_RESULT,
            }
            self._out.append(written)

    def _content(self, parts: Iterable[Part]) -> str | list[dict[str, Any]]:
        """Returns one string if possible, else a list of parts."""
        content = [self._part(part) for part in parts]
        if len(content) == 1 and content[0]["type"] == "text":
            return str(content[0]["text"])
        return content or ""

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, (Image, Audio, Document, File)):
            return encode_media(part)
        raise self._unsupported(part, "a user message")

    def _unsupported(self, part: object, where: str) -> Unsupported:
        return Unsupported(
            f"{self._provider} does not support a part of kind {part_kind(part)!r} in {where}. "
            "Send its content as text."
        )


def _follows_results(message: Message) -> bool:
    """Whether a client of this API sent a user message directly after tool results, as newer models allow."""
    match message.metadata:
        case {"llmstream": {"mistral": {"follows_tool": True}}}:
            return True
    return False


def _thinking(part: Reasoning) -> dict[str, Any]:
    """Returns thinking, with its signature if there is one."""
    words = [{"type": "text", "text": part.text}] if part.text else []
    out: dict[str, Any] = {"type": "thinking", "thinking": words}
    if own(part).get("signature"):
        out["signature"] = own(part)["signature"]
    return out
