"""Encodes a request for the Gemini API: everything but the messages."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.gemini.messages import Conversation, camel
from llmstream.dialects.gemini.wire import path_for
from llmstream.dialects.google import KEY, refused_settings, thinking_budget, thinking_level
from llmstream.dialects.requests import (
    Field,
    FieldTable,
    RequestWarnings,
    RequestWriter,
    described_schema,
    merged,
    name_and_description,
)
from llmstream.model_rules.gemini import GEMINI, GeminiRules
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    ToolSpec,
)

__all__ = ["FIELDS", "encode_request", "json_schema", "openapi_schema"]


# JSON schemas in the OpenAPI subset that the older fields accept, and back.
#
# `parameters` and `responseSchema` support no `$ref`, no `additionalProperties`, no list of types and
# no enum of anything but strings. Unsupported keywords move into the description, where the model still
# reads them.
# source: Schema in the references of the Gemini API and of Vertex AI

_KNOWN: Final = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties",
        "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf",
        "propertyOrdering", "default", "items", "minimum", "maximum",
    }
)  # fmt: skip
_SILENT: Final = frozenset({"$schema", "$defs", "definitions", "$id", "$comment", "additionalProperties"})
_FORMATS: Final = {
    "string": frozenset({"date-time", "enum"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
# A schema that refers to itself is expanded to this depth: without `$ref` it would have no end.
_MAX_DEPTH: Final = 12


def openapi_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Converts a schema to the subset; None for an object without properties, which the API refuses."""
    root = _converted(schema, schema, 0)
    # An empty object at the root is rejected; a function without parameters leaves the field out.
    if root.get("type") == "object" and not root.get("properties"):
        return None
    return root


def json_schema(schema: Any) -> Any:
    """Reverse of `openapi_schema`: converts a schema of the subset to JSON schema."""
    if isinstance(schema, list):
        return [json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            out[key] = value.lower()
        elif key == "properties" and isinstance(value, dict):
            out[key] = {name: json_schema(item) for name, item in value.items()}
        elif key in ("items", "anyOf", "additionalProperties"):
            out[key] = json_schema(value)
        elif key != "nullable":
            out[key] = value
    if schema.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out


def _converted(schema: Any, root: dict[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    schema = _merged(_resolved(schema, root), root)
    out: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            out[key] = {name: _converted(item, root, depth + 1) for name, item in value.items()}
        elif key == "items":
            out[key] = _converted(value, root, depth + 1)
        elif key in ("anyOf", "oneOf") and isinstance(value, list):
            out["anyOf"] = [_converted(item, root, depth + 1) for item in value]
        elif key == "const":
            out["enum"] = [value]
        elif key in _KNOWN:
            out[key] = value
        elif key not in _SILENT:
            moved[key] = value
    _one_type(out)
    _without_null(out)
    _string_enum(out, moved)
    kind = out.get("type")
    if "format" in out and out["format"] not in _FORMATS.get(str(kind), ()):
        moved["format"] = out.pop("format")
    if kind == "array":
        # An array without items is rejected ("items: missing field").
        out.setdefault("items", {"type": "string"})
    if moved:
        text = msgspec.json.encode(moved).decode()
        out["description"] = f"{out['description']} {text}" if out.get("description") else text
    return out


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Replaces a local `$ref` by the schema it names, with the keywords beside it."""
    for _ in range(_MAX_DEPTH):
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return schema
        found: Any = root
        for step in ref.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) and name else found
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside} if isinstance(found, dict) else beside
    return {key: value for key, value in schema.items() if key != "$ref"}


def _merged(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Joins the parts of `allOf`, which the subset does not have."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    out = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts:
        for key, value in (_resolved(part, root) if isinstance(part, dict) else {}).items():
            if key == "properties" and isinstance(value, dict):
                out[key] = {**out.get(key, {}), **value}
            elif key == "required" and isinstance(value, list):
                out[key] = list(dict.fromkeys([*out.get(key, []), *value]))
            else:
                out.setdefault(key, value)
    return out


def _one_type(out: dict[str, Any]) -> None:
    """Turns a list of types into `anyOf`, and "null" into `nullable`."""
    kinds = out.get("type")
    if not isinstance(kinds, list):
        return
    if "null" in kinds:
        out["nullable"] = True
    rest = [kind for kind in kinds if kind != "null"]
    del out["type"]
    if len(rest) == 1:
        out["type"] = rest[0]
    elif rest:
        inner = {
            key: out.pop(key)
            for key in list(out)
            if key not in ("description", "title", "nullable", "default")
        }
        out["anyOf"] = [{"type": kind, **_fitting(kind, inner)} for kind in rest]


def _fitting(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    owners = {
        "items": "array",
        "minItems": "array",
        "maxItems": "array",
        "properties": "object",
        "required": "object",
    }
    return {key: value for key, value in fields.items() if owners.get(key, kind) == kind}


def _without_null(out: dict[str, Any]) -> None:
    """Turns an alternative that is null into `nullable`; a single one left replaces `anyOf`."""
    choices = out.get("anyOf")
    if not isinstance(choices, list):
        return
    rest = [choice for choice in choices if choice.get("type") != "null"]
    if len(rest) < len(choices):
        out["nullable"] = True
    if len(rest) == 1:
        del out["anyOf"]
        for key, value in rest[0].items():
            out.setdefault(key, value)
    else:
        out["anyOf"] = rest


def _string_enum(out: dict[str, Any], moved: dict[str, Any]) -> None:
    values = out.get("enum")
    if not isinstance(values, list):
        return
    if None in values:
        out["nullable"] = True
        values = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in values):
        out["enum"] = values
        out.setdefault("type", "string")
    else:
        del out["enum"]
        # Enums of the subset are strings; the model reads others in the description.
        moved["enum"] = values
        kinds = {bool: "boolean", int: "integer", float: "number"}
        out.setdefault("type", kinds.get(type(values[0]), "string"))


# Tools and tool choice.


class EncodedTools(msgspec.Struct, frozen=True):
    """The fields `tools` and `toolConfig`, and whether functions are among the tools."""

    tools: list[dict[str, Any]]
    config: dict[str, Any]
    functions: bool


def encode_tools(
    request: Request, rules: GeminiRules, *, openapi: bool, vertex: bool, warnings: RequestWarnings
) -> EncodedTools:
    """Encodes all functions as one entry, and each of the vendor's tools as an entry of its own."""
    specs = [tool for tool in request.tools if isinstance(tool, ToolSpec)]
    hosted = [tool for tool in request.tools if isinstance(tool, ProviderTool)]
    # Models before Gemini 3 reject a request with both.
    if specs and hosted and rules.mixes_tools is False:
        for tool in hosted:
            warnings.unsupported_tool(tool, "this model takes the vendor's tools or functions, not both")
        hosted = []
    tools: list[dict[str, Any]] = []
    if specs:
        tools.append({"functionDeclarations": [_declaration(spec, openapi) for spec in specs]})
    tools.extend({camel(tool.type): tool.options} for tool in hosted)
    config: dict[str, Any] = {}
    calling = _calling_config(request, specs, warnings)
    if calling is not None:
        config["functionCallingConfig"] = calling
    if specs and hosted and rules.mixes_tools and not vertex:
        config["includeServerSideToolInvocations"] = True
    if request.settings.parallel_tool_calls is False and specs:
        warnings.note("parallel_tool_calls was left out: the API cannot forbid several calls")
    return EncodedTools(tools, config, bool(specs))


def _declaration(spec: ToolSpec, openapi: bool) -> dict[str, Any]:
    out = name_and_description(spec)
    schema = spec.input_schema
    if schema and "type" not in schema and "$ref" not in schema:
        schema = {"type": "object", **schema}
    if openapi:
        converted = openapi_schema(schema) if schema else None
        return {**out, "parameters": converted} if converted else out
    if schema and (schema.get("properties") or set(schema) - {"type", "properties", "additionalProperties"}):
        out["parametersJsonSchema"] = schema
    return out


def _calling_config(
    request: Request, specs: list[ToolSpec], warnings: RequestWarnings
) -> dict[str, Any] | None:
    choice = request.tool_choice
    strict = any(spec.strict for spec in specs)
    if not specs:
        if choice == "required" or isinstance(choice, NamedTool):
            # functionCallingConfig without declarations is rejected with 400.
            warnings.note("tool_choice was left out: the request declares no functions")
        return None
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    if choice == "required":
        return {"mode": "ANY"}
    if choice == "none":
        return {"mode": "NONE"}
    if strict:
        return {"mode": "VALIDATED"}
    return None if choice is None else {"mode": "AUTO"}


FIELDS: Final = FieldTable(
    Field("max_output_tokens", "maxOutputTokens"),
    Field("temperature", "temperature", low=0.0, high=2.0),
    Field("top_p", "topP"),
    Field("top_k", "topK"),
    Field("stop", "stopSequences", most=5),
    Field("seed", "seed"),
    Field("presence_penalty", "presencePenalty"),
    Field("frequency_penalty", "frequencyPenalty"),
)
_CACHED_FIELDS: Final = ("systemInstruction", "tools", "toolConfig")


def encode_request(request: Request, *, provider: str, vertex: bool, openapi: bool) -> Encoded:
    """Encodes the HTTP request; warns about what could not be encoded.

    `provider_options["google"]` is merged into the body last, objects field by field.

    vertex:  calls and their results carry no ids
    openapi: schemas go to the fields that accept the OpenAPI subset
    raises:  InvalidRequest, Unsupported
    """
    writer = RequestWriter(request, provider=provider, key=KEY)
    body = _body(writer, vertex=vertex, openapi=openapi)
    if writer.options.get("cachedContent"):
        _leave_to_cache(body, writer.warnings)
    return writer.encoded(path_for(request.model), merged(body, writer.options))


def _body(writer: RequestWriter, *, vertex: bool, openapi: bool) -> dict[str, Any]:
    request, warnings = writer.request, writer.warnings
    rules = GEMINI.find(request.model)
    conversation = Conversation(provider=writer.provider, vertex=vertex, rules=rules, warnings=warnings)
    conversation.read(request.messages)
    body: dict[str, Any] = {}
    if conversation.system:
        body["systemInstruction"] = {"parts": conversation.system}
    body["contents"] = conversation.contents
    tools = encode_tools(request, rules, openapi=openapi, vertex=vertex, warnings=warnings)
    if tools.tools:
        body["tools"] = tools.tools
    if tools.config:
        body["toolConfig"] = tools.config
    config = writer.settings(FIELDS, refused_settings(rules))
    if request.response_format is not None and tools.tools and rules.mixes_tools is False:
        details = "this model takes tools or a response format, not both"
        warnings.unsupported("output", details)
    elif request.response_format is not None:
        config.update(_format(request.response_format, openapi))
    thinking = _thinking(request.reasoning, rules, warnings)
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        body["generationConfig"] = config
    return body


def _format(wanted: ResponseFormat, openapi: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"responseMimeType": "application/json"}
    if wanted.schema is not None and openapi:
        converted = openapi_schema(described_schema(wanted))
        if converted is not None:
            out["responseSchema"] = converted
    elif wanted.schema is not None:
        out["responseJsonSchema"] = described_schema(wanted)
    return out


def _thinking(
    reasoning: ReasoningOptions | None, rules: GeminiRules, warnings: RequestWarnings
) -> dict[str, Any]:
    # Gemini 2.5 takes a budget, Gemini 3 a level; the API refuses both at once.
    if reasoning is None or (reasoning.effort is None and reasoning.budget_tokens is None):
        return {}
    if rules.thinking == "none":
        if reasoning.effort != "none":
            warnings.unsupported("reasoning", "this model does not support reasoning")
        return {}
    shown = {} if reasoning.effort == "none" else {"includeThoughts": True}
    if rules.thinking == "level" and reasoning.effort is not None:
        if reasoning.budget_tokens is not None:
            details = "this model takes an effort or a budget; the effort was sent"
            warnings.unsupported("reasoning.budget_tokens", details)
        return {**shown, "thinkingLevel": thinking_level(reasoning, rules, warnings)}
    return {**shown, "thinkingBudget": thinking_budget(reasoning, rules, warnings)}


def _leave_to_cache(body: dict[str, Any], warnings: RequestWarnings) -> None:
    # With cachedContent the API refuses the fields that the cache holds.
    removed = [name for name in _CACHED_FIELDS if body.pop(name, None) is not None]
    if removed:
        warnings.note(f"{', '.join(removed)} was left out: with cachedContent the cache holds them")
