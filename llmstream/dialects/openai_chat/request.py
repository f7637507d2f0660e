"""A Request as a Chat Completions request: everything but the messages, which `messages.py` writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded, OutputAbility
from llmstream.dialects.cache_marks import keep_last_marks
from llmstream.dialects.inline_refs import inlined
from llmstream.dialects.openai_chat.messages import MessageWriter
from llmstream.dialects.openai_chat.moonshot_schema import moonshot_schema
from llmstream.dialects.openai_chat.output_format import encode_output
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.thinking import beside_tools, check_served, encode_thinking, thinks
from llmstream.dialects.openai_schema import openai_strict_schema
from llmstream.dialects.request_warnings import RequestWarnings
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gpt import GPT
from llmstream.request import NamedTool, ProviderTool, Request, Settings, ToolSpec

__all__ = ["encode_request", "output_abilities"]

_UNSET: Final = Settings()
_SAMPLING: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def encode_request(request: Request, quirks: Quirks, *, provider: str) -> Encoded:
    """The HTTP request, relative to the provider's address.

    raises: InvalidRequest, Unsupported
    """
    return _Writer(request, quirks.for_model(request.model), provider).write()


def output_abilities(request: Request, quirks: Quirks) -> tuple[OutputAbility, ...]:
    """What the quirks say of this request: schema, a tool that can be forced, JSON of any shape."""
    quirks = quirks.for_model(request.model)
    out: list[OutputAbility] = ["json_schema"] if quirks.response_format == "json_schema" else []
    forced = "required" in quirks.tool_choice or ("named" in quirks.tool_choice and not request.tools)
    if quirks.tools and forced and (quirks.tool_choice_while_thinking or not thinks(request, quirks)):
        out.append("tool")
    if quirks.response_format != "none" and quirks.json_object:
        out.append("json_object")
    return tuple(out)


class _Writer:
    """Fills the body of one request and notes what had to be left out."""

    def __init__(self, request: Request, quirks: Quirks, provider: str) -> None:
        self.request = request
        self.quirks = quirks
        self.provider = provider
        self.warnings: list[Warning] = RequestWarnings()
        self.body: dict[str, Any] = {"model": request.model}
        self.checks_wire = quirks.reasoning_model_rules and quirks.wire_rules

    def write(self) -> Encoded:
        request, quirks, body = self.request, self.quirks, self.body
        if self.checks_wire:
            check_served(request.model, provider=self.provider)
        role = quirks.system_role
        if role == "auto":
            role = "developer" if GPT.find(request.model).reasons else "system"
        messages = MessageWriter(quirks, provider=self.provider, system_role=role)
        body["messages"] = messages.write(request.messages)
        self.warnings += messages.warnings
        if request.settings != _UNSET:
            self.settings()
        if request.tools:
            self.tools()
        if request.reasoning is not None or request.tools:
            body.update(self.thinking())
        if request.response_format is not None:
            self.output(role)
        if messages.marked:
            keep_last_marks(_marked(body["messages"]), self.warnings)
        body["stream"] = True
        if quirks.stream_options:
            body["stream_options"] = {"include_usage": True}
        body.update(quirks.extra_body)
        body.update(request.provider_options.get(self.provider, {}))
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        try:
            encoded = msgspec.json.encode(body)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"the request cannot be written as JSON: {error}") from None
        http = HttpRequest(quirks.path, encoded, {**headers, **quirks.headers, **request.headers})
        return Encoded(http, self.warnings)

    def thinking(self) -> dict[str, Any]:
        request, provider, warnings = self.request, self.provider, self.warnings
        fields = encode_thinking(request, self.quirks, provider=provider, warnings=warnings)
        if self.checks_wire and any(tool["type"] == "function" for tool in self.body.get("tools", ())):
            return beside_tools(fields, request, provider=provider, warnings=warnings)
        return fields

    def refused_by_model(self) -> set[str]:
        """Settings that OpenAI's model would refuse."""
        rules = GPT.find(self.request.model)
        effort = self.request.reasoning.effort if self.request.reasoning else None
        refused = set() if rules.stop else {"stop"}
        if rules.sampling == "never" or (rules.sampling == "at-none" and effort != "none"):
            refused.update(_SAMPLING)
        return refused

    def settings(self) -> None:
        settings = self.request.settings
        by_model = self.refused_by_model() if self.quirks.reasoning_model_rules else set()
        for name in settings.__struct_fields__:
            value = getattr(settings, name)
            if value is None or value == () or name == "parallel_tool_calls":
                continue
            if name in by_model:
                self.left_out(name, "reasoning models do not take it")
            elif name in self.quirks.unsupported_settings:
                self.left_out(name)
            elif name == "temperature":
                self.body[name] = self.temperature(value)
            elif name == "stop":
                self.body[name] = self.stops(list(value))
            else:
                field = self.quirks.max_tokens_field if name == "max_output_tokens" else name
                self.body[field] = value

    def temperature(self, wanted: float) -> float:
        low, high = self.quirks.temperature_range
        if low <= wanted <= high:
            return wanted
        fitting = min(high, max(low, wanted))
        self.warn(f"temperature {wanted:g} became {fitting:g}: the API takes {low:g} to {high:g}")
        return fitting

    def stops(self, wanted: list[str]) -> list[str]:
        most = self.quirks.max_stops
        if most is not None and len(wanted) > most:
            self.warn(
                f"only the first {most} of {len(wanted)} stop sequences were sent: the API takes no more"
            )
        return wanted[:most]

    def tools(self) -> None:
        """Tools and the choice among them; never an empty list, which servers refuse."""
        request, quirks = self.request, self.quirks
        tools = []
        for tool in request.tools:
            if not quirks.tools or (isinstance(tool, ProviderTool) and not quirks.provider_tools):
                name = tool.name or tool.type if isinstance(tool, ProviderTool) else tool.name
                self.warnings.append(UnsupportedTool(name, f"{self.provider} does not take it"))
            elif isinstance(tool, ProviderTool):
                tools.append({"type": tool.type, **tool.options})
            else:
                tools.append(self.tool(tool))
        choice = request.tool_choice
        if not tools or (choice == "none" and "none" not in quirks.tool_choice):
            return
        if isinstance(choice, NamedTool) and not {"named", "required"} & quirks.tool_choice:
            self.left_out("tool_choice", "a tool cannot be forced")
        elif isinstance(choice, NamedTool) and "named" not in quirks.tool_choice:
            tools = [tool for tool in tools if tool.get("function", {}).get("name") == choice.name]
            choice = "required"
        self.body["tools"] = tools
        self.tool_choice(choice)
        parallel = request.settings.parallel_tool_calls
        if parallel is not None and quirks.parallel_tool_calls:
            self.body["parallel_tool_calls"] = parallel
        elif parallel is not None:
            self.left_out("parallel_tool_calls")

    def tool(self, tool: ToolSpec) -> dict[str, Any]:
        function: dict[str, Any] = {"name": tool.name}
        if tool.description:
            function["description"] = tool.description
        schema = tool.input_schema or {"type": "object", "properties": {}}
        if self.quirks.inline_refs:
            schema = inlined(schema)
        strict = tool.strict if self.quirks.strict_tools else None
        if tool.strict and strict is None:
            self.warn(f"{self.provider} has no strict tools; {tool.name!r} was sent without")
        if self.quirks.schema_subset == "moonshot":
            schema, moved = moonshot_schema(schema)
            if moved:
                self.warn(
                    f"some of the schema of {tool.name!r} went into descriptions: the API cannot check it"
                )
        elif strict:
            fitting = openai_strict_schema(schema)
            if fitting is None:
                self.warn(f"the tool {tool.name!r} is not strict: its schema has open objects")
            strict, schema = fitting is not None, fitting or schema
        function["parameters"] = schema
        if strict is not None:
            function["strict"] = strict
        return {"type": "function", "function": function}

    def tool_choice(self, choice: object) -> None:
        named = isinstance(choice, NamedTool)
        if choice is None or (named and "named" not in self.quirks.tool_choice):
            return
        alone = not self.quirks.tool_choice_while_thinking and thinks(self.request, self.quirks)
        if alone and (named or choice == "required"):
            self.left_out("tool_choice", "a tool cannot be forced while the model thinks")
        elif isinstance(choice, NamedTool):
            self.body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice in self.quirks.tool_choice:
            self.body["tool_choice"] = choice
        elif choice != "auto":
            self.left_out("tool_choice", f"{choice!r} cannot be asked for")

    def output(self, system_role: str) -> None:
        wish = encode_output(self.request, self.quirks, self.warnings)
        if wish.field is not None:
            self.body["response_format"] = wish.field
        if wish.instruction is not None:
            self.body["messages"].insert(0, {"role": system_role, "content": wish.instruction})

    def warn(self, message: str) -> None:
        self.warnings.append(OtherWarning(message))

    def left_out(self, setting: str, details: str | None = None) -> None:
        self.warnings.append(UnsupportedSetting(setting, details or f"{self.provider} does not take it"))


def _marked(messages: list[dict[str, Any]]) -> Iterator[Any]:
    """What may carry a cache mark, in the order of the prompt."""
    for message in messages:
        if isinstance(message.get("content"), list):
            yield from message["content"]
        yield from message.get("tool_calls") or ()
