"""A Converse request as ours: the reverse of `request.py`, checked as the vendor checks it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.chats.content import Custom, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.dialects.bedrock_converse.content import read_media, read_result
from llmstream.dialects.bedrock_converse.quirks import Traits, traits
from llmstream.dialects.bedrock_converse.request import CACHE_POINT, SYSTEM_TOOL, model_of
from llmstream.dialects.bedrock_converse.wire import KEY, SERVER_TOOL
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
from llmstream.server_side.wires.bedrock_converse.checks import (
    Turn,
    check_inference,
    check_tools,
    check_turns,
    member,
    refusal,
    shape_refusal,
)
from llmstream.server_side.wires.errors import claude_refusal
from llmstream.server_side.wires.request_reader import read_function, user_turn

__all__ = ["decode_request"]


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
    reasoning = _request_reader_reasoning(
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


def _request_reader_reasoning(
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
