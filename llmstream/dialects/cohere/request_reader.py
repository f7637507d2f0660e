"""The reverse of `request.py`: a Request from a client's HTTP request, refused as Cohere refuses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.cohere.error_words import refused, unknown_field
from llmstream.dialects.cohere.finish import KEY
from llmstream.dialects.cohere.message_reader import MessageReader
from llmstream.dialects.cohere.request import FIELDS
from llmstream.exchange import HttpRequest
from llmstream.request import ReasoningOptions, Request, ResponseFormat, Settings, ToolChoice, ToolSpec

__all__ = ["decode_request"]

_OWN: Final = frozenset(
    {"citation_options", "documents", "logprobs", "priority", "raw_prompting", "safety_mode", "stream"}
)
"""Fields that the vendor knows and `Request` has no word for; `tools` and the like are read before."""

_WHOLE: Final = ("k", "max_tokens", "seed")
_HEADERS: Final = frozenset(
    {"content-type", "accept", "content-length", "host", "connection", "user-agent", "accept-encoding"}
)


def decode_request(http: HttpRequest) -> Request:
    """What a client asks for.

    raises: BadRequest with the vendor's message
    """
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise refused("invalid request: the body is not a valid JSON object")
    model = body.pop("model", None)
    if not isinstance(model, str) or not model:
        raise refused("model is required: please specify a model")
    messages = MessageReader().read(body.pop("messages", None))
    settings = _settings(body)
    tools = _tools(body)
    choice = _tool_choice(body, tools)
    format_ = _response_format(body, tools)
    reasoning = _thinking(body)
    if body.get("stream") is True:
        del body["stream"]
    else:
        body["stream"] = False
    for name in body:
        if name not in _OWN:
            raise unknown_field(name)
    own = {name: value for name, value in body.items() if value is not None and value != []}
    return Request(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        settings=settings,
        response_format=format_,
        reasoning=reasoning,
        provider_options={KEY: own} if own else {},
        headers={name: value for name, value in http.headers.items() if name.lower() not in _HEADERS},
    )


def _settings(body: dict[str, Any]) -> Settings:
    found: dict[str, Any] = {}
    for name, field in FIELDS.items():
        value = body.pop(field, None)
        if value is None:
            continue
        if name == "stop":
            if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
                raise _wrong_type(field, value, "[]string")
            found[name] = tuple(value)
            continue
        kinds = (int,) if field in _WHOLE else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise _wrong_type(field, value, "int" if field in _WHOLE else "float")
        found[name] = value
    return Settings(**found)


def _wrong_type(field: str, value: object, wanted: str) -> Exception:
    words = (
        f"invalid type: parameter {field} is of type {type(value).__name__} but should be of type {wanted}"
    )
    return refused(words)


def _tools(body: dict[str, Any]) -> tuple[ToolSpec, ...]:
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
    schema = function.get("parameters")
    words = str(function.get("description") or "")
    return ToolSpec(function["name"], words, schema if isinstance(schema, dict) else {}, strict)


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
