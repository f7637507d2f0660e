"""Writes a request of Mistral's chat API: all fields except `messages`.

The API rejects unknown fields, so only documented ones are sent.
"""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.base import Encoded
from llmstream.dialects.mistral.messages import MessageWriter
from llmstream.dialects.mistral.wire import KEY
from llmstream.dialects.requests import Field, FieldTable, RequestWriter, merged, name_and_description
from llmstream.dialects.schemas import inlined
from llmstream.model_rules.mistral import MISTRAL
from llmstream.model_rules.table import nearest_effort
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["FIELDS", "PATH", "encode_request"]

PATH: Final = "/v1/chat/completions"

# source: Mistral's API reference, chat completion
FIELDS: Final = FieldTable(
    Field("temperature", "temperature", low=0.0, high=1.5),
    Field("top_p", "top_p", low=0.0, high=1.0),
    Field("top_k", "top_k"),
    Field("max_output_tokens", "max_tokens"),
    Field("stop", "stop"),
    Field("seed", "random_seed"),
    Field("presence_penalty", "presence_penalty", low=-2.0, high=2.0),
    Field("frequency_penalty", "frequency_penalty", low=-2.0, high=2.0),
)


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request, with warnings about what was left out or changed.

    `provider_options["mistral"]` is merged into the body last.

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
        messages = MessageWriter(provider=self.writer.provider)
        self.body["messages"] = messages.write(self.request.messages)
        self.warnings += messages.warnings
        self.body["stream"] = True
        self.body |= self.writer.settings(FIELDS)
        self.tools()
        self.reasoning()
        self.response_format()
        body = merged(self.body, self.writer.options)
        return self.writer.encoded(PATH, body, {"accept": "text/event-stream"})

    def tools(self) -> None:
        """Adds tools and tool choice.

        Without permission to call, no tools are sent: given tools that it must not call, the model writes
        calls as text.
        """
        request, choice = self.request, self.request.tool_choice
        tools: list[dict[str, Any]] = []
        inline = MISTRAL.find(request.model).inline_refs
        for tool in request.tools:
            if isinstance(tool, ProviderTool):
                self.warnings.unsupported_tool(tool, "the chat API has no tools of its own")
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
            self.warnings.unsupported("reasoning.budget_tokens", "give an effort instead")
        effort = reasoning.effort
        if rules.prompt_mode:
            if effort == "none":
                self.warnings.unsupported("reasoning.effort", "this model always thinks")
            else:
                self.body["prompt_mode"] = "reasoning"
            if effort not in (None, "none", "high"):
                self.warnings.unsupported("reasoning.effort", "this model does not support efforts")
            return
        if not rules.efforts:
            if effort != "none":
                self.warnings.unsupported("reasoning", "this model does not support reasoning on request")
            return
        wanted = nearest_effort(effort or "high", rules.efforts)
        if effort == "none" and wanted != effort:
            self.warnings.unsupported(
                "reasoning.effort", f"this model always thinks; the effort {wanted} was sent"
            )
        elif effort not in (None, wanted):
            self.warnings.note(f"reasoning effort {effort!r} was sent as {wanted!r}")
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


def _tool(tool: ToolSpec, *, inline: bool) -> dict[str, Any]:
    function = name_and_description(tool)
    schema = tool.input_schema or {"type": "object", "properties": {}}
    function["parameters"] = inlined(schema) if inline else schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}
