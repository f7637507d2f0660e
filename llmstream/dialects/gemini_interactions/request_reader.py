"""A request of the Interactions API as ours: the reverse of `request.py`, checked as the vendor does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.call_ids import mint_call_id
from llmstream.dialects.gemini_interactions.request import encode_request
from llmstream.dialects.gemini_interactions.step_reader import StepReader
from llmstream.dialects.gemini_interactions.steps import KEY
from llmstream.dialects.google_errors import refusal
from llmstream.dialects.options import merged
from llmstream.exchange import HttpRequest
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

_EFFORTS: Final = ("minimal", "low", "medium", "high")
_READ: Final = frozenset(
    {"model", "input", "system_instruction", "tools", "stream", "generation_config", "response_format"}
)
_DECLARED: Final = frozenset({"type", "name", "description", "parameters"})


def decode_request(http: HttpRequest, *, new_call_id: Callable[[], str] = mint_call_id) -> Request:
    """What a client asks for; fields without a place of their own stand in `provider_options`.

    raises: BadRequest with the vendor's message
    """
    try:
        found = msgspec.json.decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal(f"Invalid JSON payload received. {error}") from None
    if not isinstance(found, dict):
        raise refusal("Invalid JSON payload received. The root must be an object.")
    body = {name: value for name, value in found.items() if value is not None}
    model = body.get("model") or ""
    if not isinstance(model, str) or not (model or body.get("agent")):
        raise refusal("Either 'model' or 'agent' must be specified.")
    config = body.get("generation_config") or {}
    if not isinstance(config, dict):
        raise refusal("Invalid input at 'generation_config'.")
    _check(config)
    tools = [_tool(tool, number) for number, tool in enumerate(body.get("tools") or ())]
    request = Request(
        model=model,
        messages=(*_system(body.get("system_instruction")), *_input(body, new_call_id)),
        tools=tuple(tools),
        tool_choice=_choice(config.get("tool_choice")),
        settings=_settings(config),
        response_format=_format(body.get("response_format")),
        reasoning=_reasoning(config),
    )
    options = {name: value for name, value in body.items() if name not in _READ}
    options = merged(options, _leftovers(body, request))
    return msgspec.structs.replace(request, provider_options={KEY: options} if options else {})


def _check(config: dict[str, Any]) -> None:
    temperature = config.get("temperature")
    if temperature is not None and (
        isinstance(temperature, bool)
        or not isinstance(temperature, (int, float))
        or not 0 <= temperature <= 2
    ):
        raise refusal("Invalid input at 'generation_config.temperature'.")
    for name in ("max_output_tokens", "top_k", "seed"):
        value = config.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise refusal(f"Invalid input at 'generation_config.{name}'.")


def _input(body: dict[str, Any], new_call_id: Callable[[], str]) -> list[Message]:
    """The conversation; a request that continues a stored answer has none."""
    if "input" not in body and body.get("continuation_token") and body.get("previous_interaction_id"):
        return []
    return StepReader(new_call_id).read(body.get("input"))


def _system(instruction: Any) -> list[Message]:
    if instruction is None:
        return []
    if not isinstance(instruction, str):
        raise refusal("Invalid input at 'system_instruction'.")
    return [Message.system(instruction)] if instruction else []


def _tool(tool: Any, number: int) -> ToolSpec | ProviderTool:
    if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
        raise refusal(f"Invalid input at 'tools[{number}].type'.")
    if tool["type"] != "function" or not _DECLARED.issuperset(tool):
        name = tool.get("name")
        options = {key: value for key, value in tool.items() if key not in ("type", "name")}
        return ProviderTool(tool["type"], name if isinstance(name, str) else "", options)
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise refusal(f"Invalid input at 'tools[{number}].name'.")
    schema = tool.get("parameters")
    description = tool.get("description")
    return ToolSpec(
        tool["name"],
        description if isinstance(description, str) else "",
        schema if isinstance(schema, dict) else {},
    )


def _choice(choice: Any) -> ToolChoice | None:
    match choice:
        case {"allowed_tools": {"mode": "any", "tools": [str(name)]}}:
            return NamedTool(name)
        case "any":
            return "required"
        case "none":
            return "none"
        case "auto":
            return "auto"
    return None


def _settings(config: dict[str, Any]) -> Settings:
    stops = config.get("stop_sequences")
    return Settings(
        temperature=config.get("temperature"),
        top_p=config.get("top_p"),
        top_k=config.get("top_k"),
        max_output_tokens=config.get("max_output_tokens"),
        stop=tuple(str(stop) for stop in stops) if isinstance(stops, list) else (),
        seed=config.get("seed"),
    )


def _format(wanted: Any) -> ResponseFormat | None:
    wanted = wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted
    match wanted:
        case {"type": "text", "mime_type": "application/json"}:
            schema = wanted.get("schema")
            return ResponseFormat(schema if isinstance(schema, dict) else None)
    return None


def _reasoning(config: dict[str, Any]) -> ReasoningOptions | None:
    level = config.get("thinking_level")
    return ReasoningOptions(effort=level) if level in _EFFORTS else None


def _leftovers(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """What our fields do not say again in the same way when the request is sent on."""
    plain = msgspec.structs.replace(request, messages=(Message("", Role.USER, Message.user(".").parts),))
    again = encode_request(plain, provider=KEY).http.json().get("generation_config") or {}
    told = body.get("generation_config") or {}
    out: dict[str, Any] = {}
    config = {name: value for name, value in told.items() if value is not None and value != again.get(name)}
    if "thinking_summaries" in again and "thinking_summaries" not in told:
        config["thinking_summaries"] = "none"
    if config:
        out["generation_config"] = config
    if request.response_format is None and "response_format" in body:
        out["response_format"] = body["response_format"]
    return out
