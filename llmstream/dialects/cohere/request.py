"""Writes a request of the v2 chat API: all fields except `messages`."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.cohere.messages import MessageWriter
from llmstream.dialects.cohere.wire import KEY
from llmstream.dialects.requests import (
    ANSWER_IN_JSON,
    Field,
    FieldTable,
    RequestWriter,
    described_schema,
    in_words,
    merged,
    name_and_description,
    says_json,
)
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["FIELDS", "PATH", "cohere_schema", "encode_request"]


# Cohere's subset of JSON schemas.
#
# `oneOf` becomes `anyOf`, `allOf` becomes one schema; unsupported limits move into the description, where
# the model still reads them. An object needs a required property: if it has none, its first becomes
# required, so that the output also fits the original.
# source: "Structured Outputs", supported and unsupported schema features, in Cohere's documents

_UNKNOWN: Final = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
        "minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains", "minProperties",
        "maxProperties", "patternProperties", "propertyNames", "prefixItems", "not", "if", "then", "else",
        "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems",
    }
)  # fmt: skip
_FORMATS: Final = frozenset({"date-time", "uuid", "date", "time"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions"})
_LOOKAROUND: Final = re.compile(r"\(\?[=!<]")


def cohere_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns a copy in the subset, and whether some of it moved into a description."""
    moved: list[dict[str, Any]] = []
    return _narrowed(schema, moved), bool(moved)


def _narrowed(schema: Any, moved: list[dict[str, Any]]) -> Any:
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    words: dict[str, Any] = {}
    for key, value in _merged(schema, words).items():
        if key in ("anyOf", "oneOf") and isinstance(value, list):
            out["anyOf"] = [*out.get("anyOf", []), *(_narrowed(inner, moved) for inner in value)]
        elif key in _MAPS and isinstance(value, dict):
            out[key] = {name: _narrowed(inner, moved) for name, inner in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = _narrowed(value, moved)
        elif key == "pattern" and isinstance(value, str) and not _LOOKAROUND.search(value):
            out[key] = value.removeprefix("^").removesuffix("$")
        elif key in _UNKNOWN or key == "pattern" or (key == "format" and value not in _FORMATS):
            words[key] = value
        elif key != "$schema":
            out[key] = value
    properties = out.get("properties")
    if isinstance(properties, dict) and properties and not out.get("required"):
        out["required"] = [next(iter(properties))]
    if words:
        moved.append(words)
        text = msgspec.json.encode(words).decode()
        out["description"] = f"{out['description']} {text}" if out.get("description") else text
    return out


def _merged(schema: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """Merges the parts of `allOf`; references cannot be merged and move into the description."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    out = {key: value for key, value in schema.items() if key != "allOf"}
    if parts and not out.keys() & {"properties", "type", "$ref"} and len(parts) == 1:
        return {**parts[0], **out}
    rest = []
    for part in parts:
        if not isinstance(part, dict) or part.keys() & {"$ref", "anyOf", "oneOf", "if", "not"}:
            rest.append(part)
            continue
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict):
                out[key] = {**out.get(key, {}), **value}
            elif key == "required" and isinstance(value, list):
                out[key] = list(dict.fromkeys([*out.get(key, []), *value]))
            else:
                out.setdefault(key, value)
    if rest:
        words["allOf"] = rest
    return out


PATH: Final = "/v2/chat"

# source: Cohere's API reference, v2/chat
FIELDS: Final = FieldTable(
    Field("temperature", "temperature"),
    Field("top_p", "p", low=0.01, high=0.99),
    Field("top_k", "k", low=0, high=500),
    Field("max_output_tokens", "max_tokens"),
    Field("stop", "stop_sequences", most=5),
    Field("seed", "seed"),
    Field("presence_penalty", "presence_penalty", low=0.0, high=1.0),
    Field("frequency_penalty", "frequency_penalty", low=0.0, high=1.0),
)


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request, with warnings about what was left out or changed.

    `provider_options["cohere"]` is merged into the body last; its `documents` are added to those of the
    messages.

    raises: InvalidRequest, Unsupported
    """
    return _Body(RequestWriter(request, provider=provider, key=KEY)).encode()


class _Body:
    """Fills the body of one request."""

    def __init__(self, writer: RequestWriter) -> None:
        self.writer = writer
        self.request = writer.request
        self.warnings = writer.warnings
        self.body: dict[str, Any] = {"model": self.request.model}

    def encode(self) -> Encoded:
        body, options = self.body, self.writer.options
        messages = MessageWriter(provider=self.writer.provider)
        body["messages"] = messages.write(self.request.messages)
        self.warnings += messages.warnings
        body["stream"] = True
        body |= self.writer.settings(FIELDS)
        if self.request.settings.parallel_tool_calls is not None:
            details = "the API does not support limiting parallel calls"
            self.warnings.unsupported("parallel_tool_calls", details)
        self.tools()
        self.thinking()
        documents = [*messages.documents, *options.pop("documents", ())]
        if documents:
            body["documents"] = documents
        self.response_format()
        return self.writer.encoded(PATH, merged(body, options), {"accept": "text/event-stream"})

    def tools(self) -> None:
        """Adds tools and tool choice; a tool is forced by sending no other."""
        request = self.request
        tools: list[ToolSpec] = []
        for tool in request.tools:
            if isinstance(tool, ProviderTool):
                self.warnings.unsupported_tool(tool, f"{self.writer.provider} has no tools of its own")
            else:
                tools.append(tool)
        choice = request.tool_choice
        if isinstance(choice, NamedTool):
            tools = [tool for tool in tools if tool.name == choice.name]
        if not tools:
            return
        strict = any(tool.strict for tool in tools)
        self.body["tools"] = [self.tool(tool, strict=strict) for tool in tools]
        if strict:
            self.body["strict_tools"] = True
        if strict and not all(tool.strict for tool in tools):
            self.warnings.note("strict applies to all tools of a request; it was switched on")
        if isinstance(choice, NamedTool) or choice == "required":
            self.body["tool_choice"] = "REQUIRED"
        elif choice == "none":
            self.body["tool_choice"] = "NONE"

    def thinking(self) -> None:
        reasoning = self.request.reasoning
        if reasoning is None:
            return
        thinking: dict[str, Any] = {"type": "disabled" if reasoning.effort == "none" else "enabled"}
        if reasoning.budget_tokens is not None and reasoning.effort != "none":
            thinking["token_budget"] = reasoning.budget_tokens
        if reasoning.effort not in (None, "none"):
            self.warnings.unsupported(
                "reasoning.effort", "thinking was switched on; set budget_tokens to limit it"
            )
        self.body["thinking"] = thinking

    def response_format(self) -> None:
        """Adds the output format; with tools or documents it is only described in the prompt."""
        wanted = self.request.response_format
        if wanted is None:
            return
        if "tools" not in self.body and "documents" not in self.body:
            format_: dict[str, Any] = {"type": "json_object"}
            if wanted.schema is not None:
                format_["json_schema"], moved = cohere_schema(described_schema(wanted))
                if moved:
                    self.warnings.note(
                        "part of the output schema moved into descriptions: the API does not enforce it"
                    )
            elif not says_json(self.request.messages):
                self.instruct(ANSWER_IN_JSON)
            self.body["response_format"] = format_
            return
        self.instruct(in_words(wanted))
        self.warnings.unsupported(
            "output", "not supported together with tools or documents; it was described in the prompt"
        )

    def tool(self, tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
        """Returns a tool; a strict one needs a schema in the subset."""
        schema = tool.input_schema or {"type": "object", "properties": {}}
        if strict:
            schema, moved = cohere_schema(schema)
            if moved:
                details = "moved into descriptions: the API does not enforce it"
                self.warnings.note(f"part of the schema of {tool.name!r} {details}")
        return {"type": "function", "function": {**name_and_description(tool), "parameters": schema}}

    def instruct(self, words: str) -> None:
        self.body["messages"].insert(0, {"role": "system", "content": words})
