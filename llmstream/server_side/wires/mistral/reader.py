"""The reverse of `request.py`: a Request from a client's HTTP request, rejected as Mistral rejects."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    OWN_KEY,
    Audio,
    Document,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.dialects.mistral.request import FIELDS, decode_media
from llmstream.dialects.mistral.wire import KEY
from llmstream.dialects.requests import Field
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.model_rules.mistral import MISTRAL
from llmstream.request import (
    NamedTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)
from llmstream.server_side.wires import leave_stream, read_function, read_settings, with_rest
from llmstream.server_side.wires.mistral.writer import misordered, refused, unfit

__all__ = ["decode_request"]


# The reverse of `request.py`: the wire's messages to ours, checked as Mistral checks them.

_FIELDS: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
# Roles that may follow a role. A user right after a tool is accepted since 2026.
_AFTER: Final = {
    "system": ("system", "user", "assistant"),
    "user": ("system", "user", "assistant"),
    "assistant": ("user", "assistant", "tool"),
    "tool": ("assistant", "tool", "user"),
}


class MessageReader:
    """Reads the messages of one request."""

    def __init__(self) -> None:
        self._out: list[Message] = []
        self._names: dict[str, str] = {}
        self._awaited = 0

    def read(self, messages: object) -> tuple[Message, ...]:
        """Returns our messages; results of one turn become one message.

        raises: BadRequest with the vendor's message
        """
        if not isinstance(messages, list):
            raise unfit("body.messages", "Input should be a valid list", "list_type")
        if not messages:
            raise misordered("Conversation must have at least one message")
        before = ""
        for index, message in enumerate(messages):
            role = self._role(index, message)
            if before and role not in _AFTER[before]:
                raise misordered(f"Unexpected role '{role}' after role '{before}'")
            if not before and role == "tool":
                raise misordered("Unexpected role 'tool'")
            if role != "tool":
                self._count()
            self._message(f"body.messages.{index}.{role}", role, message)
            before = role
        if before == "assistant" and messages[-1].get("prefix") is not True:
            wanted = "User or Tool (or Assistant with prefix True)"
            raise misordered(f"Expected last role {wanted} for serving but got assistant")
        self._count()
        return tuple(self._out)

    def _role(self, index: int, message: object) -> str:
        if not isinstance(message, dict):
            raise unfit(f"body.messages.{index}", "Input should be a valid dictionary", "dict_type")
        role = message.get("role")
        if role not in _FIELDS:
            raise unfit(
                f"body.messages.{index}",
                f"Input tag '{role}' found using 'role' does not match any of the expected tags: "
                "'system', 'user', 'assistant', 'tool'",
                "union_tag_invalid",
            )
        for name in message:
            if name not in _FIELDS[role]:
                where = f"body.messages.{index}.{role}.{name}"
                raise unfit(where, "Extra inputs are not permitted", "extra_forbidden")
        return str(role)

    def _count(self) -> None:
        if self._awaited:
            raise misordered("Not the same number of function calls and responses")

    def _message(self, where: str, role: str, message: dict[str, Any]) -> None:
        if role == "tool":
            self._tool(where, message)
        elif role == "assistant":
            self._assistant(where, message)
        elif "content" not in message:
            raise unfit(f"{where}.content", "Field required")
        else:
            # Encoding puts an assistant message between the two, unless the client did without.
            follows_tool = bool(self._out) and self._out[-1].role == "tool"
            metadata = {OWN_KEY: {KEY: {"follows_tool": True}}} if follows_tool else None
            self._out.append(Message("", role, self._content(where, message["content"]), metadata))

    def _tool(self, where: str, message: dict[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or not call_id:
            raise misordered("Tool call id has to be defined in serving mode.")
        if call_id not in self._names:
            raise misordered(f"Unexpected tool call id {call_id} in tool results")
        if not self._awaited:
            raise misordered("Not the same number of function calls and responses")
        self._awaited -= 1
        parts = self._content(where, message.get("content"))
        text = "".join(part.text for part in parts if isinstance(part, Text))
        files = tuple(part for part in parts if isinstance(part, (Image, Document, Audio)))
        name = str(message.get("name") or self._names[call_id])
        result = ToolResult(call_id, text, name=name, parts=files)
        last = self._out[-1]
        if last.role == "tool":
            self._out[-1] = Message("", "tool", (*last.parts, result))
        else:
            self._out.append(Message.tool([result]))

    def _assistant(self, where: str, message: dict[str, Any]) -> None:
        parts = list(self._content(where, message.get("content")))
        calls = [self._call(where, call) for call in message.get("tool_calls") or ()]
        if not parts and not calls:
            raise misordered("Assistant message must have either content or tool_calls, but not none.")
        self._awaited = len(calls)
        self._out.append(Message("", "assistant", (*parts, *calls)))

    def _call(self, where: str, call: object) -> ToolCall:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise unfit(f"{where}.tool_calls.0.function", "Field required")
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or arguments is None:
            raise unfit(f"{where}.tool_calls.0.function.name", "Field required")
        # Mistral takes arguments as an object as well.
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        # What Mistral's client sends for a missing id.
        call_id = str(call.get("id") or "null")
        self._names[call_id] = name
        return ToolCall(call_id, name, arguments)

    def _content(self, where: str, content: object) -> tuple[Part, ...]:
        if content is None or content == "":
            return ()
        if isinstance(content, str):
            return (Text(content),)
        if not isinstance(content, list):
            raise unfit(f"{where}.content", "Input should be a valid string", "string_type")
        parts = (self._part(f"{where}.content.{index}", part) for index, part in enumerate(content))
        return tuple(part for part in parts if part is not None)

    def _part(self, where: str, part: object) -> Part | None:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict):
            raise unfit(where, "Input should be a valid dictionary", "dict_type")
        if kind == "text" and isinstance(part.get("text"), str):
            return Text(part["text"]) if part["text"] else None
        if kind == "thinking":
            return _thinking(part)
        try:
            media = decode_media(part)
        except ValueError:
            raise unfit(where, "Input should be valid base64", "value_error") from None
        if media is None:
            raise unfit(where, f"Input tag '{kind}' found using 'type' is not expected", "union_tag_invalid")
        return media


def _thinking(part: dict[str, Any]) -> Reasoning:
    text = part.get("thinking")
    if isinstance(text, list):
        text = "".join(str(one.get("text") or "") for one in text if isinstance(one, dict))
    signature = part.get("signature")
    metadata: Metadata | None = {KEY: {"signature": signature}} if signature else None
    return Reasoning(str(text or ""), metadata)


# Fields of the vendor without a field in `Request`.
_OWN: Final = frozenset(
    {"stream", "n", "safe_prompt", "prediction", "prompt_mode", "reasoning_effort", "metadata", "min_tokens"}
    | {"prompt_cache_key", "guardrails", "logprobs", "top_logprobs", "service_tier"}
    | {"prompt_logprobs", "repetition_penalty"}
)

_USUAL_EFFORTS: Final = ("none", "high")


def decode_request(http: HttpRequest) -> Request:
    """Reads a client's request.

    raises: BadRequest with the vendor's message
    """
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise unfit("body", "JSON decode error", "json_invalid") from None
    if not isinstance(body, dict):
        raise unfit("body", "Input should be a valid dictionary", "dict_type")
    for name in ("model", "messages"):
        if body.get(name) is None:
            raise unfit(f"body.{name}", "Field required")
    model = body.pop("model")
    if not isinstance(model, str) or not model:
        raise unfit("body.model", "Input should be a valid string", "string_type")
    messages = MessageReader().read(body.pop("messages"))
    parallel = body.pop("parallel_tool_calls", None)
    settings = Settings(
        parallel_tool_calls=parallel if isinstance(parallel, bool) else None,
        **read_settings(body, _CHECKED, wrong_type=_wrong_type, out_of_range=_out_of_range, one_stop=True),
    )
    tools = _tools(body)
    choice = _tool_choice(body, tools)
    format_ = _response_format(body)
    reasoning = _reasoning(body, model)
    leave_stream(body)
    for name in body:
        if name not in _OWN:
            raise unfit(f"body.{name}", "Extra inputs are not permitted", "extra_forbidden")
    own = {name: value for name, value in body.items() if value is not None}
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


# The vendor rejects negative numbers; `encode` leaves that to it.
_CHECKED: Final = [
    msgspec.structs.replace(field, low=0) if field.kind == "integer" else field for field in FIELDS
]


def _wrong_type(field: Field, value: object) -> Exception:
    kind = "string" if field.kind == "strings" else field.kind
    return unfit(f"body.{field.wire_name}", f"Input should be a valid {kind}", f"{kind}_type")


def _out_of_range(field: Field, value: float, bound: float) -> Exception:
    than, code = ("greater", "greater_than_equal") if value < bound else ("less", "less_than_equal")
    return unfit(f"body.{field.wire_name}", f"Input should be {than} than or equal to {bound:g}", code)


def _tools(body: dict[str, Any]) -> tuple[ToolSpec, ...]:
    tools = body.pop("tools", None)
    if tools is None:
        return ()
    if not isinstance(tools, list) or not tools:
        raise unfit("body.tools", "Extra inputs are not permitted", "extra_forbidden")
    return tuple(_tool(index, tool) for index, tool in enumerate(tools))


def _tool(index: int, tool: object) -> ToolSpec:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        raise unfit(f"body.tools.{index}.function", "Field required")
    if not isinstance(function.get("name"), str):
        raise unfit(f"body.tools.{index}.function.name", "Field required")
    schema, strict = function.get("parameters"), function.get("strict")
    return read_function(function["name"], function.get("description"), schema, strict)


def _tool_choice(body: dict[str, Any], tools: tuple[ToolSpec, ...]) -> ToolChoice | None:
    choice = body.pop("tool_choice", None)
    if choice is None:
        return None
    if choice == "auto" or choice == "none":
        known: ToolChoice = choice
        return known
    if choice in ("any", "required"):
        if not tools:
            raise refused(
                "When using tool_choice=any, tools must be provided.", "invalid_request_tool_choice"
            )
        return "required"
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise unfit("body.tool_choice", "Input should be 'auto', 'none', 'any' or 'required'", "enum")
    if name not in [tool.name for tool in tools]:
        raise _no_tool(f"Function {name} is not in the tools.")
    return NamedTool(name)


def _no_tool(message: str) -> BadRequest:
    return refused(message, "invalid_request_tool_choice")


def _response_format(body: dict[str, Any]) -> ResponseFormat | None:
    wanted = body.pop("response_format", None)
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return ResponseFormat()
    if kind != "json_schema":
        message = "Input should be 'text', 'json_object' or 'json_schema'"
        raise unfit("body.response_format.type", message, "enum")
    # `schema_definition` is the name of the field in Mistral's Python client.
    held = wanted.get("json_schema")
    schema = held.get("schema", held.get("schema_definition")) if isinstance(held, dict) else None
    if not isinstance(schema, dict) or not isinstance(held, dict):
        raise unfit("body.response_format.json_schema.schema", "Field required")
    name = str(held.get("name") or "response")
    return ResponseFormat(schema, name, held.get("description"), held.get("strict") is True)


def _reasoning(body: dict[str, Any], model: str) -> ReasoningOptions | None:
    """Reads how thinking is requested, in either form that `encode` writes."""
    rules = MISTRAL.find(model)
    effort = body.get("reasoning_effort")
    # By its page Magistral always thinks; by the vendor's list of models of 2026-10-06 (@ai-sdk/mistral
    # 4.0.87, which sends an effort) its latest know the usual two. What one source allows is read.
    efforts = rules.efforts or (_USUAL_EFFORTS if rules.prompt_mode else ())
    if effort is not None and effort not in efforts:
        known = " or ".join(f"'{name}'" for name in efforts)
        message = f"Input should be {known}" if known else "This model takes no reasoning effort"
        raise unfit("body.reasoning_effort", message, "literal_error")
    if effort is not None:
        del body["reasoning_effort"]
        return ReasoningOptions(effort=effort)
    if body.get("prompt_mode") == "reasoning" and rules.prompt_mode:
        del body["prompt_mode"]
        return ReasoningOptions()
    return None
