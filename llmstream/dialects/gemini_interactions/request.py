"""Our request as an HTTP request of the Interactions API."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.gemini_interactions.messages import Conversation
from llmstream.dialects.gemini_interactions.wire import KEY
from llmstream.dialects.google import drop_ignored, thinking_level
from llmstream.dialects.requests import RequestWarnings, described_schema, merged, options_of
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gemini import GEMINI, GeminiRules
from llmstream.request import NamedTool, ProviderTool, ReasoningOptions, Request, Settings, ToolSpec

__all__ = ["PATH", "encode_request"]

PATH: Final = "/interactions"

REVISION: Final = "2026-05-20"
"""Of the wire that is read here, with steps instead of contents. source: google-genai 3.4.0 sends it too."""


def encode_request(request: Request, *, provider: str) -> Encoded:
    """The HTTP request and what could not be said in it.

    The whole conversation is sent each time. To go on from a stored interaction, pass its id as
    `provider_options={"google": {"previous_interaction_id": ...}}` and the new turn alone; it is in
    the metadata of the last finish as `interaction_id`. An `agent` there takes the model's place. With
    a `continuation_token` beside the id no input is sent: Google goes on with the answer it has stored.

    raises: InvalidRequest, Unsupported
    """
    warnings: list[Warning] = RequestWarnings()
    options = options_of(request, KEY, provider)
    body = merged(_body(request, provider, warnings), options)
    stored = options.get("store") is not False
    if "agent" in options:
        body.pop("model", None)
    if options.get("continuation_token") and options.get("previous_interaction_id") and stored:
        body.pop("input")
    try:
        data = msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"the request cannot be written as JSON: {error}", provider=provider) from None
    headers = {"content-type": "application/json", "api-revision": REVISION}
    headers.update({name.lower(): value for name, value in request.headers.items()})
    return Encoded(HttpRequest(f"{PATH}?alt=sse", data, headers), warnings)


def _body(request: Request, provider: str, warnings: list[Warning]) -> dict[str, Any]:
    rules = GEMINI.find(request.model)
    conversation = Conversation(provider=provider, fetches_urls=rules.fetches_urls, warnings=warnings)
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
    config = {**_sampling(request.settings, rules, warnings), **_thinking(request.reasoning, rules, warnings)}
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
    out: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description:
        out["description"] = tool.description
    if tool.input_schema:
        schema = tool.input_schema
        out["parameters"] = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
    return out


def _tool_choice(request: Request, warnings: list[Warning]) -> Any:
    choice = request.tool_choice
    specs = [tool for tool in request.tools if isinstance(tool, ToolSpec)]
    if not specs:
        if choice == "required" or isinstance(choice, NamedTool):
            warnings.append(OtherWarning("tool_choice was left out: the request declares no functions"))
        return None
    if request.settings.parallel_tool_calls is False:
        warnings.append(OtherWarning("parallel_tool_calls was left out: the API cannot forbid several calls"))
    if isinstance(choice, NamedTool):
        return {"allowed_tools": {"mode": "any", "tools": [choice.name]}}
    if choice in (None, "auto") and any(spec.strict for spec in specs):
        return "validated"
    return "any" if choice == "required" else choice


def _sampling(settings: Settings, rules: GeminiRules, warnings: list[Warning]) -> dict[str, Any]:
    for name in ("presence_penalty", "frequency_penalty"):
        if getattr(settings, name) is not None:
            warnings.append(UnsupportedSetting(name))
    temperature = settings.temperature
    if temperature is not None and not 0 <= temperature <= 2:
        fitting = min(2.0, max(0.0, temperature))
        warnings.append(OtherWarning(f"temperature {temperature:g} became {fitting:g}: the API takes 0 to 2"))
        temperature = fitting
    sampling = {"temperature": temperature, "top_p": settings.top_p, "top_k": settings.top_k}
    drop_ignored(sampling, rules, warnings)
    fields = {
        **sampling,
        "seed": settings.seed,
        "stop_sequences": list(settings.stop) or None,
        "max_output_tokens": settings.max_output_tokens,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _thinking(
    reasoning: ReasoningOptions | None, rules: GeminiRules, warnings: list[Warning]
) -> dict[str, Any]:
    """This wire knows levels only, also for models that take a budget elsewhere."""
    if reasoning is None:
        return {}
    if rules.thinking == "none":
        if reasoning.effort != "none":
            warnings.append(UnsupportedSetting("reasoning", "this model does not reason"))
        return {}
    if reasoning.budget_tokens is not None:
        words = "this API takes an effort and no budget"
        warnings.append(UnsupportedSetting("reasoning.budget_tokens", words))
    level = thinking_level(reasoning, rules, warnings)
    shown = {} if reasoning.effort == "none" else {"thinking_summaries": "auto"}
    return {**({} if level is None else {"thinking_level": level}), **shown}
