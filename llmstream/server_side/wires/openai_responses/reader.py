"""The reverse of `request.py`: a Request from a client's HTTP request, rejected as OpenAI rejects.

Fields without an option of ours, and those that differ from what we would send (a missing `store`), go to
`provider_options`, so that encoding the Request gives the same body.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import msgspec

from llmstream.chats.content import Audio, Document, Image, Part, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.base import Position
from llmstream.dialects.openai_responses.background import RESPONSE_ID
from llmstream.dialects.openai_responses.content import own
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.request import (
    CONTINUING,
    MERGED,
    NAMED_TOOLS,
    encode_request,
    mentions_json,
    system_role,
)
from llmstream.dialects.openai_responses.wire import KEY
from llmstream.dialects.requests import Field
from llmstream.dialects.schemas import strict_problem
from llmstream.errors import CallerError
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gpt import GPT
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)
from llmstream.server_side.wires import json_object, read_function, read_settings, with_rest
from llmstream.server_side.wires.errors import check_effort, out_of_range, wrong_type
from llmstream.server_side.wires.errors import openai_refusal as refused
from llmstream.server_side.wires.openai_responses.content_reader import (
    read_assistant_message,
    read_part,
    read_response_item,
)

__all__ = ["BackgroundRequest", "read_background_request", "read_request"]


# The reverse of `input_writer.py`: the items of a request to messages, checked as OpenAI checks them.

_ROLES: Final = ("assistant", "system", "developer", "user")
# Items with the result of a call of the caller's tools.
_OUTPUTS: Final = {
    "function_call_output": "function call output",
    "custom_tool_call_output": "custom tool call output",
    "computer_call_output": "computer call output",
    "local_shell_call_output": "local shell call output",
    "shell_call_output": "shell call output",
    "apply_patch_call_output": "apply patch call output",
    "tool_search_output": "tool search output",
}

# Outputs of text or parts; the others are passed back unchanged.
_PLAIN: Final = ("function_call_output", "custom_tool_call_output")


class InputReader:
    """Reads the input of one request.

    role:      the model's name of the system role
    leading:   a system message at the beginning would be taken for the instructions
    continued: the request continues a conversation that the vendor has stored
    """

    def __init__(self, *, role: str, leading: bool, continued: bool) -> None:
        self._role = role
        self._leading = leading
        self._continued = continued
        self._out: list[Message] = []
        self._parts: list[list[Part]] = []  # of each item
        self._names: dict[str, str] = {}
        self._pending: dict[str, str] = {}
        self._ids: set[str] = set()
        self._reasoning: str | None = None

    def read(self, value: object) -> list[Message]:
        """Returns our messages; consecutive items of one side become one message.

        raises: BadRequest with the vendor's message
        """
        if isinstance(value, str):
            return [Message("", "user", (Text(value),))]
        if not isinstance(value, list):
            raise refused("Invalid type for 'input': expected a string or an array.", "invalid_type")
        if not value and not self._continued:
            raise refused(
                "Invalid 'input': empty array. Expected an array with minimum length 1, "
                "but got an empty array instead.",
                "empty_array",
            )
        for index, item in enumerate(value):
            self._item(f"input[{index}]", item)
        self._need_next()
        if self._pending:
            call_id = next(iter(self._pending))
            raise refused(f"No tool output found for function call {call_id}.")
        for message, parts in zip(self._out, self._parts, strict=True):
            message.parts = tuple(parts)
        return self._out

    def _item(self, where: str, item: object) -> None:
        if not isinstance(item, dict):
            raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
        kind = item.get("type", "message" if "role" in item else None)
        if not isinstance(kind, str):
            raise refused(f"Missing required parameter: '{where}.type'.", "missing_required_parameter")
        self._check_id(item, kind)
        if kind == "message":
            self._message(where, item)
        # Other outputs without an open call are the vendor's own, and part of its response.
        elif kind in _OUTPUTS and (kind in _PLAIN or item.get("call_id") in self._pending):
            self._need_next()
            self._append("tool", self._output(where, kind, item))
        elif kind == "mcp_approval_response":
            self._need_next()
            self._append("tool", self._approval(where, item))
        else:
            for part in read_response_item(where, item):
                if isinstance(part, ToolCall) and not part.provider_executed:
                    self._pending[part.id] = part.name
                    self._names[part.id] = part.name
                self._append("assistant", part)
            self._reasoning = str(item.get("id")) if kind == "reasoning" else None

    def _check_id(self, item: dict[str, Any], kind: str) -> None:
        item_id = item.get("id")
        # A reference repeats an id intentionally.
        if not isinstance(item_id, str) or kind == "item_reference":
            return
        if item_id in self._ids:
            raise refused(
                f"Duplicate item found with id {item_id}. "
                "Remove duplicate items from your input and try again."
            )
        self._ids.add(item_id)

    def _need_next(self) -> None:
        if self._reasoning is not None:
            raise refused(
                f"Item '{self._reasoning}' of type 'reasoning' was provided "
                "without its required following item."
            )

    def _append(self, role: str, part: Part) -> None:
        if self._out and self._out[-1].role == role:
            self._parts[-1].append(part)
        else:
            self._add(role, [part])

    def _add(self, role: str, parts: list[Part]) -> None:
        self._out.append(Message("", role))
        self._parts.append(parts)

    def _message(self, where: str, item: dict[str, Any]) -> None:
        role = item.get("role")
        if role not in _ROLES:
            raise refused(
                f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, _ROLES))}.",
                "invalid_value",
            )
        if role == "assistant":
            self._reasoning = None
            for part in read_assistant_message(where, item):
                self._append("assistant", part)
            return
        self._need_next()
        content = item.get("content")
        if isinstance(content, str):
            content = [{"type": "input_text", "text": content}]
        if not isinstance(content, list):
            raise refused(f"Missing required parameter: '{where}.content'.", "missing_required_parameter")
        parts = [read_part(f"{where}.content[{i}]", part) for i, part in enumerate(content)]
        if role == "user":
            self._add("user", parts)
        else:
            self._add("system", self._system(role, parts))

    def _system(self, role: str, parts: list[Part]) -> list[Part]:
        """Returns the parts of a system message, marked if it would be written differently here."""
        first = parts[0] if parts else None
        if isinstance(first, Text) and (role != self._role or (self._leading and not self._out)):
            parts[0] = Text(first.text, {KEY: {**own(first), "role": role}})
        return parts

    def _output(self, where: str, kind: str, item: dict[str, Any]) -> ToolResult:
        call_id = item.get("call_id")
        if not isinstance(call_id, str):
            raise refused(f"Missing required parameter: '{where}.call_id'.", "missing_required_parameter")
        if call_id not in self._names and not self._continued:
            raise refused(f"No tool call found for {_OUTPUTS[kind]} with call_id {call_id}.")
        self._pending.pop(call_id, None)
        name, output = self._names.get(call_id, ""), item.get("output")
        own = {n: item[n] for n in ("id", "status", "caller") if item.get(n) is not None}
        if kind not in _PLAIN:
            content = output if isinstance(output, str) else ""
            failed = item.get("status") == "failed"
            return ToolResult(call_id, content, failed, name, metadata={KEY: {"item": item}})
        if isinstance(output, str):
            return ToolResult(call_id, output, name=name, metadata={KEY: own} if own else None)
        if not isinstance(output, list):
            raise refused(f"Missing required parameter: '{where}.output'.", "missing_required_parameter")
        parts = [read_part(f"{where}.output[{i}]", part) for i, part in enumerate(output)]
        texts = [part.text for part in parts if isinstance(part, Text)]
        files = [part for part in parts if isinstance(part, (Image, Document, Audio))]
        if len(texts) > 1 or (texts and not isinstance(parts[0], Text)) or not files:
            # Our result has no place for its other fields.
            own = {"item": item}
        metadata = {KEY: own} if own else None
        return ToolResult(call_id, "\n".join(texts), name=name, parts=tuple(files), metadata=metadata)

    def _approval(self, where: str, item: dict[str, Any]) -> ToolResult:
        request_id = item.get("approval_request_id")
        if not isinstance(request_id, str) or not isinstance(item.get("approve"), bool):
            name = f"{where}.approval_request_id"
            raise refused(f"Missing required parameter: '{name}'.", "missing_required_parameter")
        decision = str(item.get("reason") or ("true" if item["approve"] else "false"))
        return ToolResult(request_id, decision, not item["approve"], metadata={KEY: {"item": item}})


# Tools and the choice among them, read from a client's request.


def read_tools(tools: object) -> tuple[ToolSpec | ProviderTool, ...]:
    """Reads the tools, in their order.

    raises: BadRequest with the vendor's message
    """
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise refused("Invalid type for 'tools': expected an array of objects.", "invalid_type")
    return tuple(_tool(f"tools[{index}]", tool) for index, tool in enumerate(tools))


def _tool(where: str, tool: object) -> ToolSpec | ProviderTool:
    """Reads a function as a ToolSpec, unless it has other fields; any other tool as the vendor's own."""
    if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
        raise refused(f"Missing required parameter: '{where}.type'.", "missing_required_parameter")
    rest = {k: v for k, v in tool.items() if k != "type"}
    name = ""
    if tool["type"] in NAMED_TOOLS:
        name = rest.pop("name", None)
        if not isinstance(name, str) or not name:
            raise refused(f"Missing required parameter: '{where}.name'.", "missing_required_parameter")
    more = [k for k, v in rest.items() if k not in ("description", "parameters", "strict") and v is not None]
    if tool["type"] != "function" or more:
        return ProviderTool(tool["type"], name, rest)
    schema, strict = rest.get("parameters"), rest.get("strict")
    if strict is True:
        problem = strict_problem(schema)
        if problem:
            raise refused(f"Invalid schema for function '{name}': {problem}", "invalid_function_parameters")
    return read_function(name, rest.get("description"), schema, strict)


def read_tool_choice(choice: Any, tools: tuple[ToolSpec | ProviderTool, ...]) -> ToolChoice | None:
    """Reads the choice; None for one that is left to the vendor's own fields.

    raises: BadRequest with the vendor's message
    """
    if choice in (None, "auto", "none", "required"):
        if choice == "required" and not tools:
            raise refused("Tool choice 'required' must be specified with 'tools' parameter.")
        known: ToolChoice | None = choice
        return known if tools else None
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not isinstance(kind, str):
        raise refused(f"Invalid value for 'tool_choice': {choice!r}.", "invalid_value")
    if kind == "allowed_tools":
        return None
    name = choice.get("name")
    own = [tool.type for tool in tools if isinstance(tool, ProviderTool)]
    if name in [tool.name for tool in tools] and isinstance(name, str) and name:
        return NamedTool(name)
    if kind not in own:
        raise refused(f"Tool choice '{kind}' not found in 'tools' parameter.")
    return NamedTool(kind) if set(choice) == {"type"} else None


_NUMBERS: Final = (Field("temperature", "temperature", low=0, high=2), Field("top_p", "top_p", low=0, high=1))
_MOVED: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
_UNKNOWN: Final = ("stop", "seed", "presence_penalty", "frequency_penalty", "top_k", "n", "functions")
# The API refuses less: "integer_below_min_value".
_MIN_OUTPUT_TOKENS: Final = 16
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_READ: Final = frozenset({"model", "input", "instructions", "tools"})


def read_request(http: HttpRequest, quirks: Quirks, *, key: str) -> Request:
    """Reads a client's request.

    key: key in `provider_options` of fields without an option of ours

    raises: BadRequest with the vendor's message
    """
    body = json_object(http)
    if body is None:
        raise refused("We could not parse the JSON body of your request. The body has to be a JSON object.")
    _check(body, quirks)
    messages = _messages(body, quirks)
    tools = read_tools(body.get("tools"))
    request = Request(
        model=body["model"],
        messages=tuple(messages),
        tools=tools,
        tool_choice=read_tool_choice(body.get("tool_choice"), tools),
        settings=_settings(body, quirks),
        response_format=_response_format(body, quirks),
        reasoning=_reasoning(body, quirks),
    )
    return with_rest(request, http, key, _difference(body, request, quirks, key))


def _difference(body: dict[str, Any], request: Request, quirks: Quirks, key: str) -> dict[str, Any]:
    """Returns the fields of the body that encoding the request would omit, change or add."""
    wanted = {name: value for name, value in body.items() if value is not None}
    shaping: dict[str, Any] = {name: wanted[name] for name in CONTINUING if name in wanted}
    if wanted.get("store") != quirks.store:
        shaping["store"] = wanted.get("store")
    known = msgspec.structs.replace(request, provider_options={key: shaping})
    try:
        sent = encode_request(known, quirks, provider=key).http.json()
    except CallerError as error:
        # The client sent what our own encoder rejects.
        raise refused(error.message) from None
    out: dict[str, Any] = dict(shaping)
    for name in [*wanted, *(name for name in sent if name not in wanted)]:
        if name in _READ or wanted.get(name) == sent.get(name):
            continue
        ours, theirs = sent.get(name), wanted.get(name)
        if name in MERGED and isinstance(ours, dict) and isinstance(theirs, dict):
            keys = [*theirs, *(inner for inner in ours if inner not in theirs)]
            out[name] = {k: theirs.get(k) for k in keys if theirs.get(k) != ours.get(k)}
        else:
            out[name] = theirs
    return out


def _check(body: dict[str, Any], quirks: Quirks) -> None:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise refused("Missing required parameter: 'model'.", "missing_required_parameter")
    for name, index in _MOVED.items():
        # Perplexity's Responses API takes the field of Chat Completions.
        if name in body and not (name == "response_format" and quirks.output.chat_response_format):
            raise refused(
                f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved to "
                f"'{index}'. Try again with the new parameter.",
                "unsupported_parameter",
            )
    for name in _UNKNOWN:
        if body.get(name) is not None and name in (quirks.unsupported_settings | {"n", "functions"}):
            raise refused(f"Unknown parameter: '{name}'.", "unknown_parameter")
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        raise refused(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Provide one of them.",
            "mutually_exclusive_parameters",
        )


def _messages(body: dict[str, Any], quirks: Quirks) -> list[Message]:
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise refused("Invalid type for 'instructions': expected a string.", "invalid_type")
    continued = any(body.get(name) is not None for name in CONTINUING)
    if "input" not in body and not continued:
        raise refused("Missing required parameter: 'input'.", "missing_required_parameter")
    reader = InputReader(
        role=system_role(body["model"], quirks),
        leading=quirks.input.system == "instructions" and not instructions,
        continued=continued,
    )
    messages = reader.read(body.get("input", []))
    return [Message.system(instructions), *messages] if instructions else messages


def _settings(body: dict[str, Any], quirks: Quirks) -> Settings:
    found: dict[str, Any] = {}
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    sampling = GPT.find(body["model"]).sampling
    samples = sampling == "always" or (sampling == "at-none" and effort == "none")
    for field in _NUMBERS:
        name = field.wire_name
        # The body is compared with the one that encoding produces.
        given = {name: body.get(name)}
        found |= read_settings(given, (field,), wrong_type=wrong_type, out_of_range=out_of_range)
        if name in found and quirks.reasoning_model_rules and not samples:
            raise refused(f"Unsupported parameter: '{name}' is not supported with this model.", None, name)
    most = body.get("max_output_tokens")
    if most is not None:
        if not isinstance(most, int) or isinstance(most, bool):
            raise refused("Invalid type for 'max_output_tokens': expected an integer.", "invalid_type")
        if most < _MIN_OUTPUT_TOKENS:
            raise refused(
                "Invalid 'max_output_tokens': integer below minimum value. "
                f"Expected a value >= {_MIN_OUTPUT_TOKENS}, but got {most} instead.",
                "integer_below_min_value",
            )
        found["max_output_tokens"] = most
    if isinstance(body.get("parallel_tool_calls"), bool):
        found["parallel_tool_calls"] = body["parallel_tool_calls"]
    return Settings(**found)


def _response_format(body: dict[str, Any], quirks: Quirks) -> ResponseFormat | None:
    text = body.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if quirks.output.chat_response_format and isinstance(body.get("response_format"), dict):
        wanted = {**body["response_format"], **(body["response_format"].get("json_schema") or {})}
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        if not mentions_json(body.get("input")):
            raise refused(
                "Response input messages must contain the word 'json' in some form to use 'text.format' "
                "of type 'json_object'."
            )
        return ResponseFormat()
    if kind != "json_schema":
        raise refused(
            f"Invalid value: {kind!r}. Supported values are: 'json_object', 'json_schema', and 'text'.",
            "invalid_value",
        )
    name, schema = wanted.get("name"), wanted.get("schema")
    for field, value, wanted_type in (("name", name, str), ("schema", schema, dict)):
        if not isinstance(value, wanted_type):
            raise refused(f"Missing required parameter: 'text.format.{field}'.", "missing_required_parameter")
    strict = wanted.get("strict") is True
    problem = strict_problem(schema) if strict else None
    if problem:
        raise refused(f"Invalid schema for response_format '{name}': {problem}", "invalid_json_schema")
    return ResponseFormat(schema, name, wanted.get("description"), strict)


def _reasoning(body: dict[str, Any], quirks: Quirks) -> ReasoningOptions | None:
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    if effort is None:
        return None
    if effort not in _EFFORTS:
        raise refused(
            f"Invalid value: {effort!r}. Supported values are: {', '.join(map(repr, _EFFORTS))}.",
            "invalid_value",
        )
    if quirks.reasoning_model_rules:
        check_effort("reasoning.effort", effort, GPT.find(body["model"]).efforts)
    return ReasoningOptions(effort=effort)


# Requests for a response in the background: to resume its stream, to read its state, to cancel it.


class BackgroundRequest(msgspec.Struct, frozen=True):
    """A request about a response in the background."""

    action: Literal["stream", "read", "cancel"]
    position: Position


def read_background_request(http: HttpRequest, path: str) -> BackgroundRequest | None:
    """Parses a request for a response in the background; None for any other."""
    where, _, query = http.url.partition("?")
    _, found, rest = where.partition(f"{path}/")
    response_id, _, action = rest.partition("/")
    if not found or not RESPONSE_ID.fullmatch(response_id):
        return None
    if http.method == "POST" and action == "cancel":
        return BackgroundRequest("cancel", Position(response_id))
    if http.method != "GET" or action:
        return None
    fields: dict[str, Any] = dict(parse_qsl(query))
    after = fields.get("starting_after", "-1")
    number = int(after) if re.fullmatch(r"-?\d{1,9}", after) else -1
    return BackgroundRequest(
        "stream" if fields.get("stream") == "true" else "read", Position(response_id, number)
    )
