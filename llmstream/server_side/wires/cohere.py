"""Cohere's Chat API on the server side: reads and checks requests as Cohere does, writes responses."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Final

from llmstream.chats.content import Image, Metadata, Part, Reasoning, Source, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.cohere import Cohere
from llmstream.dialects.cohere.request import FIELDS, PATH
from llmstream.dialects.cohere.wire import (
    FINISH_REASONS,
    KEY,
    citation_of,
    stored_citation,
    write_usage,
)
from llmstream.dialects.media import read_data_uri
from llmstream.dialects.requests import Field
from llmstream.dialects.wire_values import LOGPROBS
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import (
    Custom,
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    ToolInputEnd,
    ToolInputStart,
)
from llmstream.events import Source as SourceEvent
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import ReasoningOptions, Request, ResponseFormat, Settings, ToolChoice, ToolSpec
from llmstream.server_side.wires import (
    ServerSide,
    json_object,
    leave_stream,
    posts_to,
    read_function,
    read_settings,
    with_rest,
)
from llmstream.server_side.wires.errors import error_response
from llmstream.server_side.wires.event_writer import (
    DONE,
    MODEL_FAILED,
    Block,
    Delta,
    End,
    EventWriter,
    GrowingTexts,
    Shapes,
    Start,
    raw_reason,
    sse_event,
    sse_objects,
)
from llmstream.server_side.wires.event_writer import Part as EventPart

__all__ = ["server_side"]


def server_side(dialect: Cohere) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(PATH),
        decode_request=decode_request,
        event_encoder=lambda request: EventWriter(CohereShapes()),
        complete_response=complete_response,
        encode_error=encode_error,
    )


# The reverse of `request.py`: the wire's messages to ours, checked as Cohere checks them.

# Other fields are a 422, as at Cohere.
_FIELDS: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "tool_plan", "citations"},
    "tool": {"role", "content", "tool_call_id"},
}


class MessageReader:
    """Reads the messages of one request."""

    def __init__(self) -> None:
        self._out: list[Message] = []
        self._names: dict[str, str] = {}

    def read(self, messages: object) -> tuple[Message, ...]:
        """Returns our messages; results of one turn become one message.

        raises: BadRequest with the vendor's message
        """
        if not isinstance(messages, list) or not messages:
            raise refused("invalid request: all elements in history must have a message. messages is empty")
        for index, message in enumerate(messages):
            if not isinstance(message, dict) or message.get("role") not in _FIELDS:
                role = message.get("role") if isinstance(message, dict) else None
                raise refused(
                    f"invalid request: the role {role!r} of messages[{index}] is not valid: "
                    "use system, user, assistant or tool"
                )
            role = message["role"]
            for name in message:
                if name not in _FIELDS[role]:
                    raise unknown_field(name)
            if role == "tool":
                self._tool(index, message)
            elif role == "assistant":
                self._assistant(index, message)
            else:
                parts = self._content(index, message.get("content"))
                if role == "user" and not parts:
                    raise refused(f"invalid request: messages[{index}] must have content")
                self._out.append(Message("", role, parts))
        return tuple(self._out)

    def _tool(self, index: int, message: dict[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or not call_id:
            raise refused(f"invalid request: messages[{index}] must have a tool_call_id")
        if call_id not in self._names:
            raise refused(f"invalid request: no tool call has the id {call_id!r} of messages[{index}]")
        content = message.get("content")
        if isinstance(content, list):
            result = ToolResult(
                call_id, _texts(content), name=self._names[call_id], metadata=_own_blocks(content)
            )
        else:
            result = ToolResult(call_id, str(content or ""), name=self._names[call_id])
        last = self._out[-1] if self._out else None
        if last is not None and last.role == "tool":
            self._out[-1] = Message("", "tool", (*last.parts, result))
        else:
            self._out.append(Message.tool([result]))

    def _assistant(self, index: int, message: dict[str, Any]) -> None:
        parts: list[Part] = []
        plan = message.get("tool_plan")
        if isinstance(plan, str) and plan:
            parts.append(Reasoning(plan, {KEY: {"tool_plan": True}}))
        parts += self._content(index, message.get("content"))
        for number, citation in enumerate(message.get("citations") or ()):
            metadata: Metadata = {KEY: {"citation": citation, "source": 0}}
            parts.append(Source("document", f"source-{number + 1}", metadata=metadata))
        for call in message.get("tool_calls") or ():
            parts.append(self._call(index, call))
        if not parts:
            raise refused(
                f"invalid request: the assistant message at messages[{index}] must have content, "
                "tool_calls or tool_plan"
            )
        self._out.append(Message("", "assistant", tuple(parts)))

    def _call(self, index: int, call: object) -> ToolCall:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise refused(f"invalid request: a tool call of messages[{index}] has no function")
        for name in call:
            if name not in ("id", "type", "function"):
                raise unknown_field(name)
        call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if not isinstance(call_id, str) or not isinstance(name, str) or not isinstance(arguments, str):
            raise refused(f"invalid request: a tool call of messages[{index}] lacks id, name or arguments")
        self._names[call_id] = name
        return ToolCall(call_id, name, arguments)

    def _content(self, index: int, content: object) -> tuple[Part, ...]:
        if content is None or content == "":
            return ()
        if isinstance(content, str):
            return (Text(content),)
        if not isinstance(content, list):
            raise refused(f"invalid type: parameter messages[{index}].content is no string or list", 422)
        parts = (self._part(index, part) for part in content)
        return tuple(part for part in parts if part is not None)

    def _part(self, index: int, part: object) -> Part | None:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or kind not in ("text", "thinking", "image_url"):
            raise refused(f"invalid request: content of type {kind!r} in messages[{index}] is not supported")
        held = part.get(kind)
        if kind == "text":
            return Text(str(held)) if held else None
        if kind == "thinking":
            return Reasoning(str(held)) if held else None
        url = held.get("url") if isinstance(held, dict) else held
        if not isinstance(url, str):
            raise refused(f"invalid request: an image of messages[{index}] has no url")
        detail = held.get("detail") if isinstance(held, dict) else None
        metadata: Metadata | None = {KEY: {"detail": detail}} if detail else None
        try:
            inline = read_data_uri(url)
        except ValueError:
            raise refused(f"invalid request: an image of messages[{index}] is not valid base64") from None
        if inline is None:
            return Image(url=url, metadata=metadata)
        return Image(data=inline[1], media_type=inline[0], metadata=metadata)


def _texts(content: list[Any]) -> str:
    """Returns the text of a result's blocks, one line each."""
    lines = []
    for block in content:
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            lines.append(block["text"])
        elif isinstance(block, dict) and isinstance(block.get("document"), dict):
            data = block["document"].get("data")
            lines.append(str(data.get("text", data)) if isinstance(data, dict) else str(data or ""))
    return "\n".join(lines)


def _own_blocks(content: list[Any]) -> Metadata | None:
    """Returns metadata with blocks that are more than text, which go back unchanged."""
    plain = all(isinstance(block, dict) and block.get("type") == "text" for block in content)
    return None if plain and len(content) < 2 else {KEY: {"content": content}}


# Fields of the vendor without a field in `Request`; `tools` and others are read before.
_OWN: Final = frozenset(
    {"citation_options", "documents", "logprobs", "priority", "raw_prompting", "safety_mode", "stream"}
)


def decode_request(http: HttpRequest) -> Request:
    """Reads a client's request.

    raises: BadRequest with the vendor's message
    """
    body = json_object(http)
    if body is None:
        raise refused("invalid request: the body is not a valid JSON object")
    model = body.pop("model", None)
    if not isinstance(model, str) or not model:
        raise refused("model is required: please specify a model")
    messages = MessageReader().read(body.pop("messages", None))
    settings = Settings(**read_settings(body, FIELDS, wrong_type=_wrong_type))
    tools = _tools(body)
    choice = _tool_choice(body, tools)
    format_ = _response_format(body, tools)
    reasoning = _thinking(body)
    leave_stream(body)
    for name in body:
        if name not in _OWN:
            raise unknown_field(name)
    own = {name: value for name, value in body.items() if value is not None and value != []}
    request = Request(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        settings=settings,
        response_format=format_,
        reasoning=reasoning,
    )
    return with_rest(request, http, KEY, own)


_TYPES: Final = {"number": "float", "integer": "int", "strings": "[]string"}


def _wrong_type(field: Field, value: object) -> Exception:
    given, wanted = type(value).__name__, _TYPES[field.kind]
    return refused(
        f"invalid type: parameter {field.wire_name} is of type {given} but should be of type {wanted}"
    )


def _tools(body: dict[str, Any]) -> tuple[ToolSpec, ...]:
    # False is the vendor's default, and need not be sent on.
    strict = body.pop("strict_tools", None) is True or None
    tools = body.pop("tools", None) or ()
    return tuple(_tool(tool, strict) for tool in tools)


def _tool(tool: object, strict: bool | None) -> ToolSpec:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise refused("invalid request: a tool must have a function with a name")
    for name in function:
        if name not in ("name", "description", "parameters"):
            raise unknown_field(name)
    return read_function(function["name"], function.get("description"), function.get("parameters"), strict)


def _tool_choice(body: dict[str, Any], tools: tuple[ToolSpec, ...]) -> ToolChoice | None:
    choice = body.pop("tool_choice", None)
    if choice is None:
        return None
    if choice not in ("REQUIRED", "NONE"):
        raise refused(f"invalid request: tool_choice must be REQUIRED or NONE, not {choice!r}")
    if not tools:
        raise refused("invalid request: tool_choice requires tools")
    return "required" if choice == "REQUIRED" else "none"


def _response_format(body: dict[str, Any], tools: tuple[ToolSpec, ...]) -> ResponseFormat | None:
    wanted = body.pop("response_format", None)
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return None
    if kind != "json_object":
        raise refused(f"invalid request: response_format.type must be text or json_object, not {kind!r}")
    if tools or body.get("documents"):
        raise refused("invalid request: response_format json_object is not supported with tools or documents")
    # `schema` was its name in Cohere's first API.
    schema = wanted.get("json_schema", wanted.get("schema"))
    return ResponseFormat(schema if isinstance(schema, dict) else None)


def _thinking(body: dict[str, Any]) -> ReasoningOptions | None:
    thinking = body.pop("thinking", None)
    if thinking is None:
        return None
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind == "disabled":
        return ReasoningOptions(effort="none")
    if kind != "enabled":
        raise refused(f"invalid request: thinking.type must be enabled or disabled, not {kind!r}")
    budget = thinking.get("token_budget")
    return ReasoningOptions(budget_tokens=budget if isinstance(budget, int) else None)


_RAW_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "COMPLETE",
    "length": "MAX_TOKENS",
    "content-filter": "ERROR_TOXIC",
    "tool-calls": "TOOL_CALL",
    "error": "ERROR",
    "other": "OTHER",
}


@dataclasses.dataclass(slots=True)
class ContentBlock(Block):
    """An open block; is_plan: it is the tool plan, which has no index, start or end on the wire."""

    is_plan: bool = False


class CohereShapes(Shapes[ContentBlock]):
    """Content, calls and citations, numbered separately, between `message-start` and `message-end`.

    Left out, because the wire cannot express it: files, tools that the vendor ran, raw events.
    """

    key = KEY
    end_mark = DONE

    def __init__(self) -> None:
        # Cohere's ids are UUIDs; for a response whose metadata never comes.
        self._id = "00000000-0000-4000-8000-000000000000"
        self._content_indexes = itertools.count()
        self._call_indexes = itertools.count()
        self._citation_indexes = itertools.count()

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores the id for `message-start`."""
        self._id = event.id or self._id
        return b""

    def begin(self) -> bytes:
        """Writes `message-start`."""
        message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        return _write({"id": self._id, "type": "message-start", "delta": {"message": message}})

    def start(self, event: Start) -> tuple[ContentBlock, bytes] | None:
        """Opens content, the tool plan or a call."""
        if isinstance(event, ToolInputStart):
            if event.provider_executed:
                return None
            block = ContentBlock(next(self._call_indexes))
            function = {"name": event.tool_name, "arguments": ""}
            call = {"id": event.id, "type": "function", "function": function}
            return block, _message("tool-call-start", block.index, {"tool_calls": call})
        if isinstance(event, ReasoningStart) and self.own(event.provider_metadata).get("tool_plan"):
            return ContentBlock(is_plan=True), b""
        block = ContentBlock(next(self._content_indexes))
        kind = "thinking" if isinstance(event, ReasoningStart) else "text"
        return block, _message("content-start", block.index, {"content": {"type": kind, kind: ""}})

    def delta(self, block: ContentBlock, event: Delta) -> bytes:
        """Extends content, the tool plan or a call."""
        if block.is_plan:
            return _message("tool-plan-delta", None, {"tool_plan": event.delta})
        if not isinstance(event, TextDelta | ReasoningDelta):
            call = {"function": {"arguments": event.delta}}
            return _message("tool-call-delta", block.index, {"tool_calls": call})
        content = {"text" if isinstance(event, TextDelta) else "thinking": event.delta}
        # Unlike OpenAI's, one object for a fragment, not a list of tokens.
        found = self.own(event.provider_metadata).get(LOGPROBS)
        logprobs = {LOGPROBS: found[0]} if found else {}
        return _message("content-delta", block.index, {"content": content}, **logprobs)

    def end(self, block: ContentBlock, event: End) -> bytes:
        """Closes content or a call."""
        if block.is_plan:
            return b""
        kind = "tool-call-end" if isinstance(event, ToolInputEnd) else "content-end"
        return _write({"type": kind, "index": block.index})

    def part(self, event: EventPart, block: ContentBlock | None) -> bytes:
        """Writes a citation once, with all its sources."""
        if not isinstance(event, SourceEvent | Custom):
            return b""
        # The decoder made a source of each document; the citation is written with the first.
        if "citation" in self.own(event.provider_metadata):
            citation = stored_citation(event.provider_metadata)
        else:
            citation = citation_of(event) if isinstance(event, SourceEvent) else None
        if citation is None:
            return b""
        index = next(self._citation_indexes)
        start = _message("citation-start", index, {"citations": citation})
        return start + _write({"type": "citation-end", "index": index})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes:
        """Writes `message-end`, which reports an error as well."""
        delta: dict[str, Any] = {}
        raw = raw_reason(event, lambda raw: FINISH_REASONS.get(raw.upper()), _RAW_REASONS)
        if raw is not None:
            delta["finish_reason"] = raw
        if event.finish_reason == "error":
            delta["error"] = (error or MODEL_FAILED).message
        usage = write_usage(event.usage)
        if usage is not None:
            delta["usage"] = usage
        prompt = (self.own(event.provider_metadata).get("debug") or {}).get("prompt")
        debug = _write({"type": "debug", "prompt": prompt}) if prompt else b""
        return debug + _write({"type": "message-end", "delta": delta})


def _message(kind: str, index: int | None, message: dict[str, Any], **fields: Any) -> bytes:
    """Writes an event with a part of the message; the tool plan has no index."""
    place = {} if index is None else {"index": index}
    return _write({"type": kind, **fields, **place, "delta": {"message": message}})


def _write(event: dict[str, Any]) -> bytes:
    return sse_event(event["type"], event)


# Complete responses: one object of `POST /v2/chat`.


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the response of `POST /v2/chat` from the events of a stream."""
    texts = GrowingTexts()
    response: dict[str, Any] = {"id": ""}
    message: dict[str, Any] = {"role": "assistant"}
    contents: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    citations: list[Any] = []
    logprobs: list[Any] = []
    for event in sse_objects(body):
        part = (event.get("delta") or {}).get("message") or {}
        match event["type"]:
            case "message-start":
                response["id"] = event["id"]
            case "content-start":
                contents[event["index"]] = part["content"]
            case "content-delta":
                for name, fragment in part["content"].items():
                    texts.add(contents[event["index"]], name, fragment)
                logprobs += [event["logprobs"]] if event.get("logprobs") else []
            case "tool-plan-delta":
                texts.add(message, "tool_plan", part["tool_plan"])
            case "tool-call-start":
                calls[event["index"]] = part["tool_calls"]
            case "tool-call-delta":
                fragment = part["tool_calls"]["function"]["arguments"]
                texts.add(calls[event["index"]]["function"], "arguments", fragment)
            case "citation-start":
                citations.append(part["citations"])
            case "message-end":
                response |= {name: value for name, value in event["delta"].items() if name != "error"}
            case "debug":
                response["prompt"] = event.get("prompt")
    texts.join()
    lists = {"content": list(contents.values()), "tool_calls": list(calls.values()), "citations": citations}
    response["message"] = {**message, **{name: value for name, value in lists.items() if value}}
    return {**response, "logprobs": logprobs} if logprobs else response


# Errors in Cohere's form.


def refused(message: str, status: int = 400) -> BadRequest:
    """Returns the error of an invalid request."""
    return BadRequest(message, status=status)


def unknown_field(name: str) -> BadRequest:
    """Returns the error of an unknown field, at any depth."""
    return refused(
        f"unknown field: parameter '{name}' is not a valid field. "
        "For proper usage, please refer to https://docs.cohere.com/reference/chat",
        422,
    )


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response, `{id, message}`."""
    body: dict[str, Any] = {"message": error.message}
    if error.request_id:
        body["id"] = error.request_id
    if error.code == "context-too-long":
        body["error_type"] = "TOO_MANY_TOKENS"
    return error_response(error, body)
