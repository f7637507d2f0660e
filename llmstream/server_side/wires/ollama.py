"""Ollama's chat API on the server side: reads and checks requests as the server does, writes responses."""

from __future__ import annotations

import base64
import binascii
import datetime
from typing import Any, Final

import msgspec

from llmstream.chats.content import Image, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.ollama.request import FIELDS, PATH
from llmstream.dialects.ollama.wire import FINISH_REASONS, USAGE_FIELDS, object_text
from llmstream.dialects.wire_values import LOGPROBS, logprobs_of
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import (
    File,
    Finish,
    Metadata,
    ResponseMetadata,
    TextDelta,
    ToolInputStart,
    Usage,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import ReasoningOptions as ReasoningSetting
from llmstream.request import Request, ResponseFormat, Settings, ToolSpec
from llmstream.server_side.wires import ServerSide, posts_to
from llmstream.server_side.wires.errors import error_response
from llmstream.server_side.wires.event_writer import Block, Delta, EventWriter, GrowingTexts, Shapes, Start
from llmstream.server_side.wires.event_writer import Part as EventPart

__all__ = ["server_side"]


def server_side(dialect: Ollama) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(PATH),
        decode_request=decode_request,
        event_encoder=lambda request: EventWriter(OllamaShapes(request)),
        complete_response=complete_response,
        encode_error=encode_error,
    )


# Images travel as bare base64, without a type.
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
# The others go to `provider_options`.
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
    # True leaves the effort to the model, which no effort of ours does.
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
        # Two calls of one name: each result takes the next of them.
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


_REASONS: Final = {"stop": "stop", "content-filter": "stop", "length": "length"}

_encoder = msgspec.json.Encoder()


class OllamaShapes(Shapes[Block]):
    """A line for each fragment and each call; the last line has reason and counts.

    Left out, because the wire cannot express it: block ends, sources, files that are not images, calls
    that the vendor ran, and errors after which a response continues.
    """

    key = "ollama"
    begins_at = ()

    def __init__(self, request: Request) -> None:
        self._head: dict[str, Any] = {"model": request.model}
        self._calls = 0

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores model and time, which all lines repeat."""
        if event.model_id is not None:
            self._head["model"] = event.model_id
        if event.timestamp is not None:
            self._head["created_at"] = _rfc3339(event.timestamp)
        return b""

    def start(self, event: Start) -> tuple[Block, bytes] | None:
        """Blocks have no start; calls are written in one piece."""
        return None if isinstance(event, ToolInputStart) else (Block(), b"")

    def delta(self, block: Block, event: Delta) -> bytes:
        """Writes a fragment, unless it is empty."""
        if not event.delta:
            return b""
        is_text = isinstance(event, TextDelta)
        message = {"content": event.delta} if is_text else {"content": "", "thinking": event.delta}
        return self._line(message, **_logprobs(event.provider_metadata))

    def call(self, event: ToolCallEvent) -> bytes:
        """Writes a call in one piece, as the vendor does."""
        if event.provider_executed:
            return b""
        arguments, _ = object_text(event.input)
        function = {"index": self._calls, "name": event.tool_name, "arguments": arguments}
        self._calls += 1
        return self._line({"content": "", "tool_calls": [{"id": event.tool_call_id, "function": function}]})

    def part(self, event: EventPart, block: Block | None) -> bytes:
        """Writes an image."""
        if not isinstance(event, File) or not event.media_type.startswith("image/"):
            return b""
        if not isinstance(event.data, bytes):
            return b""
        return self._line({"content": "", "images": [base64.b64encode(event.data).decode()]})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes the last line."""
        if event.finish_reason == "error":
            return None
        last: dict[str, Any] = {"done": True, **_logprobs(event.provider_metadata)}
        reason = self._reason(event)
        if reason is not None:
            last["done_reason"] = reason
        return self._line({"content": ""}, **last, **_counts(event.usage))

    def error(self, error: ErrorInfo) -> bytes:
        """Writes a line with the message."""
        return _json_line({"error": error.message})

    def _line(self, message: dict[str, Any], **fields: Any) -> bytes:
        return _json_line(
            {**self._head, "message": {"role": "assistant", **message}, "done": False, **fields}
        )

    def _reason(self, event: Finish) -> str | None:
        """Maps the finish reason to Ollama's; another vendor's name is not passed on."""
        raw, reason = event.raw_finish_reason, event.finish_reason
        if reason == "other":
            return raw or "other"
        if raw in FINISH_REASONS or reason == "unknown":
            return raw if raw in FINISH_REASONS else None
        if reason == "tool-calls":
            # The server reports "stop" after calls.
            return "stop" if self._calls else "tool_calls"
        return _REASONS[reason]


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response, a status and `{"error": "message"}`."""
    headers = {"content-type": "application/json; charset=utf-8"}
    return error_response(error, {"error": error.message}, headers=headers)


def _logprobs(metadata: Metadata | None) -> dict[str, Any]:
    found = logprobs_of(metadata) if metadata else []
    return {LOGPROBS: found} if found else {}


def _counts(usage: Usage) -> dict[str, Any]:
    """Returns the vendor's own counts and durations, if known, updated with ours."""
    raw = usage.raw if isinstance(usage.raw, dict) else {}
    counts = {name: raw[name] for name in USAGE_FIELDS if raw.get(name) is not None}
    if usage.input_tokens is not None:
        counts["prompt_eval_count"] = usage.input_tokens
    if usage.output_tokens is not None:
        counts["eval_count"] = usage.output_tokens
    return counts


def _rfc3339(timestamp: datetime.datetime) -> str:
    if timestamp.tzinfo is None:
        # A time without a zone would be taken for local time, which differs from machine to machine.
        timestamp = timestamp.replace(tzinfo=datetime.UTC)
    return timestamp.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def _json_line(value: dict[str, Any]) -> bytes:
    return _encoder.encode(value) + b"\n"


# Complete responses: the object of `"stream": false`.


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the response from the lines of a stream."""
    texts = GrowingTexts()
    response: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    logprobs: list[Any] = []
    for line in filter(None, body.split(b"\n")):
        chunk: dict[str, Any] = msgspec.json.decode(line)
        for name, value in chunk.pop("message", {}).items():
            if isinstance(value, list):
                message.setdefault(name, []).extend(value)
            elif name != "role":
                texts.add(message, name, value)
        logprobs += chunk.pop("logprobs", ())
        response |= chunk
    texts.join()
    response["message"] = message
    return {**response, "logprobs": logprobs} if logprobs else response
