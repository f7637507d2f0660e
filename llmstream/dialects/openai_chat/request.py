"""A Request as a Chat Completions request: everything but the messages, which `messages.py` writes."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded, OutputAbility
from llmstream.dialects.openai_chat.messages import MessageWriter
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_schema import strict_schema
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["encode_request", "is_reasoning_model", "output_abilities"]

_REASONING_MODEL: Final = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d)(?!.*chat))")
_SAMPLES_AT_NONE: Final = re.compile(r"(?:^|/)gpt-(?:5\.[1-9]|[6-9]|\d\d)")
_SAMPLING: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def is_reasoning_model(model: str) -> bool:
    """Whether it is one of OpenAI's o-series, or gpt-5 and later (not their chat variants)."""
    return _REASONING_MODEL.search(model) is not None


def encode_request(request: Request, quirks: Quirks, *, provider: str) -> Encoded:
    """The HTTP request, relative to the provider's address.

    raises: InvalidRequest, Unsupported
    """
    return _Writer(request, quirks, provider).write()


def output_abilities(request: Request, quirks: Quirks) -> tuple[OutputAbility, ...]:
    """What the quirks say of this request: schema, a tool that can be forced, JSON of any shape."""
    out: list[OutputAbility] = ["json_schema"] if quirks.response_format == "json_schema" else []
    thinks = request.reasoning is not None and request.reasoning.effort != "none"
    forced = "required" in quirks.tool_choice or ("named" in quirks.tool_choice and not request.tools)
    if quirks.tools and forced and (quirks.tool_choice_while_thinking or not thinks):
        out.append("tool")
    if quirks.response_format != "none":
        out.append("json_object")
    return tuple(out)


class _Writer:
    """Fills the body of one request and notes what had to be left out."""

    def __init__(self, request: Request, quirks: Quirks, provider: str) -> None:
        self.request = request
        self.quirks = quirks
        self.provider = provider
        self.warnings: list[Warning] = []
        self.body: dict[str, Any] = {"model": request.model}

    def write(self) -> Encoded:
        request, quirks, body = self.request, self.quirks, self.body
        role = quirks.system_role
        if role == "auto":
            role = "developer" if is_reasoning_model(request.model) else "system"
        messages = MessageWriter(quirks, provider=self.provider, system_role=role)
        body["messages"] = messages.write(request.messages)
        self.warnings += messages.warnings
        self.settings()
        self.tools()
        self.reasoning()
        self.response_format(role)
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

    def settings(self) -> None:
        settings = self.request.settings
        by_model: set[str] = set()
        if self.quirks.reasoning_model_rules and is_reasoning_model(self.request.model):
            effort = self.request.reasoning.effort if self.request.reasoning else None
            if not (effort == "none" and _SAMPLES_AT_NONE.search(self.request.model)):
                by_model.update(_SAMPLING)
        for name in settings.__struct_fields__:
            value = getattr(settings, name)
            if value is None or value == () or name == "parallel_tool_calls":
                continue
            if name in by_model:
                self.left_out(name, "reasoning models do not take it")
            elif name in self.quirks.unsupported_settings:
                self.left_out(name)
            else:
                field = self.quirks.max_tokens_field if name == "max_output_tokens" else name
                self.body[field] = list(value) if name == "stop" else value

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
        function["parameters"] = tool.input_schema or {"type": "object", "properties": {}}
        if tool.strict is not None and self.quirks.strict_tools:
            function["strict"] = tool.strict
        elif tool.strict:
            self.warnings.append(
                OtherWarning(f"{self.provider} has no strict tools; {tool.name!r} was sent without")
            )
        return {"type": "function", "function": function}

    def tool_choice(self, choice: object) -> None:
        named = isinstance(choice, NamedTool)
        if choice is None or (named and "named" not in self.quirks.tool_choice):
            return
        thinks = self.request.reasoning is not None and self.request.reasoning.effort != "none"
        if thinks and not self.quirks.tool_choice_while_thinking and (named or choice == "required"):
            self.left_out("tool_choice", "a tool cannot be forced while the model thinks")
        elif isinstance(choice, NamedTool):
            self.body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice in self.quirks.tool_choice:
            self.body["tool_choice"] = choice
        elif choice != "auto":
            self.left_out("tool_choice", f"{choice!r} cannot be asked for")

    def reasoning(self) -> None:
        reasoning, style = self.request.reasoning, self.quirks.reasoning_style
        if reasoning is None:
            return
        budget = reasoning.budget_tokens
        effort: str | None = reasoning.effort
        if effort is not None and self.quirks.efforts.get(effort, effort) != effort:
            self.warnings.append(
                OtherWarning(f"reasoning effort {effort!r} was sent as {self.quirks.efforts[effort]!r}")
            )
            effort = self.quirks.efforts[effort]
        if style == "none":
            self.left_out("reasoning")
        elif style in ("effort", "groq"):
            self.by_effort(effort, budget)
        elif style == "openrouter":
            body = {"effort": effort} if budget is None else {"max_tokens": budget}
            self.body["reasoning"] = {k: v for k, v in body.items() if v is not None} or {"enabled": True}
        elif style == "enable-thinking":
            self.body["enable_thinking"] = effort != "none"
            if budget is not None:
                self.body["thinking_budget"] = budget
        else:
            thinking: dict[str, Any] = {"type": "disabled" if effort == "none" else "enabled"}
            if budget is not None and style == "thinking-budget":
                thinking["budget_tokens"] = budget
            elif budget is not None:
                self.left_out("reasoning.budget_tokens")
            self.body["thinking"] = thinking

    def by_effort(self, effort: str | None, budget: int | None) -> None:
        if effort is not None:
            self.body["reasoning_effort"] = effort
        if budget is not None:
            self.left_out("reasoning.budget_tokens", "give an effort instead")
        if self.quirks.reasoning_style == "groq":
            self.body["reasoning_format"] = "parsed"

    def response_format(self, system_role: str) -> None:
        wanted, known = self.request.response_format, self.quirks.response_format
        if wanted is None:
            return
        if wanted.schema is not None and known == "json_schema":
            schema: dict[str, Any] = {"schema": wanted.schema}
            if not self.quirks.bare_json_schema:
                schema = {"name": wanted.name, "schema": wanted.schema, "strict": wanted.strict}
                if wanted.strict and "properties" in wanted.schema:
                    schema.update(self.strict_schema(wanted.schema))
                if wanted.description:
                    schema["description"] = wanted.description
            self.body["response_format"] = {"type": "json_schema", "json_schema": schema}
            return
        if known != "none":
            self.body["response_format"] = {"type": "json_object"}
        if wanted.schema is not None or known == "none":
            words = "Answer with a JSON object and nothing else."
            if wanted.schema is not None:
                words += f" It has to fit this JSON schema: {msgspec.json.encode(wanted.schema).decode()}"
            self.body["messages"].insert(0, {"role": system_role, "content": words})
            self.left_out("response_format", "the schema went into the prompt instead")

    def strict_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema as strict mode takes it; not strict where it says what the mode cannot."""
        fitting = strict_schema(schema)
        if fitting is None:
            self.warnings.append(OtherWarning("the output schema is not strict: it has open objects"))
            return {"strict": False}
        return {"schema": fitting}

    def left_out(self, setting: str, details: str | None = None) -> None:
        self.warnings.append(UnsupportedSetting(setting, details or f"{self.provider} does not take it"))
