"""A Request as a Mistral request: everything but the messages, which `messages.py` writes.

The API refuses every field it does not know, so nothing is sent that it does not document.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.mistral.messages import MessageWriter
from llmstream.dialects.mistral.wire import KEY
from llmstream.dialects.requests import RequestWarnings, merged, options_of
from llmstream.dialects.schemas import inlined
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.model_rules.mistral import MISTRAL
from llmstream.model_rules.table import nearest_effort
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["FIELDS", "PATH", "encode_request"]

PATH: Final = "/v1/chat/completions"

FIELDS: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop": "stop",
    "seed": "random_seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Our settings and what the wire calls them."""

_RANGES: Final = {
    "temperature": (0.0, 1.5),
    "top_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
"""What the API takes; source: Mistral's API reference, chat completion."""


def encode_request(request: Request, *, provider: str) -> Encoded:
    """The HTTP request and what could not be said in it.

    `provider_options["mistral"]` is laid over the body last.

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

    def write(self) -> Encoded:
        messages = MessageWriter(provider=self.provider)
        self.body["messages"] = messages.write(self.request.messages)
        self.warnings += messages.warnings
        self.body["stream"] = True
        self.settings()
        self.tools()
        self.reasoning()
        self.response_format()
        body = merged(self.body, options_of(self.request, KEY, self.provider))
        try:
            data = msgspec.json.encode(body)
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
            self.body[field] = list(value) if name == "stop" else value

    def tools(self) -> None:
        """Tools and the choice among them. Where none may be called none is sent: told of tools it
        may not call, the model writes calls as text.
        """
        request, choice = self.request, self.request.tool_choice
        tools: list[dict[str, Any]] = []
        inline = MISTRAL.find(request.model).inline_refs
        for tool in request.tools:
            if isinstance(tool, ProviderTool):
                name = tool.name or tool.type
                self.warnings.append(UnsupportedTool(name, "the chat API runs no tools itself"))
            else:
                tools.append(_tool(tool, inline=inline))
        if not tools or choice == "none":
            return
        self.body["tools"] = tools
        if isinstance(choice, NamedTool):
            self.body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice is not None:
            self.body["tool_choice"] = "any" if choice == "required" else choice
        if request.settings.parallel_tool_calls is not None:
            self.body["parallel_tool_calls"] = request.settings.parallel_tool_calls

    def reasoning(self) -> None:
        reasoning, rules = self.request.reasoning, MISTRAL.find(self.request.model)
        if reasoning is None:
            return
        if reasoning.budget_tokens is not None:
            self.left_out("reasoning.budget_tokens", "give an effort instead")
        effort = reasoning.effort
        if rules.prompt_mode:
            if effort == "none":
                self.left_out("reasoning.effort", "this model always thinks")
            else:
                self.body["prompt_mode"] = "reasoning"
            if effort not in (None, "none", "high"):
                self.left_out("reasoning.effort", "this model knows no efforts")
            return
        if not rules.efforts:
            if effort != "none":
                self.left_out("reasoning", "this model does not reason on request")
            return
        wanted = nearest_effort(effort or "high", rules.efforts)
        if effort == "none" and wanted != effort:
            self.left_out("reasoning.effort", f"this model always thinks; the effort {wanted} was sent")
        elif effort not in (None, wanted):
            self.warnings.append(OtherWarning(f"reasoning effort {effort!r} was sent as {wanted!r}"))
        self.body["reasoning_effort"] = wanted

    def response_format(self) -> None:
        wanted = self.request.response_format
        if wanted is None:
            return
        if wanted.schema is None:
            self.body["response_format"] = {"type": "json_object"}
            return
        schema: dict[str, Any] = {"name": wanted.name, "schema": wanted.schema, "strict": wanted.strict}
        if wanted.description:
            schema["description"] = wanted.description
        self.body["response_format"] = {"type": "json_schema", "json_schema": schema}

    def left_out(self, setting: str, details: str) -> None:
        self.warnings.append(UnsupportedSetting(setting, details))


def _tool(tool: ToolSpec, *, inline: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    schema = tool.input_schema or {"type": "object", "properties": {}}
    function["parameters"] = inlined(schema) if inline else schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}
