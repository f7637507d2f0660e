"""Encodes a request for the Responses API: everything but the messages, which `messages.py` encodes."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.base import Encoded
from llmstream.dialects.openai_responses.content import plain_items
from llmstream.dialects.openai_responses.messages import InputWriter
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.wire import KEY
from llmstream.dialects.requests import (
    ANSWER_IN_JSON,
    Field,
    FieldTable,
    RequestWriter,
    name_and_description,
)
from llmstream.dialects.schemas import openai_strict_schema
from llmstream.errors import InvalidRequest
from llmstream.model_rules import nearest_effort
from llmstream.model_rules.gpt import GPT
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["CONTINUING", "MERGED", "NAMED_TOOLS", "encode_request", "system_role"]

# Fields with which the vendor adds its own input.
CONTINUING: Final = ("previous_response_id", "conversation", "prompt")

# Objects that our own settings fill as well: provider options replace single keys of them.
MERGED: Final = ("text", "reasoning")

# Quirks name those that a server refuses: OpenAI itself has the first two and the length only.
FIELDS: Final = FieldTable(
    Field("temperature", "temperature"),
    Field("top_p", "top_p"),
    Field("top_k", "top_k"),
    Field("max_output_tokens", "max_output_tokens"),
    Field("stop", "stop"),
    Field("seed", "seed"),
    Field("presence_penalty", "presence_penalty"),
    Field("frequency_penalty", "frequency_penalty"),
)

# Types of tools whose name the caller chooses.
NAMED_TOOLS: Final = frozenset({"custom", "function", "namespace"})


def system_role(model: str, quirks: Quirks) -> str:
    """Returns a model's name of the system role."""
    if quirks.input.system_role != "auto":
        return quirks.input.system_role
    return "developer" if GPT.find(model).reasons else "system"


def encode_request(request: Request, quirks: Quirks, *, provider: str) -> Encoded:
    """Encodes the HTTP request, relative to the provider's base URL.

    Fields in `provider_options`, under "openai" or the provider's name, are merged last: those of
    `text` and `reasoning` key by key; any other replaces the field, and None removes it.

    raises: InvalidRequest, Unsupported
    """
    writer = RequestWriter(request, provider=provider, key=KEY)
    return _Body(writer, quirks.for_model(request.model)).encode()


class _Body:
    """Fills the body of one request."""

    def __init__(self, writer: RequestWriter, quirks: Quirks) -> None:
        self.writer = writer
        self.request = writer.request
        self.quirks = quirks
        self.provider = writer.provider
        self.options = {**quirks.extra_body, **writer.options}
        self.store = self.options.get("store", quirks.store)
        self.warnings = writer.warnings
        self.body: dict[str, Any] = {"model": self.request.model}

    def encode(self) -> Encoded:
        quirks = self.quirks
        self.input()
        self.settings()
        self.tools()
        self.reasoning()
        self.response_format()
        self.body["stream"] = True
        self.merge()
        return self.writer.encoded(quirks.path, self.body, {"accept": "text/event-stream", **quirks.headers})

    def input(self) -> None:
        messages = self.request.messages
        continued = any(self.options.get(name) is not None for name in CONTINUING)
        writer = InputWriter(
            self.quirks,
            provider=self.provider,
            role=system_role(self.request.model, self.quirks),
            warnings=self.warnings,
            stored=self.store is not False,
            continued=continued,
        )
        items = writer.write(tuple(messages) if self.reads_items() else messages)
        # An empty input is rejected, except beside a stored conversation that it continues.
        if not items and not continued:
            raise InvalidRequest("the conversation is empty: the API needs at least one message with content")
        if writer.instructions is not None:
            self.body["instructions"] = writer.instructions
        if self.quirks.input.plain_items:
            items = plain_items(items, provider=self.provider, warn=self.warnings.note_once)
        self.body["input"] = items

    def reads_items(self) -> bool:
        """Whether the items are looked through afterwards: none may be JSON from the last request."""
        wanted = self.request.response_format
        return self.quirks.input.plain_items or (wanted is not None and wanted.schema is None)

    def settings(self) -> None:
        sampling = GPT.find(self.request.model).sampling
        effort = self.request.reasoning.effort if self.request.reasoning else None
        samples = sampling == "always" or (sampling == "at-none" and effort == "none")
        reasons: dict[str, str] = {}
        if self.quirks.reasoning_model_rules and not samples:
            reasons = dict.fromkeys(("temperature", "top_p"), "reasoning models do not take it")
        # source: API reference, "Create a model response": no stop, seed or penalties
        reasons |= dict.fromkeys(self.quirks.unsupported_settings, "the Responses API has no such field")
        self.body |= self.writer.settings(FIELDS, reasons)
        if self.quirks.store is not None:
            self.body["store"] = self.quirks.store
        if self.store is False and self.asks_encrypted():
            # A server that stores nothing needs the reasoning back, and sends it encrypted only on request.
            self.body["include"] = ["reasoning.encrypted_content"]

    def asks_encrypted(self) -> bool:
        if self.quirks.thinking.encrypted != "auto":
            return self.quirks.thinking.encrypted == "always"
        reasoning = self.request.reasoning
        asked = reasoning is not None and reasoning.effort != "none"
        return asked or GPT.find(self.request.model).reasons

    def tools(self) -> None:
        """Adds tools and tool choice; never an empty list, which servers refuse."""
        tools: list[dict[str, Any]] = []
        for tool in self.request.tools:
            if isinstance(tool, ToolSpec):
                tools.append(self.function(tool))
            elif self.quirks.tools.provider_tools:
                named = {"name": tool.name} if tool.name and tool.type in NAMED_TOOLS else {}
                tools.append({"type": tool.type, **named, **tool.options})
            else:
                self.warnings.unsupported_tool(tool, f"{self.provider} does not take it")
        choice = self.request.tool_choice
        if not tools or (choice == "none" and "none" not in self.quirks.tools.choice):
            return
        self.body["tools"] = tools
        self.tool_choice(choice)
        if self.request.settings.parallel_tool_calls is not None:
            self.body["parallel_tool_calls"] = self.request.settings.parallel_tool_calls

    def tool_choice(self, choice: NamedTool | str | None) -> None:
        kind = "named" if isinstance(choice, NamedTool) else choice
        if choice is not None and kind not in self.quirks.tools.choice:
            self.warnings.unsupported("tool_choice", f"{self.provider} cannot force a tool")
        elif isinstance(choice, NamedTool):
            self.body["tool_choice"] = self.named(choice.name)
        elif choice is not None:
            self.body["tool_choice"] = choice

    def function(self, tool: ToolSpec) -> dict[str, Any]:
        out = {"type": "function", **name_and_description(tool)}
        schema = tool.input_schema or {"type": "object", "properties": {}}
        strict = tool.strict if self.quirks.tools.strict else None
        if strict:
            fitting = openai_strict_schema(schema)
            if fitting is None:
                self.warnings.note(f"the tool {tool.name!r} is not strict: its schema has open objects")
                strict = False
            # Strict schemas require all properties and forbid others; open objects cannot be written so.
            schema = fitting or schema
        elif tool.strict and strict is None:
            self.warnings.note(f"{self.provider} has no strict tools; {tool.name!r} was sent without")
        out["parameters"] = schema
        if strict is not None:
            out["strict"] = strict
        return out

    def named(self, name: str) -> dict[str, Any]:
        """Returns the choice of one tool: a function, a custom tool, or one of the vendor's by its type."""
        for tool in self.request.tools:
            if isinstance(tool, ProviderTool) and tool.type in NAMED_TOOLS and tool.name == name:
                return {"type": tool.type, "name": name}
            if isinstance(tool, ProviderTool) and name in (tool.name, tool.type):
                return {"type": tool.type}
        return {"type": "function", "name": name}

    def reasoning(self) -> None:
        reasoning = self.request.reasoning
        if reasoning is None:
            return
        effort = None if reasoning.effort is None else self.effort(reasoning.effort)
        if effort is not None:
            self.body["reasoning"] = {"effort": effort, **self.summary(effort)}
        if reasoning.budget_tokens is not None:
            self.warnings.unsupported("reasoning.budget_tokens", "give an effort instead")

    def effort(self, wanted: str) -> str | None:
        """Returns the vendor's name of an effort; None if the model takes none."""
        known = GPT.find(self.request.model).efforts if self.quirks.reasoning_model_rules else None
        if known == () or not self.quirks.thinking.supported:
            if wanted != "none":
                self.warnings.unsupported("reasoning.effort", "this model takes none")
            return None
        if known:
            sent = nearest_effort(wanted, known)
        elif self.quirks.reasoning_model_rules and wanted == "max":
            # The name may be that of a deployment of any model, and more models know xhigh than max.
            sent = "xhigh"
        else:
            sent = self.quirks.thinking.effort_word(wanted)
        if sent != wanted:
            self.warnings.note_once(f"reasoning effort {wanted!r} was sent as {sent!r}")
        return sent

    def summary(self, effort: str) -> dict[str, str]:
        """Requests the text of the reasoning, which OpenAI sends only on request."""
        rules = GPT.find(self.request.model)
        asks = self.quirks.reasoning_model_rules and rules.reasons and rules.summaries
        return {"summary": "auto"} if asks and effort != "none" else {}

    def response_format(self) -> None:
        wanted = self.request.response_format
        if wanted is None:
            return
        if wanted.schema is None:
            if self.quirks.output.json_object:
                self.output_format({"type": "json_object"})
            self.require_json()
            return
        strict, schema = wanted.strict, wanted.schema
        if strict:
            fitting = openai_strict_schema(schema)
            if fitting is None:
                self.warnings.note("the output schema is not strict: it has open objects")
            strict, schema = fitting is not None, fitting or schema
        described = {"description": wanted.description} if wanted.description else {}
        form = {"type": "json_schema", "name": wanted.name, **described, "schema": schema, "strict": strict}
        self.output_format(form)

    def output_format(self, form: dict[str, Any]) -> None:
        if not self.quirks.output.chat_response_format:
            self.body["text"] = {"format": form}
            return
        schema = {name: value for name, value in form.items() if name != "type"}
        named = {"json_schema": schema} if schema else {}
        self.body["response_format"] = {"type": form["type"], **named}

    def require_json(self) -> None:
        # The API accepts json_object only if the input, not the instructions, contains the word.
        if not mentions_json(self.body["input"]):
            kind = {"type": "message"} if self.quirks.input.plain_items else {}
            instruction = {"type": "input_text", "text": ANSWER_IN_JSON}
            role = system_role(self.request.model, self.quirks)
            self.body["input"] = [{**kind, "role": role, "content": [instruction]}, *self.body["input"]]
            self.warnings.note("a message that asks for JSON was added: the API requires it")

    def merge(self) -> None:
        body = self.body
        for name, value in self.options.items():
            if name in MERGED and isinstance(value, dict) and isinstance(body.get(name), dict):
                both = {**body[name], **value}
                body[name] = {k: v for k, v in both.items() if v is not None}
            elif value is None:
                body.pop(name, None)
            else:
                body[name] = value


def mentions_json(items: object) -> bool:
    """Whether any text of the input contains "json"."""
    if isinstance(items, str):
        return "json" in items.lower()
    if isinstance(items, list):
        return any(mentions_json(item) for item in items)
    if isinstance(items, dict):
        return any(mentions_json(items.get(name)) for name in ("content", "text", "output"))
    return False
