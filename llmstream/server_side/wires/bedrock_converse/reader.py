"""A Converse request as ours: the reverse of `request.py`, checked as the vendor checks it.

source: the Converse reference, and responses seen on the wire
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.chats.content import Custom, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.dialects.bedrock_converse.content import read_media, read_result
from llmstream.dialects.bedrock_converse.quirks import Traits, traits
from llmstream.dialects.bedrock_converse.request import CACHE_POINT, SYSTEM_TOOL, model_of
from llmstream.dialects.bedrock_converse.wire import KEY, SERVER_TOOL
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.first_use import prepared
from llmstream.model_rules.claude import CLAUDE
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
from llmstream.server_side.wires import read_function, user_turn
from llmstream.server_side.wires.errors import claude_refusal

__all__ = ["decode_request"]


# Checks.

# source: Converse reference, ToolSpecification, ToolUseBlock, DocumentBlock
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_DOCUMENT_NAME: Final = re.compile(r"(?!.*\s\s)[a-zA-Z0-9\s\-()\[\]]{1,200}", re.DOTALL)
_SOURCED: Final = frozenset({"image", "document", "video", "audio"})


class Turn(msgspec.Struct):
    """One message as the body has it."""

    role: str
    content: list[dict[str, Any]]


def refusal(message: str) -> BadRequest:
    """Returns the error of a request that the vendor rejects."""
    return BadRequest(message, provider="bedrock", status=400, reason="ValidationException")


def shape_refusal(error: Exception) -> BadRequest:
    """Returns the error of a body that is not JSON, or has a wrong type."""
    return refusal(f"The request body could not be read: {error}. Check its JSON, and try again.")


def member(path: str, block: dict[str, Any]) -> tuple[str, Any]:
    """Returns the member of a union, whose name is the kind of the block.

    raises: BadRequest if there is none, or more than one
    """
    members = [(name, value) for name, value in block.items() if value is not None]
    if len(members) != 1:
        raise refusal(f"The value at {path} is a union: set exactly one of its members, and try again.")
    name, value = members[0]
    # Text is the only member that is no object.
    if isinstance(value, str) != (name == "text"):
        raise refusal(f"The value at {path}.{name} has the wrong type. Correct it, and try again.")
    return name, value


def check_turns(turns: list[Turn]) -> set[str]:
    """Checks roles, contents, and that every call has its result; returns the kinds of blocks.

    raises: BadRequest
    """
    dialogue = [turn for turn in turns if turn.role != "system"]
    if not dialogue or dialogue[0].role != "user":
        raise refusal(
            "A conversation must start with a user message. Try again with a conversation that starts "
            "with a user message."
        )
    kinds: set[str] = set()
    for number, turn in enumerate(turns):
        path = f"messages.{number}"
        if turn.role not in ("user", "assistant", "system"):
            raise refusal(
                f"1 validation error detected: Value '{turn.role}' at '{path}.role' failed to satisfy "
                "constraint: Member must satisfy enum value set: [user, assistant, system]"
            )
        if not turn.content:
            raise refusal(
                f"The content field in the Message object at {path} is empty. Add a ContentBlock object "
                "to the content field and try again."
            )
        kinds |= {_check_block(f"{path}.content.{i}", block) for i, block in enumerate(turn.content)}
        names = [set(block) for block in turn.content]
        # source: Bedrock, API reference, DocumentBlock: a message with a document needs a text block
        if turn.role == "user" and {"document"} in names and {"text"} not in names:
            raise refusal(f"Add a text block beside the document at {path}.content, and try again.")
    _check_calls(turns)
    return kinds


def check_inference(fields: dict[str, Any]) -> None:
    """Checks limits of numbers.

    raises: BadRequest
    """
    # An Integer of AWS has 32 bits with a sign.
    limits = {"maxTokens": (1, 2**31 - 1), "temperature": (0, 1), "topP": (0, 1)}
    for name, (least, most) in limits.items():
        value = fields.get(name)
        if value is None or least <= value <= most:
            continue
        bound = f"greater than or equal to {least}" if value < least else f"less than or equal to {most}"
        raise refusal(
            f"1 validation error detected: Value '{value}' at 'inferenceConfig.{name}' failed to satisfy "
            f"constraint: Member must have value {bound}"
        )


def check_tools(config: dict[str, Any] | None, kinds: set[str]) -> None:
    """Checks names and schemas of the tools, that a choice has tools, and that calls have tools.

    raises: BadRequest
    """
    if config is None:
        # Also if no tool may be called: clients that drop the tools at the last step fail here.
        if kinds & {"toolUse", "toolResult"}:
            raise refusal(
                "The toolConfig field must be defined when using toolUse and toolResult content blocks."
            )
        return
    tools = config.get("tools")
    if not isinstance(tools, list) or not tools:
        raise refusal(
            "1 validation error detected: Value at 'toolConfig.tools' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1"
        )
    names = [_check_tool(f"toolConfig.tools.{i}", tool) for i, tool in enumerate(tools)]
    chosen = [name for name in names if name]
    if len(set(chosen)) < len(chosen):
        raise refusal("The toolConfig field contains duplicate tool names. Give each tool a name of its own.")
    match config.get("toolChoice"):
        case None | {"auto": dict()} | {"any": dict()}:
            return
        case {"tool": {"name": str(name)}} if name in chosen:
            return
        case {"tool": {"name": str(name)}}:
            raise refusal(f"The tool '{name}' in toolConfig.toolChoice is not among toolConfig.tools.")
    raise refusal("The value at toolConfig.toolChoice is a union: set one of auto, any and tool.")


def _check_tool(path: str, tool: Any) -> str:
    """Checks a tool; returns its name, or "" for other entries of the list."""
    kind, value = member(path, tool if isinstance(tool, dict) else {})
    # A cache point is in the list of tools, and has no name.
    if kind == "cachePoint":
        return ""
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise refusal(
            f"1 validation error detected: Value '{name}' at '{path}.member.{kind}.name' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        )
    if kind == "toolSpec":
        given = value.get("inputSchema")
        schema = given.get("json") if isinstance(given, dict) else None
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise refusal(
                f"The value at {path}.toolSpec.inputSchema.json.type must be one of the following: object."
            )
        if value.get("description") == "":
            raise refusal(
                f"1 validation error detected: Value '' at '{path}.member.toolSpec.description' failed to "
                "satisfy constraint: Member must have length greater than or equal to 1"
            )
    return name


def _check_block(path: str, block: dict[str, Any]) -> str:
    """Checks a block; returns its kind."""
    kind, value = member(path, block)
    if kind == "text":
        if not value.strip():
            raise refusal(
                f"The text field in the ContentBlock object at {path} is blank. Add text to the text field, "
                "and try again."
            )
        return kind
    if not isinstance(value, dict):
        raise refusal(f"The value at {path}.{kind} has the wrong type. Correct it, and try again.")
    if kind in _SOURCED and not isinstance(value.get("source"), dict):
        raise refusal(f"The source field at {path}.{kind} must be defined.")
    if kind == "document" and not _DOCUMENT_NAME.fullmatch(str(value.get("name", ""))):
        raise refusal(
            "The document file name can only contain alphanumeric characters, whitespace characters, "
            "hyphens, parentheses, and square brackets. The name can't contain more than one consecutive "
            "whitespace character."
        )
    if kind in ("toolUse", "toolResult"):
        _check_call(f"{path}.{kind}", kind, value)
    return kind


def _check_call(path: str, kind: str, value: dict[str, Any]) -> None:
    call_id = value.get("toolUseId")
    if not isinstance(call_id, str) or not _CALL_ID.fullmatch(call_id):
        raise refusal(
            f"1 validation error detected: Value '{call_id}' at '{path}.toolUseId' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+"
        )
    if kind == "toolResult":
        content = value.get("content")
        if not isinstance(content, list):
            raise refusal(f"The content field at {path} must be defined.")
        for number, piece in enumerate(content):
            member(f"{path}.content.{number}", piece if isinstance(piece, dict) else {})
        return
    name = value.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise refusal(
            f"1 validation error detected: Value '{name}' at '{path}.name' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        )
    if not isinstance(value.get("input"), dict):
        raise refusal(
            f"The format of the value at {path}.input is invalid. Provide a json object for the field and "
            "try again."
        )


def _check_calls(turns: list[Turn]) -> None:
    """Checks that each call has one result in the next turn, and each result a call."""
    waiting: list[str] = []
    for number, turn in enumerate(turns):
        path = f"messages.{number}.content"
        if turn.role == "assistant":
            _reject_missing(path, waiting)
            uses = [block["toolUse"] for block in turn.content if block.get("toolUse")]
            # The vendor itself has run its tools; their results are in the same turn.
            waiting = [use["toolUseId"] for use in uses if use.get("type") != SERVER_TOOL]
            continue
        results = [block["toolResult"]["toolUseId"] for block in turn.content if block.get("toolResult")]
        if len(set(results)) < len(results):
            raise refusal(f"The toolResult blocks at {path} contain duplicate Ids: {', '.join(results)}")
        if set(results) - set(waiting):
            raise refusal(
                f"The number of toolResult blocks at {path} exceeds the number of toolUse blocks of previous "
                "turn."
            )
        if turn.role == "user":
            _reject_missing(path, [call_id for call_id in waiting if call_id not in results])
            waiting = []
    _reject_missing("messages", waiting)


def _reject_missing(path: str, lacking: list[str]) -> None:
    if lacking:
        raise refusal(f"Expected toolResult blocks at {path} for the following Ids: {', '.join(lacking)}")


# Reading.

# The turns of a Converse request as our messages: the reverse of the dialect's `messages.py`.

_CACHE_POINT = "cachePoint"


def read_system(blocks: list[dict[str, Any]]) -> list[Message]:
    """Reads the system prompt as one message, with a part for each block."""
    parts: list[Part] = []
    for number, block in enumerate(blocks):
        kind, value = member(f"system.{number}", block)
        if kind == "text" and not value:
            raise refusal(
                f"1 validation error detected: Value '' at 'system.{number}.member.text' failed to satisfy "
                "constraint: Member must have length greater than or equal to 1"
            )
        _append(parts, kind, value, Text(value) if kind == "text" else None)
    return [Message("", Role.SYSTEM, tuple(parts))] if parts else []


class TurnReader:
    """Reads turns that have been checked; results get the names of their calls."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, turns: list[Turn]) -> list[Message]:
        """Returns our messages; a user's turn with tool results becomes a tool message and the rest."""
        out: list[Message] = []
        for turn in turns:
            parts: list[Part] = []
            for block in turn.content:
                # `check_turns` guarantees that there is one.
                ((kind, value),) = ((k, v) for k, v in block.items() if v is not None)
                _append(parts, kind, value, self._part(kind, value))
            if turn.role != "user":
                out.append(Message("", Role(turn.role), tuple(parts)))
                continue
            out += user_turn(parts)
        return out

    def _part(self, kind: str, value: Any) -> Part | None:
        match kind:
            case "text":
                return Text(value)
            case "toolUse":
                return self._call(value)
            case "toolResult":
                return self._result(value)
            case "reasoningContent":
                return _reasoning(value)
            case "citationsContent":
                return _cited(value)
            case "image" | "document" | "video" | "audio":
                return read_media(kind, value)
        return None

    def _call(self, value: dict[str, Any]) -> ToolCall:
        self._names[value["toolUseId"]] = value["name"]
        by_vendor = value.get("type") == SERVER_TOOL
        metadata = {KEY: {"type": SERVER_TOOL}} if by_vendor else None
        arguments = msgspec.json.encode(value["input"]).decode()
        return ToolCall(value["toolUseId"], value["name"], arguments, by_vendor, metadata)

    def _result(self, value: dict[str, Any]) -> ToolResult:
        call_id, failed = value["toolUseId"], value.get("status") == "error"
        name = self._names.get(call_id, "")
        content = value["content"]
        # Only results of the vendor's own tools have a type.
        if value.get("type") is not None:
            own = {key: field for key, field in value.items() if key not in ("toolUseId", "content")}
            text = msgspec.json.encode(content).decode()
            return ToolResult(
                call_id, text, failed, name, result=content, provider_executed=True, metadata={KEY: own}
            )
        text, media, own = read_result(content)
        # Some models refuse a status, so a success is sent on only where the client sent it.
        if value.get("status") == "success":
            own = {**own, "status": "success"}
        return ToolResult(call_id, text, failed, name, media, metadata={KEY: own} if own else None)


def _append(parts: list[Part], kind: str, value: Any, part: Part | None) -> None:
    """Adds a part; a cache point marks the part before it, and an unknown block goes back unchanged."""
    if part is None and kind == _CACHE_POINT and parts and not isinstance(parts[-1], Custom):
        marked: Any = parts[-1]
        own = {**(marked.metadata or {}).get(KEY, {}), "cache_point": value}
        parts[-1] = msgspec.structs.replace(marked, metadata={**(marked.metadata or {}), KEY: own})
    else:
        parts.append(Custom(f"{KEY}.{kind}", {KEY: value}) if part is None else part)


def _reasoning(value: dict[str, Any]) -> Part | None:
    match value:
        case {"redactedContent": str(data)}:
            return Reasoning("", {KEY: {"redacted_data": data}})
        case {"reasoningText": {"text": str(text), "signature": str(signature)}}:
            return Reasoning(text, {KEY: {"signature": signature}})
        case {"reasoningText": {"text": str(text)}}:
            return Reasoning(text)
    return None


def _cited(value: dict[str, Any]) -> Part | None:
    match value:
        case {"content": [{"text": str(text)}], "citations": list(citations)} if text.strip() and citations:
            return Text(text, {KEY: {"citations": citations}})
    return None


_NOVA_EFFORTS: Final = ("low", "medium", "high")


class _Inference(msgspec.Struct, rename="camel"):
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None


class _Body(msgspec.Struct, rename="camel"):
    messages: list[Turn] = []
    system: list[dict[str, Any]] | None = None
    inference_config: _Inference | None = None
    tool_config: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    additional_model_request_fields: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Body).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
# The others go to `provider_options`.
_OWN: Final = frozenset(_Body.__struct_encode_fields__)


def decode_request(http: HttpRequest) -> Request:
    """Reads a client's request; other fields go to `provider_options`.

    raises: BadRequest with the vendor's message
    """
    try:
        # Decoded twice: known fields are checked by type, the rest is passed on unchanged.
        rest = _decode_any(http.body)
        body = _decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise shape_refusal(error) from None
    model = model_of(http.url)
    if not model:
        raise refusal("The provided model identifier is invalid.")
    check_inference(rest.get("inferenceConfig") or {})
    check_tools(body.tool_config, check_turns(body.messages))
    _check_claude(model, rest)
    can = traits(model)
    fields = dict(body.additional_model_request_fields or {})
    output = dict(body.output_config or {})
    wanted = _format(output)
    reasoning = _requested_reasoning(
        fields, output, can, by_budget=CLAUDE.find(model).thinking in ("budget", "either")
    )
    top_k = _top_k(fields, can)
    inference = body.inference_config or _Inference()
    options = {name: value for name, value in rest.items() if name not in _OWN and value is not None}
    leftovers = {"outputConfig": output, "additionalModelRequestFields": fields}
    options |= {name: value for name, value in leftovers.items() if value}
    config = body.tool_config or {}
    return Request(
        model=model,
        messages=(*read_system(body.system or []), *TurnReader().read(body.messages)),
        tools=tuple(_tool(tool) for tool in config.get("tools", ())),
        tool_choice=_choice(config.get("toolChoice")),
        settings=Settings(
            temperature=inference.temperature,
            top_p=inference.top_p,
            top_k=top_k,
            max_output_tokens=inference.max_tokens,
            stop=tuple(inference.stop_sequences or ()),
        ),
        response_format=wanted,
        reasoning=reasoning,
        provider_options={KEY: options} if options else {},
    )


def _check_claude(model: str, body: dict[str, Any]) -> None:
    """Checks the rules of Claude models; models of other vendors have none here.

    raises: BadRequest
    """
    fields, inference = body.get("additionalModelRequestFields") or {}, body.get("inferenceConfig") or {}
    choice = (body.get("toolConfig") or {}).get("toolChoice") or {}
    sampling = [name for name in ("temperature", "topP") if inference.get(name) is not None]
    message = claude_refusal(
        model,
        thinking=fields.get("thinking") or {},
        effort=(body.get("outputConfig") or {}).get("effort"),
        forced="any" in choice or "tool" in choice,
        sampling=[*sampling, *(["top_k"] if fields.get("top_k") is not None else [])],
    )
    if message is not None:
        raise refusal(f"The model returned the following errors: {message}")


def _tool(tool: dict[str, Any]) -> ToolSpec | ProviderTool:
    match tool:
        case {"toolSpec": dict(spec)}:
            description, strict = spec.get("description"), spec.get("strict")
            return read_function(spec["name"], description, spec["inputSchema"]["json"], strict)
        case {"cachePoint": dict(mark)}:
            return ProviderTool(CACHE_POINT, options=mark)
        case {"systemTool": dict(given)}:
            options = {key: value for key, value in given.items() if key != "name"}
            return ProviderTool(SYSTEM_TOOL, given["name"], options)
    raise refusal("The value at toolConfig.tools holds a tool that is not known.")


def _choice(choice: dict[str, Any] | None) -> ToolChoice | None:
    match choice:
        case {"any": _}:
            return "required"
        case {"tool": {"name": str(name)}}:
            return NamedTool(name)
        case None:
            return None
    return "auto"


def _format(output: dict[str, Any]) -> ResponseFormat | None:
    """Removes the schema from `outputConfig` and returns it."""
    match output.get("textFormat"):
        case {"type": "json_schema", "structure": {"jsonSchema": {"schema": str(text), **fields}}}:
            try:
                schema = msgspec.json.decode(text, type=dict[str, Any])
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise refusal(f"outputConfig.textFormat.structure.jsonSchema.schema: {error}") from None
            del output["textFormat"]
            name, description = fields.get("name"), fields.get("description")
            return ResponseFormat(schema, str(name or ""), None if description is None else str(description))
    return None


def _requested_reasoning(
    fields: dict[str, Any], output: dict[str, Any], can: Traits, *, by_budget: bool
) -> ReasoningOptions | None:
    """Reads how thinking is requested; removes the fields that encoding would write identically.

    by_budget: this Claude model accepts a budget of tokens
    """
    if can.reasoning == "claude" and by_budget:
        match fields.get("thinking"):
            # With other fields, encoding would not reproduce the same body.
            case {"type": "enabled", "budget_tokens": int(budget), **rest} if not rest and not output:
                del fields["thinking"]
                return ReasoningOptions(budget_tokens=budget)
            case {"type": "disabled", **rest} if not rest:
                del fields["thinking"]
                return ReasoningOptions(effort="none")
    if can.reasoning == "nova":
        match fields.get("reasoningConfig"):
            case {"type": "enabled", "maxReasoningEffort": str(effort), **rest}:
                if not rest and effort in _NOVA_EFFORTS:
                    del fields["reasoningConfig"]
                    return msgspec.convert({"effort": effort}, prepared(ReasoningOptions))
            case {"type": "disabled", **rest} if not rest:
                del fields["reasoningConfig"]
                return ReasoningOptions(effort="none")
    if can.reasoning == "openai" and fields.get("reasoning_effort") in _NOVA_EFFORTS:
        return msgspec.convert({"effort": fields.pop("reasoning_effort")}, prepared(ReasoningOptions))
    return None


def _top_k(fields: dict[str, Any], can: Traits) -> int | None:
    """Removes the setting from the field of this model and returns it."""
    match can.top_k, fields:
        case (outer, inner), {"inferenceConfig": {"topK": int(value), **rest}} if not rest and inner:
            del fields[outer]
            return value
        case (name,), _ if isinstance(fields.get(name), int):
            return int(fields.pop(name))
    return None
