"""Our request as an HTTP request of the Gemini API."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.gemini.conversation import Conversation
from llmstream.dialects.gemini.openapi_schema import openapi_schema
from llmstream.dialects.gemini.part_decoder import KEY
from llmstream.dialects.gemini.paths import path_for
from llmstream.dialects.gemini.tools import encode_tools
from llmstream.dialects.google_settings import drop_ignored, thinking_budget, thinking_level
from llmstream.dialects.json_wishes import described_schema
from llmstream.dialects.options import merged, options_of
from llmstream.dialects.request_warnings import RequestWarnings
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gemini import GEMINI, GeminiRules
from llmstream.request import ReasoningOptions, Request, ResponseFormat, Settings

__all__ = ["encode_request"]

_MAX_STOPS: Final = 5
_PENALTIES: Final = {"presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"}
_CACHED_FIELDS: Final = ("systemInstruction", "tools", "toolConfig")


def encode_request(request: Request, *, provider: str, vertex: bool, openapi: bool) -> Encoded:
    """The HTTP request and what could not be said in it.

    `provider_options["google"]` is merged into the body last, objects field by field.

    vertex:  calls and their results carry no ids
    openapi: schemas go to the fields that take the OpenAPI subset
    raises:  InvalidRequest, Unsupported
    """
    warnings: list[Warning] = RequestWarnings()
    options = options_of(request, KEY, provider)
    body = _body(request, provider, vertex=vertex, openapi=openapi, warnings=warnings)
    if options.get("cachedContent"):
        _leave_to_cache(body, warnings)
    body = merged(body, options)
    try:
        data = msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"the request cannot be written as JSON: {error}", provider=provider) from None
    headers = {"content-type": "application/json"}
    headers.update({name.lower(): value for name, value in request.headers.items()})
    return Encoded(HttpRequest(path_for(request.model), data, headers), warnings)


def _body(
    request: Request, provider: str, *, vertex: bool, openapi: bool, warnings: list[Warning]
) -> dict[str, Any]:
    rules = GEMINI.find(request.model)
    conversation = Conversation(provider=provider, vertex=vertex, rules=rules, warnings=warnings)
    conversation.read(request.messages)
    body: dict[str, Any] = {}
    if conversation.system:
        body["systemInstruction"] = {"parts": conversation.system}
    body["contents"] = conversation.contents
    tools = encode_tools(request, rules, openapi=openapi, vertex=vertex, warnings=warnings)
    if tools.tools:
        body["tools"] = tools.tools
    if tools.config:
        body["toolConfig"] = tools.config
    config = _sampling(request.settings, rules, warnings)
    if request.response_format is not None and tools.tools and rules.mixes_tools is False:
        words = "this model takes tools or a response format, not both"
        warnings.append(UnsupportedSetting("response_format", words))
    elif request.response_format is not None:
        config.update(_format(request.response_format, openapi))
    thinking = _thinking(request.reasoning, rules, warnings)
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        body["generationConfig"] = config
    return body


def _sampling(settings: Settings, rules: GeminiRules, warnings: list[Warning]) -> dict[str, Any]:
    temperature = settings.temperature
    if temperature is not None and not 0 <= temperature <= 2:
        fitting = min(2.0, max(0.0, temperature))
        warnings.append(OtherWarning(f"temperature {temperature:g} became {fitting:g}: the API takes 0 to 2"))
        temperature = fitting
    sampling = {"temperature": temperature, "top_p": settings.top_p, "top_k": settings.top_k}
    drop_ignored(sampling, rules, warnings)
    stops = list(settings.stop)
    if len(stops) > _MAX_STOPS:
        words = f"only the first {_MAX_STOPS} of {len(stops)} stop sequences were sent: the API takes no more"
        warnings.append(OtherWarning(words))
    penalties = {}
    for name, field in _PENALTIES.items():
        if rules.penalties:
            penalties[field] = getattr(settings, name)
        elif getattr(settings, name) is not None:
            warnings.append(UnsupportedSetting(name, "this model does not take it"))
    fields = {
        "maxOutputTokens": settings.max_output_tokens,
        "temperature": sampling["temperature"],
        "topP": sampling["top_p"],
        "topK": sampling["top_k"],
        "stopSequences": stops[:_MAX_STOPS] or None,
        "seed": settings.seed,
        **penalties,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _format(wanted: ResponseFormat, openapi: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"responseMimeType": "application/json"}
    if wanted.schema is not None and openapi:
        converted = openapi_schema(described_schema(wanted))
        if converted is not None:
            out["responseSchema"] = converted
    elif wanted.schema is not None:
        out["responseJsonSchema"] = described_schema(wanted)
    return out


def _thinking(
    reasoning: ReasoningOptions | None, rules: GeminiRules, warnings: list[Warning]
) -> dict[str, Any]:
    """`thinkingConfig`: a budget for Gemini 2.5, a level for Gemini 3; both at once are refused."""
    if reasoning is None or (reasoning.effort is None and reasoning.budget_tokens is None):
        return {}
    if rules.thinking == "none":
        if reasoning.effort != "none":
            warnings.append(UnsupportedSetting("reasoning", "this model does not reason"))
        return {}
    shown = {} if reasoning.effort == "none" else {"includeThoughts": True}
    if rules.thinking == "level" and reasoning.effort is not None:
        if reasoning.budget_tokens is not None:
            words = "this model takes an effort or a budget; the effort was sent"
            warnings.append(UnsupportedSetting("reasoning.budget_tokens", words))
        return {**shown, "thinkingLevel": thinking_level(reasoning, rules, warnings)}
    return {**shown, "thinkingBudget": thinking_budget(reasoning, rules, warnings)}


def _leave_to_cache(body: dict[str, Any], warnings: list[Warning]) -> None:
    """A request on cached content says nothing of what the cache holds."""
    gone = [name for name in _CACHED_FIELDS if body.pop(name, None) is not None]
    if gone:
        words = f"{', '.join(gone)} was left out: with cachedContent they stand in the cache"
        warnings.append(OtherWarning(words))
