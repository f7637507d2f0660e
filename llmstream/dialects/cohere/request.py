"""A Request as a request of the v2 chat API: everything but the messages, which `messages.py` writes."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.cohere.messages import MessageWriter
from llmstream.dialects.cohere.wire import KEY
from llmstream.dialects.requests import (
    ANSWER_IN_JSON,
    RequestWarnings,
    described_schema,
    in_words,
    merged,
    options_of,
    says_json,
)
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["FIELDS", "PATH", "cohere_schema", "encode_request"]


# JSON schemas as Cohere's structured outputs take them.
#
# `oneOf` becomes `anyOf`, `allOf` one schema; limits that are not checked there move into the description,
# where the model still reads them. An object needs a required property: one that has none requires its
# first, so that what is answered fits the original as well.
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
    """A copy in the subset, and whether something of it went into words."""
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
    """The parts of `allOf` as one schema; references among them cannot be merged and go into words."""
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

FIELDS: Final = {
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "max_output_tokens": "max_tokens",
    "stop": "stop_sequences",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Our settings and what the wire calls them."""

_RANGES: Final = {
    "top_p": (0.01, 0.99),
    "top_k": (0, 500),
    "presence_penalty": (0.0, 1.0),
    "frequency_penalty": (0.0, 1.0),
}
"""What the API takes; source: Cohere's API reference, v2/chat."""

_MOST_STOPS: Final = 5


def encode_request(request: Request, *, provider: str) -> Encoded:
    """The HTTP request and what could not be said in it.

    `provider_options["cohere"]` is laid over the body last; its `documents` join those of the
    messages.

    raises: InvalidRequest, Unsupported
    """
    return _Writer(request, provider).write()


class _Writer:
    """Fills the body of one request and notes what had to be left out."""

    def __init__(self, request: Request, provider: str) -> None:
        self.request = request
        self.provider = provider
        self.warnings: list[Warning] = RequestWarnings()
        self.body: dict[str, Any] = {"model": request.model}
        self.own = options_of(request, KEY, provider)

    def write(self) -> Encoded:
        body = self.body
        messages = MessageWriter(provider=self.provider)
        body["messages"] = messages.write(self.request.messages)
        self.warnings += messages.warnings
        body["stream"] = True
        self.settings()
        self.tools()
        self.thinking()
        documents = [*messages.documents, *self.own.pop("documents", ())]
        if documents:
            body["documents"] = documents
        self.response_format()
        try:
            data = msgspec.json.encode(merged(body, self.own))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"the request cannot be written as JSON: {error}") from None
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        return Encoded(HttpRequest(PATH, data, {**headers, **self.request.headers}), self.warnings)

    def settings(self) -> None:
        settings = self.request.settings
        for name, field in FIELDS.items():
            value = getattr(settings, name)
            if value is None or value == ():
                continue
            if name in _RANGES:
                low, high = _RANGES[name]
                fitting = min(high, max(low, value))
                if fitting != value:
                    words = f"{name} {value:g} became {fitting:g}: the API takes {low:g} to {high:g}"
                    self.warnings.append(OtherWarning(words))
                value = fitting
            self.body[field] = self.stops(value) if name == "stop" else value
        if settings.parallel_tool_calls is not None:
            self.left_out("parallel_tool_calls", "the model decides how many tools it calls at once")

    def stops(self, stops: tuple[str, ...]) -> list[str]:
        if len(stops) > _MOST_STOPS:
            self.warnings.append(OtherWarning(f"only the first {_MOST_STOPS} stop sequences were sent"))
        return list(stops[:_MOST_STOPS])

    def tools(self) -> None:
        """Tools and the choice among them; a tool is forced by sending no other."""
        request = self.request
        tools: list[ToolSpec] = []
        for tool in request.tools:
            if isinstance(tool, ProviderTool):
                name = tool.name or tool.type
                self.warnings.append(UnsupportedTool(name, f"{self.provider} runs no tools itself"))
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
            self.warn("strict applies to all tools of a request; it was switched on")
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
            self.left_out("reasoning.effort", "thinking was switched on; give budget_tokens to bound it")
        self.body["thinking"] = thinking

    def response_format(self) -> None:
        """JSON, with or without a schema; next to tools or documents it can only be asked for in words."""
        wanted = self.request.response_format
        if wanted is None:
            return
        if "tools" not in self.body and "documents" not in self.body:
            format_: dict[str, Any] = {"type": "json_object"}
            if wanted.schema is not None:
                format_["json_schema"], moved = cohere_schema(described_schema(wanted))
                if moved:
                    self.warn("some of the output schema went into descriptions: the API cannot check it")
            elif not says_json(self.request.messages):
                self.instruct(ANSWER_IN_JSON)
            self.body["response_format"] = format_
            return
        self.instruct(in_words(wanted))
        self.left_out("output", "not together with tools or documents; it went into the prompt")

    def tool(self, tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
        """A function; held to its schema, it takes the subset only."""
        function: dict[str, Any] = {"name": tool.name}
        if tool.description:
            function["description"] = tool.description
        schema = tool.input_schema or {"type": "object", "properties": {}}
        if strict:
            schema, moved = cohere_schema(schema)
            if moved:
                words = "went into descriptions: the API cannot check it"
                self.warn(f"some of the schema of {tool.name!r} {words}")
        return {"type": "function", "function": {**function, "parameters": schema}}

    def instruct(self, words: str) -> None:
        self.body["messages"].insert(0, {"role": "system", "content": words})

    def warn(self, message: str) -> None:
        self.warnings.append(OtherWarning(message))

    def left_out(self, setting: str, details: str) -> None:
        self.warnings.append(UnsupportedSetting(setting, details))
