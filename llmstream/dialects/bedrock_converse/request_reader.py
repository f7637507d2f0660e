"""A Converse request as ours: the reverse of `request.py`, checked as the vendor checks it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.bedrock_converse.blocks import KEY
from llmstream.dialects.bedrock_converse.models import Traits, traits
from llmstream.dialects.bedrock_converse.request import model_of
from llmstream.dialects.bedrock_converse.request_checks import (
    Turn,
    check_inference,
    check_tools,
    check_turns,
    refusal,
    shape_refusal,
)
from llmstream.dialects.bedrock_converse.tools import CACHE_POINT, SYSTEM_TOOL
from llmstream.dialects.bedrock_converse.turn_reader import TurnReader, read_system
from llmstream.dialects.claude_refusals import claude_refusal
from llmstream.exchange import HttpRequest
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

__all__ = ["decode_request"]

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
_OWN: Final = frozenset(_Body.__struct_encode_fields__)


def decode_request(http: HttpRequest) -> Request:
    """What a client asks for; fields without a place of their own stand in `provider_options`.

    raises: BadRequest with the vendor's message
    """
    try:
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
    reasoning = _reasoning(fields, output, can, by_budget=CLAUDE.find(model).thinking in ("budget", "either"))
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
    """What a Claude refuses; other vendors' models are all treated alike.

    raises: BadRequest
    """
    fields, inference = body.get("additionalModelRequestFields") or {}, body.get("inferenceConfig") or {}
    choice = (body.get("toolConfig") or {}).get("toolChoice") or {}
    sampling = [name for name in ("temperature", "topP") if inference.get(name) is not None]
    words = claude_refusal(
        model,
        thinking=fields.get("thinking") or {},
        effort=(body.get("outputConfig") or {}).get("effort"),
        forced="any" in choice or "tool" in choice,
        sampling=[*sampling, *(["top_k"] if fields.get("top_k") is not None else [])],
    )
    if words is not None:
        raise refusal(f"The model returned the following errors: {words}")


def _tool(tool: dict[str, Any]) -> ToolSpec | ProviderTool:
    match tool:
        case {"toolSpec": dict(spec)}:
            description, strict = spec.get("description"), spec.get("strict")
            return ToolSpec(
                spec["name"],
                description if isinstance(description, str) else "",
                spec["inputSchema"]["json"],
                strict if isinstance(strict, bool) else None,
            )
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
    """The schema, taken out of `outputConfig`."""
    match output.get("textFormat"):
        case {"type": "json_schema", "structure": {"jsonSchema": {"schema": str(text), **told}}}:
            try:
                schema = msgspec.json.decode(text, type=dict[str, Any])
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise refusal(f"outputConfig.textFormat.structure.jsonSchema.schema: {error}") from None
            del output["textFormat"]
            name, description = told.get("name"), told.get("description")
            return ResponseFormat(schema, str(name or ""), None if description is None else str(description))
    return None


def _reasoning(
    fields: dict[str, Any], output: dict[str, Any], can: Traits, *, by_budget: bool
) -> ReasoningOptions | None:
    """How much to think, taken out of the fields where we would write the same again.

    by_budget: a Claude of this name may be told how many tokens
    """
    if can.reasoning == "claude" and by_budget:
        match fields.get("thinking"):
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
                    return msgspec.convert({"effort": effort}, ReasoningOptions)
            case {"type": "disabled", **rest} if not rest:
                del fields["reasoningConfig"]
                return ReasoningOptions(effort="none")
    if can.reasoning == "openai" and fields.get("reasoning_effort") in _NOVA_EFFORTS:
        return msgspec.convert({"effort": fields.pop("reasoning_effort")}, ReasoningOptions)
    return None


def _top_k(fields: dict[str, Any], can: Traits) -> int | None:
    """The setting, taken out of the place where this model has it."""
    match can.top_k, fields:
        case (outer, inner), {"inferenceConfig": {"topK": int(value), **rest}} if not rest and inner:
            del fields[outer]
            return value
        case (name,), _ if isinstance(fields.get(name), int):
            return int(fields.pop(name))
    return None
