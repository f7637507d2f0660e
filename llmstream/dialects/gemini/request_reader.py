"""A Gemini request as ours: the reverse of `request.py`, checked as the vendor checks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.chats.message import Message
from llmstream.dialects.call_ids import mint_call_id
from llmstream.dialects.gemini.content_reader import ContentReader, read_system, snake
from llmstream.dialects.gemini.openapi_schema import json_schema
from llmstream.dialects.gemini.part_decoder import KEY
from llmstream.dialects.gemini.part_writer import camel
from llmstream.dialects.gemini.paths import model_of
from llmstream.dialects.gemini.request import encode_request
from llmstream.dialects.gemini.request_checks import check_config, check_contents, check_tools
from llmstream.dialects.google_errors import refusal
from llmstream.dialects.options import merged
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gemini import GEMINI
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
_DECLARED: Final = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_READ: Final = frozenset(
    {"contents", "systemInstruction", "tools", "model", "generationConfig", "toolConfig"}
)


def decode_request(
    http: HttpRequest, *, vertex: bool, new_call_id: Callable[[], str] = mint_call_id
) -> Request:
    """What a client asks for; fields without a place of their own stand in `provider_options`.

    raises: BadRequest with the vendor's message
    """
    try:
        found = msgspec.json.decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal(f"Invalid JSON payload received. {error}") from None
    if not isinstance(found, dict):
        raise refusal("Invalid JSON payload received. Unknown name: Root element must be a message.")
    body = _normal(found)
    model = model_of(http.url) or ""
    rules = GEMINI.find(model)
    declarations, hosted = _tools(body)
    config: dict[str, Any] = body.get("generationConfig") or {}
    check_contents(body["contents"], rules, vertex=vertex)
    check_tools(declarations, bool(hosted), body, rules)
    check_config(config, bool(declarations), rules)
    request = Request(
        model=model,
        messages=(
            *read_system(body.get("systemInstruction")),
            *ContentReader(new_call_id).read(body["contents"]),
        ),
        tools=(*(_spec(one) for one in declarations), *hosted),
        tool_choice=_choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {}),
        settings=_settings(config),
        response_format=_format(config),
        reasoning=_reasoning(config.get("thinkingConfig") or {}),
    )
    options = {name: value for name, value in body.items() if name not in _READ}
    options = merged(options, _leftovers(body, request, vertex))
    if any(not _DECLARED.issuperset(one) for one in declarations):
        options["tools"] = body["tools"]
    return msgspec.structs.replace(request, provider_options={KEY: options} if options else {})


def _normal(found: dict[str, Any]) -> dict[str, Any]:
    """Names as the references write them, for the vendor takes snake_case too; nothing that is empty."""
    body = _named(found)
    for name in ("systemInstruction", "generationConfig", "toolConfig"):
        if name in body:
            body[name] = _named(body[name])
    if isinstance(body.get("toolConfig"), dict) and "functionCallingConfig" in body["toolConfig"]:
        body["toolConfig"]["functionCallingConfig"] = _named(body["toolConfig"]["functionCallingConfig"])
    if isinstance(body.get("generationConfig"), dict) and "thinkingConfig" in body["generationConfig"]:
        body["generationConfig"]["thinkingConfig"] = _named(body["generationConfig"]["thinkingConfig"])
    contents = body.get("contents")
    contents = [contents] if isinstance(contents, dict) else contents
    if contents is not None and not isinstance(contents, list):
        raise refusal(
            "Invalid value at 'contents' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content)"
        )
    body["contents"] = [_content(content) for content in contents or ()]
    return body


def _content(content: Any) -> dict[str, Any]:
    out = _named(content)
    parts = out.get("parts")
    parts = [parts] if isinstance(parts, dict) else parts
    if isinstance(parts, list):
        out["parts"] = [_part(part) for part in parts]
    return out


def _part(part: Any) -> dict[str, Any]:
    out = _named(part)
    for kind in ("inlineData", "fileData", "toolCall", "toolResponse"):
        if isinstance(out.get(kind), dict):
            out[kind] = _named(out[kind])
    return {key: value for key, value in out.items() if value is not False}


def _named(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refusal(f"Invalid JSON payload received. An object was expected, not {value!r}.")
    return {camel(key): inner for key, inner in value.items() if inner is not None}


def _tools(body: dict[str, Any]) -> tuple[list[dict[str, Any]], list[ProviderTool]]:
    declarations: list[dict[str, Any]] = []
    hosted: list[ProviderTool] = []
    for tool in body.get("tools") or ():
        for kind, options in _named(tool).items():
            if kind == "functionDeclarations":
                declarations.extend(_named(one) for one in options)
            else:
                hosted.append(ProviderTool(snake(kind), "", options if isinstance(options, dict) else {}))
    return declarations, hosted


def _spec(declaration: dict[str, Any]) -> ToolSpec:
    schema = declaration.get("parametersJsonSchema")
    if schema is None:
        schema = json_schema(declaration.get("parameters") or {})
    return ToolSpec(
        declaration["name"],
        str(declaration.get("description") or ""),
        schema if isinstance(schema, dict) else {},
    )


def _choice(calling: dict[str, Any]) -> ToolChoice | None:
    match calling:
        case {"mode": "ANY", "allowedFunctionNames": [str(name)]}:
            return NamedTool(name)
        case {"mode": "ANY"}:
            return "required"
        case {"mode": "NONE"}:
            return "none"
        case {"mode": "AUTO"}:
            return "auto"
    return None


def _settings(config: dict[str, Any]) -> Settings:
    stops = config.get("stopSequences")
    return Settings(
        temperature=config.get("temperature"),
        top_p=config.get("topP"),
        top_k=_integer(config.get("topK")),
        max_output_tokens=_integer(config.get("maxOutputTokens")),
        stop=tuple(str(stop) for stop in stops) if isinstance(stops, list) else (),
        seed=_integer(config.get("seed")),
        presence_penalty=config.get("presencePenalty"),
        frequency_penalty=config.get("frequencyPenalty"),
    )


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _format(config: dict[str, Any]) -> ResponseFormat | None:
    if config.get("responseMimeType") != "application/json":
        return None
    schema = config.get("responseJsonSchema")
    if schema is None:
        schema = json_schema(config.get("responseSchema"))
    return ResponseFormat(schema if isinstance(schema, dict) else None)


def _reasoning(thinking: dict[str, Any]) -> ReasoningOptions | None:
    level = str(thinking.get("thinkingLevel") or "").lower()
    if level in _EFFORTS:
        return ReasoningOptions(effort=level)  # type: ignore[arg-type]  # one of the efforts, see above
    budget = thinking.get("thinkingBudget")
    if budget == 0:
        return ReasoningOptions(effort="none")
    return ReasoningOptions(budget_tokens=budget) if isinstance(budget, int) and budget > 0 else None


def _leftovers(body: dict[str, Any], request: Request, vertex: bool) -> dict[str, Any]:
    """What our fields do not say again in the same way when the request is sent on."""
    plain = msgspec.structs.replace(request, messages=(Message.user("."),))
    again = encode_request(plain, provider=KEY, vertex=vertex, openapi=False).http.json()
    config = dict(body.get("generationConfig") or {})
    if request.response_format is not None and "responseJsonSchema" in (again.get("generationConfig") or {}):
        config.pop("responseSchema", None)
    told = {"generationConfig": config, "toolConfig": body.get("toolConfig") or {}}
    out = _difference(told, again)
    shown = (again.get("generationConfig") or {}).get("thinkingConfig") or {}
    if shown.get("includeThoughts") and not (config.get("thinkingConfig") or {}).get("includeThoughts"):
        out = merged(out, {"generationConfig": {"thinkingConfig": {"includeThoughts": False}}})
    return out


def _difference(told: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in told.items():
        known = again.get(key)
        if isinstance(value, dict) and (isinstance(known, dict) or not value):
            inner = _difference(value, known or {})
            if inner:
                out[key] = inner
        elif value != known:
            out[key] = value
    return out
