"""Reads an Ollama request as ours, checked as the server checks it, with its messages."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from llmstream.chats.content import Image, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.dialects.ollama.request import FIELDS
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.request import ReasoningOptions as ReasoningSetting
from llmstream.request import Request, ResponseFormat, Settings, ToolSpec

__all__ = ["decode_request"]


_MAGIC: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
)

# Types of the options that are our settings, with the server's names of them.
_OPTION_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "temperature": (float, "float32"),
    "top_p": (float, "float32"),
    "top_k": (int, "integer"),
    "num_predict": (int, "integer"),
    "seed": (int, "integer"),
    "presence_penalty": (float, "float32"),
    "frequency_penalty": (float, "float32"),
    "stop": (tuple[str, ...], "array"),
}


class _Function(msgspec.Struct):
    name: str = ""
    description: str = ""
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct):
    function: _Function = msgspec.field(default_factory=_Function)


class _CallFunction(msgspec.Struct):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Call(msgspec.Struct):
    function: _CallFunction = msgspec.field(default_factory=_CallFunction)
    id: str = ""


class _Message(msgspec.Struct):
    role: str = ""
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class _Body(msgspec.Struct):
    model: str = ""
    messages: list[_Message] | None = None
    tools: list[_Tool] | None = None
    format: Any = None
    think: Any = None
    options: dict[str, Any] | None = None
    stream: bool | None = None


_decode = msgspec.json.Decoder(_Body).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
_OWN_FIELDS: Final = frozenset(_Body.__struct_fields__)


def decode_request(http: HttpRequest) -> Request:
    """Reads a client's request.

    raises: BadRequest with the server's message
    """
    if not http.body.strip():
        raise _refusal("missing request body")
    try:
        body = _decode(http.body)
        rest = {name: value for name, value in _decode_any(http.body).items() if name not in _OWN_FIELDS}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _refusal(f"json: cannot unmarshal the request: {error}") from None
    if not body.model:
        raise _refusal("model is required")
    settings, more_options = _settings(body.options or {})
    if more_options:
        rest["options"] = more_options
    reasoning = _reasoning(body.think)
    if body.think is True:
        rest["think"] = True
    return Request(
        model=body.model,
        messages=_Messages().read(body.messages or []),
        tools=tuple(_tool(tool) for tool in body.tools or ()),
        settings=settings,
        response_format=_format(body.format),
        reasoning=reasoning,
        provider_options={"ollama": rest} if rest else {},
    )


class _Messages:
    """Reads the conversation; calls and results without ids are matched by name and order."""

    def __init__(self) -> None:
        self.waiting: list[ToolCall] = []
        self.calls = 0

    def read(self, messages: list[_Message]) -> tuple[Message, ...]:
        out: list[Message] = []
        for wire in messages:
            role = wire.role.lower()
            if role != Role.TOOL:
                out.append(Message("", Role(role) if role in list(Role) else role, self.parts(wire)))
                continue
            result = self.result(wire)
            if out and out[-1].role == Role.TOOL:
                out[-1].parts += (result,)
            else:
                out.append(Message.tool([result]))
        return tuple(out)

    def parts(self, wire: _Message) -> tuple[Part, ...]:
        parts: list[Part] = []
        if wire.thinking:
            parts.append(Reasoning(wire.thinking))
        if wire.content:
            parts.append(Text(wire.content))
        parts += [_image(data) for data in wire.images or ()]
        for call in wire.tool_calls or ():
            parts.append(self.call(call))
        return tuple(parts)

    def call(self, wire: _Call) -> ToolCall:
        self.calls += 1
        arguments = bytes(wire.function.arguments).decode("utf-8", "replace")
        if not arguments.startswith("{"):
            raise _refusal("json: cannot unmarshal tool_calls.function.arguments into an object")
        call = ToolCall(wire.id or f"call_{self.calls}", wire.function.name, arguments)
        self.waiting.append(call)
        return call

    def result(self, wire: _Message) -> ToolResult:
        call = self.answered(wire.tool_call_id or "", wire.tool_name or "")
        if call is not None:
            self.waiting.remove(call)
        call_id = wire.tool_call_id or (call.id if call is not None else "")
        name = wire.tool_name or (call.name if call is not None else "")
        images = tuple(_image(data) for data in wire.images or ())
        return ToolResult(call_id, wire.content or "", name=name, parts=images)

    def answered(self, call_id: str, name: str) -> ToolCall | None:
        """Returns the call of a result: by id, else the first by name, else the first."""
        if call_id:
            return next((c for c in self.waiting if c.id == call_id), None)
        return next((c for c in self.waiting if not name or c.name == name), None)


def _tool(wire: _Tool) -> ToolSpec:
    function = wire.function
    return ToolSpec(function.name, function.description, function.parameters or {})


def _image(data: str) -> Image:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise _refusal("illegal base64 data in an image: pictures travel as bare base64") from None
    media_type = next((name for magic, name in _MAGIC if content.startswith(magic)), "")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        media_type = "image/webp"
    return Image(data=content, media_type=media_type)


def _format(value: Any) -> ResponseFormat | None:
    if value is None or value == "":
        return None
    if value == "json":
        return ResponseFormat()
    if isinstance(value, dict):
        return ResponseFormat(value)
    shown = msgspec.json.encode(value).decode()
    raise _refusal(f'invalid format: {shown}; expected "json" or a valid JSON Schema object')


def _reasoning(value: Any) -> ReasoningSetting | None:
    if value is None or value is True:
        return None
    if value is False:
        return ReasoningSetting(effort="none")
    if value in ("low", "medium", "high"):
        return ReasoningSetting(effort=value)
    shown = msgspec.json.encode(value).decode()
    raise _refusal(f'invalid think value: {shown} (must be "high", "medium", "low", true, or false)')


def _settings(options: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Returns our settings, and the options without one."""
    ours = {field.wire_name: field.name for field in FIELDS}
    fields: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name not in ours:
            rest[name] = value
            continue
        kind, type_name = _OPTION_TYPES[name]
        try:
            fields[ours[name]] = msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise _refusal(f'option "{name}" must be of type {type_name}') from None
    return Settings(**fields), rest


def _refusal(message: str) -> BadRequest:
    return BadRequest(message, provider="ollama", status=400)
