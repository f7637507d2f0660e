"""Tools and the choice among them, on the way to the vendor."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.dialects.gemini.openapi_schema import openapi_schema
from llmstream.dialects.gemini.part_writer import camel
from llmstream.events import OtherWarning, UnsupportedTool, Warning
from llmstream.model_rules.gemini import GeminiRules
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["EncodedTools", "encode_tools"]


class EncodedTools(msgspec.Struct, frozen=True):
    """The fields `tools` and `toolConfig`, and whether functions are among the tools."""

    tools: list[dict[str, Any]]
    config: dict[str, Any]
    functions: bool


def encode_tools(
    request: Request, rules: GeminiRules, *, openapi: bool, vertex: bool, warnings: list[Warning]
) -> EncodedTools:
    """Functions become one entry of declarations, each of the vendor's tools an entry of its own."""
    specs = [tool for tool in request.tools if isinstance(tool, ToolSpec)]
    hosted = [tool for tool in request.tools if isinstance(tool, ProviderTool)]
    if specs and hosted and rules.mixes_tools is False:
        for tool in hosted:
            words = "this model takes the vendor's tools or functions, not both"
            warnings.append(UnsupportedTool(tool.name or tool.type, words))
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
        warnings.append(OtherWarning("parallel_tool_calls was left out: the API cannot forbid several calls"))
    return EncodedTools(tools, config, bool(specs))


def _declaration(spec: ToolSpec, openapi: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"name": spec.name}
    if spec.description:
        out["description"] = spec.description
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
    request: Request, specs: list[ToolSpec], warnings: list[Warning]
) -> dict[str, Any] | None:
    """The API refuses a mode where no function is declared."""
    choice = request.tool_choice
    strict = any(spec.strict for spec in specs)
    if not specs:
        if choice == "required" or isinstance(choice, NamedTool):
            warnings.append(OtherWarning("tool_choice was left out: the request declares no functions"))
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
