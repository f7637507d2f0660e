"""Encodes a request for Chat Completions: everything but the messages, which `messages.py` encodes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded, OutputAbility
from llmstream.dialects.history_parts import keep_last_marks
from llmstream.dialects.openai_chat.messages import MessageWriter
from llmstream.dialects.openai_chat.quirks import Quirks, SchemaQuirks, SettingQuirks
from llmstream.dialects.openai_chat.thinking import beside_tools, check_served, encode_thinking, thinks
from llmstream.dialects.requests import (
    ANSWER_IN_JSON,
    Field,
    FieldTable,
    RequestWarnings,
    RequestWriter,
    format_instruction,
    mentions_json,
    name_and_description,
)
from llmstream.dialects.schemas import inlined, openai_strict_schema
from llmstream.events import OtherWarning, UnsupportedSetting
from llmstream.model_rules.gpt import GPT
from llmstream.request import NamedTool, ProviderTool, Request, ResponseFormat, Settings, ToolSpec

__all__ = ["encode_request", "moonshot_schema", "output_abilities"]


# JSON schemas in the subset that Moonshot accepts.
#
# Every schema names its type, in the branches of an `anyOf` and not beside it; references lead to `$defs`
# of the root, which is an object. Unsupported keywords move into the description, where the model still
# reads them.
# source: "Moonshot Flavored JSON Schema Spec" and the rules of its validator, both at MoonshotAI/walle

_SUPPORTED: Final = frozenset({"type", "description", "default", "enum", "required"})
_DROPPED: Final = frozenset({"$schema", "$id", "$comment", "title", "$defs", "definitions"})
_ALL_TYPES: Final = ("string", "number", "boolean", "object", "array", "null")
_OWNERS: Final = {
    "properties": "object", "required": "object", "additionalProperties": "object", "items": "array",
}  # fmt: skip
_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
# References to anything but a definition are expanded to this depth: they may be circular.
_MAX_DEPTH: Final = 12


def moonshot_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Converts the schema of an object; returns also whether a keyword moved into a description."""
    return _SchemaConverter(schema).converted()


class _SchemaConverter:
    """Converts one schema.

    moved: whether a keyword moved into a description
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.moved = False

    def converted(self) -> tuple[dict[str, Any], bool]:
        out = self.convert(self.resolved(self.root), 0)
        if "anyOf" in out:
            out = self.one_object(out)
        elif out.get("type") != "object":
            out = self.with_description({"type": "object"}, out)
        out.setdefault("properties", {})
        held = self.root.get("$defs", self.root.get("definitions"))
        if isinstance(held, dict) and '"#/$defs/' in msgspec.json.encode(out).decode():
            out["$defs"] = {name: self.convert(inner, 1) for name, inner in held.items()}
        return out, self.moved

    def convert(self, schema: Any, depth: int) -> dict[str, Any]:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            schema = {}
        schema = self.merged(self.inlined(schema))
        out: dict[str, Any] = {}
        unsupported: dict[str, Any] = {}
        for key, value in schema.items():
            if key == "properties" and isinstance(value, dict):
                out[key] = {name: self.convert(inner, depth + 1) for name, inner in value.items()}
            elif key == "items" and value not in ({}, True):
                out[key] = self.convert(value, depth + 1)
            elif key == "additionalProperties":
                out[key] = value if isinstance(value, bool) or value == {} else self.convert(value, depth + 1)
            elif key in ("anyOf", "oneOf") and isinstance(value, list) and value:
                out["anyOf"] = [self.inlined(branch) for branch in value if isinstance(branch, dict)]
            elif key == "const":
                out["enum"] = [value]
            elif key in _SUPPORTED or key == "$ref":
                out[key] = value
            elif key not in _DROPPED and key != "items":
                unsupported[key] = value
        return self.with_description(self.typed(out, unsupported, depth), unsupported)

    def typed(self, out: dict[str, Any], unsupported: dict[str, Any], depth: int) -> dict[str, Any]:
        """Puts the type where the subset has it: in the branches of an `anyOf`."""
        if "$ref" in out:
            # The definition has one.
            out.pop("type", None)
            unsupported.update({key: out.pop(key) for key in list(out) if key not in ("$ref", "description")})
            return out
        kinds = out.pop("type", None)
        if kinds is None:
            kinds = self.guessed(out)
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if depth == 0 and kinds == ["null"]:
            kinds = ["object"]
        branches = out.pop("anyOf", None)
        about = {key: out.pop(key) for key in ("description",) if key in out}
        if branches is None and len(kinds) == 1:
            return self.of_type(kinds[0], {**out, **about}, unsupported)
        if branches is None:
            return {"anyOf": [self.of_type(kind, out, {}) for kind in kinds], **about}
        shared = {} if kinds == list(_ALL_TYPES) or len(kinds) > 1 else {"type": kinds[0]}
        joined = [self.convert(_both({**shared, **out}, branch), depth + 1) for branch in branches]
        flat = [inner for one in joined for inner in (one["anyOf"] if set(one) == {"anyOf"} else [one])]
        return {"anyOf": flat, **about}

    def of_type(self, kind: str, out: dict[str, Any], unsupported: dict[str, Any]) -> dict[str, Any]:
        """Returns a schema of one type, with the keywords of that type."""
        fields = {key: value for key, value in out.items() if _OWNERS.get(key, kind) == kind}
        if isinstance(fields.get("required"), list):
            named = fields.get("properties", {})
            fields["required"] = [name for name in fields["required"] if name in named]
        values = fields.get("enum")
        if isinstance(values, list):
            fitting = [
                v for v in values if _NAMES.get(type(v)) in (kind, "integer" if kind == "number" else kind)
            ]
            if fitting and kind not in ("null", "boolean"):
                fields["enum"] = fitting
            else:
                unsupported["enum"] = fields.pop("enum")
        if kind in ("object", "array"):
            fields.pop("default", None)
        return {"type": kind, **fields}

    def guessed(self, out: dict[str, Any]) -> list[str]:
        """Derives the types of a schema that names none from its keywords."""
        if "properties" in out or "required" in out or "additionalProperties" in out:
            return ["object"]
        if "items" in out:
            return ["array"]
        if isinstance(out.get("enum"), list):
            return list(dict.fromkeys(_NAMES.get(type(value), "string") for value in out["enum"])) or [
                "string"
            ]
        return list(_ALL_TYPES)

    def one_object(self, out: dict[str, Any]) -> dict[str, Any]:
        """Joins the alternatives of the root, which has to be an object; they are described as well."""
        branches = [branch for branch in out["anyOf"] if branch.get("type") == "object"]
        properties: dict[str, Any] = {}
        for branch in branches:
            properties.update(branch.get("properties", {}))
        always = set(properties)
        for branch in branches:
            always &= set(branch.get("required", ()))
        joined_schema = {"type": "object", "properties": properties, "required": sorted(always)}
        if "description" in out:
            joined_schema["description"] = out["description"]
        alternatives = [{"required": branch.get("required", [])} for branch in branches]
        return self.with_description(joined_schema, {"anyOf": alternatives} if len(alternatives) > 1 else {})

    def with_description(self, out: dict[str, Any], unsupported: dict[str, Any]) -> dict[str, Any]:
        """Adds unsupported keywords to the description."""
        if not unsupported:
            return out
        self.moved = True
        text = msgspec.json.encode(unsupported).decode()
        return {**out, "description": f"{out['description']} {text}" if out.get("description") else text}

    def inlined(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Leaves references to definitions, and replaces any other by the schema it names."""
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref.startswith(("#/$defs/", "#/definitions/")) and ref.count("/") == 2:
            return {**schema, "$ref": ref.replace("#/definitions/", "#/$defs/")}
        return self.resolved(schema) if isinstance(ref, str) and ref != "#" else schema

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Replaces a local reference by the schema it names, with the keywords beside it."""
        for _ in range(_MAX_DEPTH):
            ref = schema.get("$ref")
            if not isinstance(ref, str):
                return schema
            found: Any = self.root
            for step in ref.removeprefix("#").strip("/").split("/"):
                name = step.replace("~1", "/").replace("~0", "~")
                found = found.get(name) if isinstance(found, dict) and name else found
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**found, **beside} if isinstance(found, dict) else beside
        return {key: value for key, value in schema.items() if key != "$ref"}

    def merged(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Joins the parts of `allOf`, which the subset does not have; conditions go into the description."""
        parts = schema.get("allOf")
        if not isinstance(parts, list):
            return schema
        out = {key: value for key, value in schema.items() if key != "allOf"}
        conditions = []
        for part in parts:
            if isinstance(part, dict) and not part.keys() & {"if", "not", "anyOf", "oneOf"}:
                out = _both(out, self.resolved(part))
            else:
                conditions.append(part)
        return {**out, "all of": conditions} if conditions else out


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Merges two schemas; where they differ, the second takes precedence."""
    out = {**one, **other}
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        out["properties"] = {**one["properties"], **other["properties"]}
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        out["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return out


# JSON output: by the field of the wire as far as the vendor supports it, else by an instruction.


class OutputFields(msgspec.Struct, frozen=True):
    """How a request enforces JSON output.

    field:       `response_format`, or None
    instruction: system message at the beginning, or None
    """

    field: dict[str, Any] | None = None
    instruction: str | None = None


def encode_output(request: Request, quirks: SchemaQuirks, warnings: RequestWarnings) -> OutputFields:
    wanted, known = request.response_format, quirks.output
    if wanted is None:
        return OutputFields()
    if wanted.schema is not None and known == "json_schema":
        return OutputFields({"type": "json_schema", "json_schema": _schema(wanted, quirks, warnings)})
    field = {"type": "json_object"} if known != "none" and quirks.json_object else None
    if field is not None and wanted.schema is None:
        return OutputFields(field, None if mentions_json(request.messages) else ANSWER_IN_JSON)
    what = "it" if wanted.schema is None else "the schema"
    warnings.append(UnsupportedSetting("output", f"{what} went into the prompt instead"))
    return OutputFields(field, format_instruction(wanted))


def _schema(wanted: ResponseFormat, quirks: SchemaQuirks, warnings: RequestWarnings) -> dict[str, Any]:
    schema = wanted.schema or {}
    out: dict[str, Any] = {"name": wanted.name, "schema": schema, "strict": wanted.strict}
    if quirks.subset == "moonshot":
        out["schema"], moved = moonshot_schema(schema)
        if moved:
            note = "the API cannot check all of the output schema; the rest went into descriptions"
            warnings.append(OtherWarning(note))
    elif wanted.strict and "properties" in schema:
        fitting = openai_strict_schema(schema)
        if fitting is None:
            warnings.append(OtherWarning("the output schema is not strict: it has open objects"))
            out["strict"] = False
        else:
            out["schema"] = fitting
    if wanted.description:
        out["description"] = wanted.description
    return out


_UNSET: Final = Settings()
_SAMPLING: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


@functools.lru_cache
def _fields(quirks: SettingQuirks) -> FieldTable:
    low, high = quirks.temperature_range
    return FieldTable(
        Field("temperature", "temperature", low=low, high=high),
        Field("top_p", "top_p"),
        Field("top_k", "top_k"),
        Field("max_output_tokens", quirks.max_tokens_field),
        Field("stop", "stop", most=quirks.max_stops),
        Field("seed", "seed"),
        Field("presence_penalty", "presence_penalty"),
        Field("frequency_penalty", "frequency_penalty"),
    )


def encode_request(request: Request, quirks: Quirks, *, provider: str) -> Encoded:
    """Encodes the HTTP request, relative to the provider's base URL.

    raises: InvalidRequest, Unsupported
    """
    writer = RequestWriter(request, provider=provider, key=provider)
    return _Body(writer, quirks.for_model(request.model)).encode()


def output_abilities(request: Request, quirks: Quirks) -> tuple[OutputAbility, ...]:
    """Returns how JSON output can be enforced: by a schema, a forced tool, or as JSON of any shape."""
    quirks = quirks.for_model(request.model)
    out: list[OutputAbility] = ["json_schema"] if quirks.schemas.output == "json_schema" else []
    forced = "required" in quirks.tools.choice or ("named" in quirks.tools.choice and not request.tools)
    forced = forced and (quirks.tools.choice_while_thinking or not thinks(request, quirks.thinking))
    if quirks.tools.functions and forced:
        out.append("tool")
    if quirks.schemas.output != "none" and quirks.schemas.json_object:
        out.append("json_object")
    return tuple(out)


class _Body:
    """Fills the body of one request."""

    def __init__(self, writer: RequestWriter, quirks: Quirks) -> None:
        self.writer = writer
        self.request = writer.request
        self.quirks = quirks
        self.provider = writer.provider
        self.warnings = writer.warnings
        self.body: dict[str, Any] = {"model": self.request.model}
        self.checks_wire = quirks.reasoning_model_rules and quirks.wire_rules

    def encode(self) -> Encoded:
        request, quirks, body = self.request, self.quirks, self.body
        if self.checks_wire:
            check_served(request.model, provider=self.provider)
        role = quirks.system_role
        if role == "auto":
            role = "developer" if GPT.find(request.model).reasons else "system"
        messages = MessageWriter(quirks, provider=self.provider, system_role=role, warnings=self.warnings)
        body["messages"] = messages.write(request.messages)
        if request.settings != _UNSET:
            body.update(self.settings())
        if request.tools:
            self.tools()
        if request.reasoning is not None or request.tools:
            body.update(self.thinking())
        if request.response_format is not None:
            self.output(role)
        if messages.marked:
            keep_last_marks(_marked(body["messages"]), self.warnings)
        body["stream"] = True
        if quirks.settings.stream_options:
            body["stream_options"] = {"include_usage": True}
        body.update(quirks.extra_body)
        body.update(self.writer.options)
        return self.writer.encoded(quirks.path, body, {"accept": "text/event-stream", **quirks.headers})

    def thinking(self) -> dict[str, Any]:
        request, provider, warnings = self.request, self.provider, self.warnings
        fields = encode_thinking(request, self.quirks, provider=provider, warnings=warnings)
        if self.checks_wire and any(tool["type"] == "function" for tool in self.body.get("tools", ())):
            return beside_tools(fields, request, provider=provider, warnings=warnings)
        return fields

    def refused_by_model(self) -> set[str]:
        """Returns the settings that OpenAI's model refuses."""
        rules = GPT.find(self.request.model)
        effort = self.request.reasoning.effort if self.request.reasoning else None
        refused = set() if rules.stop else {"stop"}
        if rules.sampling == "never" or (rules.sampling == "at-none" and effort != "none"):
            refused.update(_SAMPLING)
        return refused

    def settings(self) -> dict[str, Any]:
        quirks = self.quirks
        reasons = dict.fromkeys(quirks.settings.unsupported, f"{self.provider} does not take it")
        if quirks.reasoning_model_rules:
            reasons |= dict.fromkeys(self.refused_by_model(), "reasoning models do not take it")
        return self.writer.settings(_fields(quirks.settings), reasons)

    def tools(self) -> None:
        """Adds tools and tool choice; never an empty list, which servers refuse (Together among them)."""
        request, quirks = self.request, self.quirks
        tools = []
        for tool in request.tools:
            if not quirks.tools.functions or (
                isinstance(tool, ProviderTool) and not quirks.tools.provider_tools
            ):
                self.warnings.unsupported_tool(tool, f"{self.provider} does not take it")
            elif isinstance(tool, ProviderTool):
                tools.append({"type": tool.type, **tool.options})
            else:
                tools.append(self.tool(tool))
        choice = request.tool_choice
        if not tools or (choice == "none" and "none" not in quirks.tools.choice):
            return
        if isinstance(choice, NamedTool) and not {"named", "required"} & quirks.tools.choice:
            self.warnings.unsupported("tool_choice", "a tool cannot be forced")
        elif isinstance(choice, NamedTool) and "named" not in quirks.tools.choice:
            tools = [tool for tool in tools if tool.get("function", {}).get("name") == choice.name]
            choice = "required"
        self.body["tools"] = tools
        self.tool_choice(choice)
        parallel = request.settings.parallel_tool_calls
        if parallel is not None and quirks.tools.parallel_calls:
            self.body["parallel_tool_calls"] = parallel
        elif parallel is not None:
            self.warnings.unsupported("parallel_tool_calls", f"{self.provider} does not take it")

    def tool(self, tool: ToolSpec) -> dict[str, Any]:
        function = name_and_description(tool)
        schema = tool.input_schema or {"type": "object", "properties": {}}
        if self.quirks.schemas.inline_refs:
            schema = inlined(schema)
        strict = tool.strict if self.quirks.tools.strict else None
        if tool.strict and strict is None:
            self.warnings.note(f"{self.provider} has no strict tools; {tool.name!r} was sent without")
        if self.quirks.schemas.subset == "moonshot":
            schema, moved = moonshot_schema(schema)
            if moved:
                self.warnings.note(
                    f"some of the schema of {tool.name!r} went into descriptions: the API cannot check it"
                )
        elif strict:
            fitting = openai_strict_schema(schema)
            if fitting is None:
                self.warnings.note(f"the tool {tool.name!r} is not strict: its schema has open objects")
            strict, schema = fitting is not None, fitting or schema
        function["parameters"] = schema
        if strict is not None:
            function["strict"] = strict
        return {"type": "function", "function": function}

    def tool_choice(self, choice: object) -> None:
        named = isinstance(choice, NamedTool)
        if choice is None or (named and "named" not in self.quirks.tools.choice):
            return
        alone = not self.quirks.tools.choice_while_thinking and thinks(self.request, self.quirks.thinking)
        if alone and (named or choice == "required"):
            self.warnings.unsupported("tool_choice", "a tool cannot be forced while the model thinks")
        elif isinstance(choice, NamedTool):
            self.body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice in self.quirks.tools.choice:
            self.body["tool_choice"] = choice
        elif choice != "auto":
            self.warnings.unsupported("tool_choice", f"{choice!r} is not supported")

    def output(self, system_role: str) -> None:
        wanted = encode_output(self.request, self.quirks.schemas, self.warnings)
        if wanted.field is not None:
            self.body["response_format"] = wanted.field
        if wanted.instruction is not None:
            self.body["messages"].insert(0, {"role": system_role, "content": wanted.instruction})


def _marked(messages: list[Any]) -> Iterator[Any]:
    """Yields everything that may carry a cache mark, in the order of the prompt."""
    for message in messages:
        if isinstance(message, msgspec.Raw):  # as in the last request; such a message has no marks
            continue
        if isinstance(message.get("content"), list):
            yield from message["content"]
        yield from message.get("tool_calls") or ()
