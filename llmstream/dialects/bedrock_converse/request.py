"""Our request as an HTTP request of ConverseStream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.bedrock_converse.content import ReasoningPlan, encode_reasoning
from llmstream.dialects.bedrock_converse.messages import Conversation
from llmstream.dialects.bedrock_converse.quirks import Traits, traits
from llmstream.dialects.bedrock_converse.wire import KEY
from llmstream.dialects.history_parts import MOST_MARKS, too_many_marks
from llmstream.dialects.requests import RequestWarnings, merged, options_of
from llmstream.dialects.schemas import claude_strict_schema
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.model_rules.claude import CLAUDE, sampling_refusal
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["CACHE_POINT", "SYSTEM_TOOL", "encode_request", "model_of"]


# Tools and the choice among them, on the way to the vendor.

CACHE_POINT: Final = "cachePoint"
"""Type of the `ProviderTool` that marks how much of the tools is cached."""

SYSTEM_TOOL: Final = "systemTool"
"""Type of the `ProviderTool` for tools that AWS runs; a bare name such as `nova_grounding` says the same."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATED: Final = re.compile(r"_20\d{6}$")
_HISTORY: Final = "A tool of earlier turns. It cannot be called any more."


def encode_tools(
    request: Request, used: Iterable[str], can: Traits, *, thinks: bool, warnings: list[Warning]
) -> dict[str, Any] | None:
    """The field `toolConfig`; None where the request neither offers tools nor remembers calls.

    used:   names of the tools that the conversation has called
    thinks: the model reasons, and may then not be forced to call
    raises: InvalidRequest for names that the API does not take
    """
    history = list(used)
    tools = [*_encoded(request, can, warnings)]
    offered = {tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool}
    if request.tool_choice == "none" and tools:
        if not history:
            return None
        words = "the API cannot forbid calls and wants the tools of earlier turns; the others were left out"
        warnings.append(OtherWarning(f"tool_choice none: {words}"))
        tools = [tool for tool in tools if tool.get("toolSpec", {}).get("name") in history]
    missing = [name for name in history if name not in offered]
    if not tools and missing:
        warnings.append(OtherWarning("tools of earlier turns were declared again: the API wants them"))
        tools = [_spec(ToolSpec(name, _HISTORY), strict=False) for name in missing]
    if not tools:
        return None
    config: dict[str, Any] = {"tools": tools}
    choice = _choice(request, can, thinks=thinks, warnings=warnings)
    if choice is not None:
        config["toolChoice"] = choice
    return config


def model_tools(request: Request, warnings: list[Warning]) -> list[dict[str, Any]]:
    """Tools that Anthropic defines (computer, bash, editor): they pass by Converse to the model."""
    tools = [t for t in request.tools if isinstance(t, ProviderTool) and _DATED.search(t.type)]
    out = []
    for tool in tools:
        if "claude" not in request.model.lower():
            warnings.append(UnsupportedTool(tool.type, "only Claude knows it"))
            continue
        out.append({"type": tool.type, "name": tool.name or _DATED.sub("", tool.type), **tool.options})
    return out


def _encoded(request: Request, can: Traits, warnings: list[Warning]) -> Iterable[dict[str, Any]]:
    for tool in request.tools:
        if isinstance(tool, ToolSpec):
            strict = tool.strict is True and can.strict_tools
            if tool.strict is True and not strict:
                warnings.append(OtherWarning(f"the tool {tool.name!r} is not strict: this model cannot"))
            yield _spec(tool, strict=strict)
        elif tool.type == CACHE_POINT:
            yield {"cachePoint": {"type": "default", **tool.options}}
        elif tool.type == SYSTEM_TOOL or tool.type.startswith("nova_"):
            name = tool.name or tool.type
            yield {"systemTool": {"name": name, **tool.options}}
        elif not _DATED.search(tool.type):
            warnings.append(UnsupportedTool(tool.type, "Converse has no such tool"))


def _spec(tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
    if not _NAME.fullmatch(tool.name):
        raise InvalidRequest(
            f"the tool name {tool.name!r} does not fit: Bedrock takes 1 to 64 letters, digits, _ and -."
        )
    schema = tool.input_schema or {"type": "object", "properties": {}}
    if "type" not in schema:
        schema = {"type": "object", **schema}
    spec: dict[str, Any] = {"name": tool.name}
    if tool.description.strip():
        spec["description"] = tool.description
    spec["inputSchema"] = {"json": claude_strict_schema(schema) if strict else schema}
    if strict:
        spec["strict"] = True
    return {"toolSpec": spec}


def _choice(request: Request, can: Traits, *, thinks: bool, warnings: list[Warning]) -> dict[str, Any] | None:
    choice = request.tool_choice
    if choice is None or choice == "none":
        return None
    forced = choice != "auto"
    if forced and can.tool_choice == "auto":
        warnings.append(OtherWarning("tool_choice became auto: this model takes no forced tool"))
        return {"auto": {}}
    if forced and thinks:
        warnings.append(OtherWarning("tool_choice became auto: with reasoning on, the API forces no tool"))
        return {"auto": {}}
    if can.tool_choice == "none":
        if forced:
            warnings.append(OtherWarning("tool_choice was left out: this model takes none"))
        return None
    if isinstance(choice, NamedTool) and can.tool_choice == "named":
        return {"tool": {"name": choice.name}}
    if isinstance(choice, NamedTool):
        warnings.append(OtherWarning("tool_choice became required: this model cannot be told which tool"))
    return {"any": {}} if forced else {"auto": {}}


_PATH: Final = re.compile(r"/model/([^/]+)/converse-stream/?$")
_ADDITIONAL: Final = "additionalModelRequestFields"


def path_for(model: str) -> str:
    """The path of a request to a model, to be sent as it is: what is quoted here stays quoted.

    raises: InvalidRequest for names that cannot stand in a path
    """
    if model in ("", ".", ".."):
        raise InvalidRequest(f"{model!r} names no model. Give the id or ARN of a model or inference profile.")
    try:
        return f"/model/{quote(model, safe='-_.~')}/converse-stream"
    except UnicodeEncodeError:
        raise InvalidRequest(f"{model!r} names no model: it is no Unicode text") from None


def model_of(url: str) -> str | None:
    """The model that a URL names; None where the path is another."""
    match = _PATH.search(url.partition("?")[0].partition("#")[0])
    return None if match is None else unquote(match[1])


def encode_request(request: Request, *, provider: str) -> Encoded:
    """The HTTP request and what could not be said in it.

    `provider_options["bedrock"]` is merged into the body last, objects field by field.

    raises: InvalidRequest, Unsupported
    """
    warnings: list[Warning] = RequestWarnings()
    can = traits(request.model)
    options = options_of(request, KEY, provider)
    body = merged(_body(request, options, can, provider, warnings), options)
    try:
        data = msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"the request cannot be written as JSON: {error}", provider=provider) from None
    headers = {"content-type": "application/json", "accept": "application/vnd.amazon.eventstream"}
    headers.update({name.lower(): value for name, value in request.headers.items()})
    return Encoded(HttpRequest(path_for(request.model), data, headers), warnings)


def _body(
    request: Request, options: dict[str, Any], can: Traits, provider: str, warnings: list[Warning]
) -> dict[str, Any]:
    conversation = Conversation(can=can, provider=provider, warnings=warnings)
    conversation.read(request.messages)
    output = _output(request, can, warnings)
    if output and _drop_citations(conversation.messages):
        warnings.append(
            OtherWarning("citations were switched off: the API does not cite in structured output")
        )
    plan = encode_reasoning(request, can, warnings)
    thinks = _thinks(merged({_ADDITIONAL: plan.fields}, options)[_ADDITIONAL])
    inference, extra = _inference(request, plan, can, thinks=thinks, warnings=warnings)
    more = merged(plan.fields, extra)
    tools = model_tools(request, warnings)
    if tools:
        more["tools"] = tools
    body: dict[str, Any] = {"messages": conversation.messages}
    fields = {
        "system": conversation.system,
        "inferenceConfig": inference,
        "toolConfig": encode_tools(request, conversation.tool_names, can, thinks=thinks, warnings=warnings),
        "outputConfig": output if plan.effort is None else {**output, "effort": plan.effort},
        _ADDITIONAL: more,
    }
    body |= {name: value for name, value in fields.items() if value}
    _keep_last_cache_points(body, warnings)
    return body


def _keep_last_cache_points(body: dict[str, Any], warnings: list[Warning]) -> None:
    """Takes out all but the last four, which hold the longest prompts."""
    lists = [body["toolConfig"]["tools"]] if "toolConfig" in body else []
    lists += [body["system"]] if "system" in body else []
    lists += [turn["content"] for turn in body["messages"]]
    count = sum("cachePoint" in block for blocks in lists for block in blocks)
    surplus = max(0, count - MOST_MARKS)
    if surplus:
        warnings.append(too_many_marks(count))
    for blocks in lists:
        for block in [block for block in blocks if "cachePoint" in block][:surplus]:
            blocks.remove(block)
            surplus -= 1


def _thinks(fields: Any) -> bool:
    """Whether the model reasons, by what passes to it."""
    if not isinstance(fields, dict):
        return False
    said = [fields.get(name) for name in ("thinking", "reasoning_config", "reasoningConfig")]
    return any(isinstance(s, dict) and s.get("type") in ("enabled", "adaptive") for s in said)


def _inference(
    request: Request, plan: ReasoningPlan, can: Traits, *, thinks: bool, warnings: list[Warning]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The field `inferenceConfig`, and what of sampling passes to the model beside it."""
    settings = request.settings
    for name in ("seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls"):
        if getattr(settings, name) is not None:
            warnings.append(UnsupportedSetting(name))
    claude = CLAUDE.find(request.model)
    temperature = settings.temperature
    if temperature is not None and not 0 <= temperature <= 1:
        temperature = min(1.0, max(0.0, temperature))
        words = f"temperature {settings.temperature:g} became {temperature:g}: the API takes 0 to 1"
        warnings.append(OtherWarning(words))
    wishes = {"temperature": temperature, "top_p": settings.top_p, "top_k": settings.top_k}
    for name, value in wishes.items():
        refusal = None
        if plan.alone:
            refusal = "not together with high reasoning effort"
        elif can.reasoning == "claude" and value is not None:
            refusal = sampling_refusal(name, wishes, claude, thinks=thinks)
        if name == "top_k" and not can.top_k:
            refusal = "this model takes no such setting here"
        if value is not None and refusal:
            warnings.append(UnsupportedSetting(name, refusal))
            wishes = {**wishes, name: None}
    if plan.alone and plan.max_tokens is not None:
        warnings.append(UnsupportedSetting("max_output_tokens", "not together with high reasoning effort"))
    fields = {
        "maxTokens": None if plan.alone else plan.max_tokens,
        "temperature": wishes["temperature"],
        "topP": wishes["top_p"],
        "stopSequences": list(settings.stop) or None,
    }
    extra: Any = wishes["top_k"]
    for name in reversed(can.top_k):
        extra = {name: extra}
    inference = {name: value for name, value in fields.items() if value is not None}
    return inference, {} if wishes["top_k"] is None else extra


def _output(request: Request, can: Traits, warnings: list[Warning]) -> dict[str, Any]:
    """The schema in the field `outputConfig`, where it stands as text."""
    wanted = request.response_format
    if wanted is None:
        return {}
    if wanted.schema is None or not can.schemas:
        lacking = "JSON without a schema cannot be asked for; give a schema, or say so in the prompt"
        words = lacking if can.schemas else "this model cannot be held to a schema; say so in the prompt"
        warnings.append(UnsupportedSetting("output", words))
        return {}
    inner = {"schema": msgspec.json.encode(claude_strict_schema(wanted.schema)).decode(), "name": wanted.name}
    inner["description"] = wanted.description or ""
    structure = {"jsonSchema": {name: text for name, text in inner.items() if text}}
    return {"textFormat": {"type": "json_schema", "structure": structure}}


def _drop_citations(turns: list[dict[str, Any]]) -> bool:
    """Takes `citations` off the documents; whether one had them."""
    found = False
    for block in (block for turn in turns for block in turn["content"] if "document" in block):
        found = block["document"].pop("citations", None) is not None or found
    return found
