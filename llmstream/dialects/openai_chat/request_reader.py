"""The reverse of `request.py`: a Request from a client's HTTP request, refused as OpenAI refuses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.openai_answers import refused
from llmstream.dialects.openai_chat.message_reader import MessageReader
from llmstream.dialects.openai_chat.model_checks import check_model
from llmstream.dialects.openai_chat.quirks import Quirks
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

__all__ = ["read_request"]

_RANGES: Final = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
_COUNTS: Final = {"max_completion_tokens": "max_output_tokens", "max_tokens": "max_output_tokens"}
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BY_SWITCH: Final = frozenset({"thinking", "thinking-effort", "effort-or-budget"})
_HEADERS: Final = frozenset(
    {"content-type", "accept", "content-length", "host", "connection", "user-agent", "accept-encoding"}
)


def read_request(http: HttpRequest, quirks: Quirks, *, key: str) -> Request:
    """What a client asks for.

    quirks: of the vendor that is asked; thinking is read in its words, others stay the vendor's own fields
    key:    under which fields that only the vendor knows are kept in `provider_options`

    raises: BadRequest with the vendor's message
    """
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise refused("We could not parse the JSON body of your request. The body has to be a JSON object.")
    model = body.pop("model", None)
    if not isinstance(model, str) or not model:
        raise refused("you must provide a model parameter")
    if "messages" not in body:
        raise refused("Missing required parameter: 'messages'.", "missing_required_parameter")
    messages = MessageReader(key).read(body.pop("messages"))
    if quirks.reasoning_model_rules:
        check_model(body, model, quirks)
    tools = _tools(body)
    choice = _tool_choice(body, tools)
    settings = _settings(body)
    response_format = _response_format(body)
    reasoning = _reasoning(body, quirks.for_model(model))
    _stream(body)
    own = {name: value for name, value in body.items() if value is not None}
    return Request(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        settings=settings,
        response_format=response_format,
        reasoning=reasoning,
        provider_options={key: own} if own else {},
        headers={k: v for k, v in http.headers.items() if k.lower() not in _HEADERS},
    )


def _stream(body: dict[str, Any]) -> None:
    """Leaves in the body only what differs from what `encode` writes: a stream, with usage."""
    if body.get("stream") is True:
        del body["stream"]
    else:
        body["stream"] = False
    options = body.pop("stream_options", None)
    if options is not None and body.get("stream") is False:
        raise refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    if options is not None and not isinstance(options, dict):
        raise refused("Invalid type for 'stream_options': expected an object.", "invalid_type")
    if options != {"include_usage": True} and "stream" not in body:
        body["stream_options"] = options or {"include_usage": False}


def _settings(body: dict[str, Any]) -> Settings:
    found: dict[str, Any] = {}
    for name, (low, high) in _RANGES.items():
        value = body.pop(name, None)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refused(f"Invalid type for '{name}': expected a number.", "invalid_type")
        if not low <= value <= high:
            bound, word = (low, "minimum") if value < low else (high, "maximum")
            raise refused(
                f"Invalid '{name}': decimal value out of range. Expected a value with {word} {bound}, "
                f"but got {value} instead.",
                f"decimal_{'below_min' if value < low else 'above_max'}_value",
            )
        found[name] = value
    for name in ("max_completion_tokens", "max_tokens", "seed", "top_k"):
        value = body.pop(name, None)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise refused(f"Invalid type for '{name}': expected an integer.", "invalid_type")
        if name in _COUNTS and value < 1:
            raise refused(f"Invalid '{name}': integer below minimum value 1.", "integer_below_min_value")
        found.setdefault(_COUNTS.get(name, name), value)
    stop = body.pop("stop", None)
    if stop is not None:
        found["stop"] = _stop(stop)
    parallel = body.pop("parallel_tool_calls", None)
    if isinstance(parallel, bool):
        found["parallel_tool_calls"] = parallel
    return Settings(**found)


def _stop(stop: object) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(word, str) for word in stops):
        raise refused("Invalid type for 'stop': expected a string or an array of strings.", "invalid_type")
    return tuple(stops)


def _tools(body: dict[str, Any]) -> tuple[ToolSpec | ProviderTool, ...]:
    tools = body.pop("tools", None)
    if tools is None:
        return ()
    if not isinstance(tools, list) or not tools:
        raise refused(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            "empty_array",
        )
    return tuple(_tool(place, tool) for place, tool in enumerate(tools))


def _tool(place: int, tool: object) -> ToolSpec | ProviderTool:
    if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
        raise refused(f"Missing required parameter: 'tools[{place}].type'.", "missing_required_parameter")
    if tool["type"] != "function":
        return ProviderTool(tool["type"], options={k: v for k, v in tool.items() if k != "type"})
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise refused(
            f"Missing required parameter: 'tools[{place}].function.name'.", "missing_required_parameter"
        )
    schema = function.get("parameters")
    return ToolSpec(
        function["name"],
        str(function.get("description") or ""),
        schema if isinstance(schema, dict) else {},
        function["strict"] if isinstance(function.get("strict"), bool) else None,
    )


def _tool_choice(body: dict[str, Any], tools: tuple[ToolSpec | ProviderTool, ...]) -> ToolChoice | None:
    choice = body.get("tool_choice")
    if choice is None:
        return None
    if not tools:
        raise refused(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        )
    if choice in ("auto", "none", "required"):
        del body["tool_choice"]
        known: ToolChoice = choice
        return known
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict):
        if isinstance(choice, dict) and choice.get("type") in ("allowed_tools", "custom"):
            return None  # no word of ours: it stays among the vendor's own fields
        raise refused(f"Invalid value for 'tool_choice': {choice!r}.", "invalid_value")
    name = str(function.get("name"))
    if name not in [tool.name for tool in tools]:
        raise refused(f"Tool choice '{name}' not found in 'tools' parameter.")
    del body["tool_choice"]
    return NamedTool(name)


def _response_format(body: dict[str, Any]) -> ResponseFormat | None:
    wanted = body.get("response_format")
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        raise refused(f"Invalid value for 'response_format.type': {kind!r}.", "invalid_value")
    del body["response_format"]
    if kind == "text":
        return None
    if kind == "json_object":
        return ResponseFormat()
    inner = wanted.get("json_schema")
    if not isinstance(inner, dict) or not isinstance(inner.get("schema"), dict):
        raise refused(
            "Missing required parameter: 'response_format.json_schema.schema'.", "missing_required_parameter"
        )
    return ResponseFormat(
        inner["schema"],
        str(inner.get("name") or "response"),
        inner.get("description"),
        inner.get("strict") is True,
    )


def _reasoning(body: dict[str, Any], quirks: Quirks) -> ReasoningOptions | None:
    """How thinking is asked for: by `reasoning_effort`, or in the fields of the vendor's style."""
    style, effort = quirks.reasoning_style, body.get("reasoning_effort")
    switch = _template_switch(body, quirks) if style == "chat-template" else None
    if effort in _EFFORTS:
        del body["reasoning_effort"]
        if style in _BY_SWITCH and body.get("thinking") == {"type": "enabled"}:
            del body["thinking"]
        if style == "groq" and body.get("reasoning_format") == "parsed":
            del body["reasoning_format"]
        return ReasoningOptions(effort=effort)
    own = body.get("reasoning")
    if style == "openrouter" and isinstance(own, dict) and set(own) <= {"effort", "max_tokens"}:
        del body["reasoning"]
        return ReasoningOptions(
            effort=own["effort"] if own.get("effort") in _EFFORTS else None,
            budget_tokens=own.get("max_tokens"),
        )
    thinking = body.get("thinking")
    if style in _BY_SWITCH and isinstance(thinking, dict) and set(thinking) <= {"type", "budget_tokens"}:
        del body["thinking"]
        return _thinking(thinking.get("type") != "disabled", thinking.get("budget_tokens"))
    if switch is not None:
        return _thinking(switch, None)
    if style == "enable-thinking" and isinstance(body.get("enable_thinking"), bool):
        return _thinking(body.pop("enable_thinking"), body.pop("thinking_budget", None))
    return None


def _template_switch(body: dict[str, Any], quirks: Quirks) -> bool | None:
    """What the switch of the model's template says, taken out of the body; None where it says nothing."""
    values = body.get(quirks.template_field)
    if not isinstance(values, dict) or set(values) != {quirks.template_switch}:
        return None
    if values[quirks.template_switch] not in quirks.switch_values:
        return None
    del body[quirks.template_field]
    return bool(values[quirks.template_switch] == quirks.switch_values[1])


def _thinking(enabled: bool, budget: object) -> ReasoningOptions:
    tokens = budget if isinstance(budget, int) else None
    if not enabled:
        return ReasoningOptions(effort="none", budget_tokens=tokens)
    return ReasoningOptions(effort=None if tokens is not None else "medium", budget_tokens=tokens)
