"""Encodes a request for the Interactions API: everything but the messages."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.base import Encoded
from llmstream.dialects.gemini_interactions.messages import Conversation
from llmstream.dialects.gemini_interactions.wire import KEY
from llmstream.dialects.google import refused_settings, thinking_level
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
from llmstream.request import NamedTool, ProviderTool, ReasoningOptions, Request, ToolSpec

__all__ = ["FIELDS", "PATH", "encode_request"]

PATH: Final = "/interactions"

# The revision of the wire with steps instead of contents. source: google-genai 3.4.0, which sends the same
REVISION: Final = "2026-05-20"

FIELDS: Final = FieldTable(
    Field("temperature", "temperature", low=0.0, high=2.0),
    Field("top_p", "top_p"),
    Field("top_k", "top_k"),
    Field("seed", "seed"),
    Field("stop", "stop_sequences"),
    Field("max_output_tokens", "max_output_tokens"),
)


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request; warns about what could not be encoded.

    The complete conversation is sent each time. To continue a stored interaction, pass its id as
    `provider_options={"google": {"previous_interaction_id": ...}}` and the new turn alone; it is in
    the metadata of the last finish as `interaction_id`. An `agent` there replaces the model. With
    a `continuation_token` beside the id no input is sent: Google continues the response that it has stored.

    raises: InvalidRequest, Unsupported
    """
    writer = RequestWriter(request, provider=provider, key=KEY)
    options = writer.options
    body = merged(_body(writer), options)
    stored = options.get("store") is not False
    if "agent" in options:
        body.pop("model", None)
    if options.get("continuation_token") and options.get("previous_interaction_id") and stored:
        body.pop("input")
    return writer.encoded(f"{PATH}?alt=sse", body, {"api-revision": REVISION})


def _body(writer: RequestWriter) -> dict[str, Any]:
    request, warnings = writer.request, writer.warnings
    rules = GEMINI.find(request.model)
    conversation = Conversation(provider=writer.provider, fetches_urls=rules.fetches_urls, warnings=warnings)
    conversation.read(request.messages)
    body: dict[str, Any] = {"model": request.model.removeprefix("models/"), "input": conversation.steps}
    if conversation.system:
        body["system_instruction"] = "\n\n".join(conversation.system)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.response_format is not None:
        wanted: dict[str, Any] = {"type": "text", "mime_type": "application/json"}
        if request.response_format.schema is not None:
            wanted["schema"] = described_schema(request.response_format)
        body["response_format"] = wanted
    settings = writer.settings(FIELDS, refused_settings(rules))
    config = {**settings, **_thinking(request.reasoning, rules, warnings)}
    choice = _tool_choice(request, warnings)
    if choice is not None:
        config["tool_choice"] = choice
    if config:
        body["generation_config"] = config
    body["stream"] = True
    return body


def _tool(tool: ToolSpec | ProviderTool) -> dict[str, Any]:
    if isinstance(tool, ProviderTool):
        named = {"name": tool.name} if tool.name else {}
        return {"type": tool.type, **named, **tool.options}
    out = {"type": "function", **name_and_description(tool)}
    if tool.input_schema:
        schema = tool.input_schema
        out["parameters"] = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
    return out


def _tool_choice(request: Request, warnings: RequestWarnings) -> Any:
    choice = request.tool_choice
    specs = [tool for tool in request.tools if isinstance(tool, ToolSpec)]
    if not specs:
        if choice == "required" or isinstance(choice, NamedTool):
            warnings.note("tool_choice was left out: the request declares no functions")
        return None
    if request.settings.parallel_tool_calls is False:
        warnings.note("parallel_tool_calls was left out: the API cannot forbid several calls")
    if isinstance(choice, NamedTool):
        return {"allowed_tools": {"mode": "any", "tools": [choice.name]}}
    if choice in (None, "auto") and any(spec.strict for spec in specs):
        return "validated"
    return "any" if choice == "required" else choice


def _thinking(
    reasoning: ReasoningOptions | None, rules: GeminiRules, warnings: RequestWarnings
) -> dict[str, Any]:
    # This wire has levels only, also for models that take a budget in generateContent.
    if reasoning is None:
        return {}
    if rules.thinking == "none":
        if reasoning.effort != "none":
            warnings.unsupported("reasoning", "this model does not support reasoning")
        return {}
    if reasoning.budget_tokens is not None:
        warnings.unsupported("reasoning.budget_tokens", "this API takes an effort and no budget")
    level = thinking_level(reasoning, rules, warnings)
    shown = {} if reasoning.effort == "none" else {"thinking_summaries": "auto"}
    return {**({} if level is None else {"thinking_level": level}), **shown}
