"""Writes a request as an HTTP request of ConverseStream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.dialects.bedrock_converse.content import ReasoningPlan, encode_reasoning
from llmstream.dialects.bedrock_converse.messages import Conversation
from llmstream.dialects.bedrock_converse.quirks import Traits, traits
from llmstream.dialects.bedrock_converse.wire import KEY
from llmstream.dialects.history_parts import MAX_MARKS, too_many_marks
from llmstream.dialects.requests import (
    Field,
    FieldTable,
    RequestWarnings,
    RequestWriter,
    merged,
    object_schema,
)
from llmstream.dialects.schemas import claude_strict_schema
from llmstream.errors import InvalidRequest
from llmstream.events import UnsupportedTool
from llmstream.model_rules.claude import CLAUDE, NO_BARE_JSON, sampling_refusal
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["CACHE_POINT", "FIELDS", "SYSTEM_TOOL", "encode_request", "model_of"]


# Tools and tool choice.

# Type of the `ProviderTool` after which the tools so far are cached.
CACHE_POINT: Final = "cachePoint"

# Type of the `ProviderTool` for tools that AWS runs; a name such as `nova_grounding` is equivalent.
SYSTEM_TOOL: Final = "systemTool"

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATED: Final = re.compile(r"_20\d{6}$")
_HISTORY: Final = "A tool of earlier turns. It cannot be called any more."


def encode_tools(
    request: Request, used: Iterable[str], can: Traits, *, thinks: bool, warnings: RequestWarnings
) -> dict[str, Any] | None:
    """Returns the field `toolConfig`; None if neither the request nor the conversation has tools.

    used:   names of the tools called in the conversation
    thinks: the model reasons, which excludes forced tools
    raises: InvalidRequest for invalid tool names
    """
    history = list(used)
    tools = [*_encoded(request, can, warnings)]
    offered = {tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool}
    if request.tool_choice == "none" and tools:
        if not history:
            return None
        words = "the API cannot forbid calls and wants the tools of earlier turns; the others were left out"
        warnings.note(f"tool_choice none: {words}")
        tools = [tool for tool in tools if tool.get("toolSpec", {}).get("name") in history]
    missing = [name for name in history if name not in offered]
    if not tools and missing:
        warnings.note("tools of earlier turns were declared again: the API requires them")
        tools = [_spec(ToolSpec(name, _HISTORY), strict=False) for name in missing]
    if not tools:
        return None
    config: dict[str, Any] = {"tools": tools}
    choice = _choice(request, can, thinks=thinks, warnings=warnings)
    if choice is not None:
        config["toolChoice"] = choice
    return config


def model_tools(request: Request, warnings: RequestWarnings) -> list[dict[str, Any]]:
    """Returns tools that Anthropic defines (computer, bash, editor), which Converse passes to the model."""
    tools = [t for t in request.tools if isinstance(t, ProviderTool) and _DATED.search(t.type)]
    out = []
    for tool in tools:
        if "claude" not in request.model.lower():
            warnings.append(UnsupportedTool(tool.type, "only Claude supports it"))
            continue
        out.append({"type": tool.type, "name": tool.name or _DATED.sub("", tool.type), **tool.options})
    return out


def _encoded(request: Request, can: Traits, warnings: RequestWarnings) -> Iterable[dict[str, Any]]:
    for tool in request.tools:
        if isinstance(tool, ToolSpec):
            strict = tool.strict is True and can.strict_tools
            if tool.strict is True and not strict:
                warnings.note(
                    f"the tool {tool.name!r} was sent without strict: this model does not support it"
                )
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
    schema = object_schema(tool.input_schema)
    spec: dict[str, Any] = {"name": tool.name}
    if tool.description.strip():
        spec["description"] = tool.description
    spec["inputSchema"] = {"json": claude_strict_schema(schema) if strict else schema}
    if strict:
        spec["strict"] = True
    return {"toolSpec": spec}


def _choice(
    request: Request, can: Traits, *, thinks: bool, warnings: RequestWarnings
) -> dict[str, Any] | None:
    choice = request.tool_choice
    if choice is None or choice == "none":
        return None
    forced = choice != "auto"
    if forced and can.tool_choice == "auto":
        warnings.note("tool_choice became auto: this model does not support forced tools")
        return {"auto": {}}
    if forced and thinks:
        warnings.note("tool_choice became auto: the API does not support forced tools with reasoning")
        return {"auto": {}}
    if can.tool_choice == "none":
        if forced:
            warnings.note("tool_choice was left out: this model does not support it")
        return None
    if isinstance(choice, NamedTool) and can.tool_choice == "named":
        return {"tool": {"name": choice.name}}
    if isinstance(choice, NamedTool):
        warnings.note("tool_choice became required: this model does not support a named tool")
    return {"any": {}} if forced else {"auto": {}}


FIELDS: Final = FieldTable(
    Field("temperature", "temperature", low=0.0, high=1.0),
    Field("top_p", "topP"),
    Field("stop", "stopSequences"),
    # Not a field of Converse: it is passed to the model in a field that depends on the model.
    Field("top_k", "topK"),
    Field("max_output_tokens", "maxTokens"),
)
_PATH: Final = re.compile(r"/model/([^/]+)/converse-stream/?$")
_ADDITIONAL: Final = "additionalModelRequestFields"


def path_for(model: str) -> str:
    """Returns the path of a request to a model, percent-encoded; it must not be encoded again.

    raises: InvalidRequest for invalid names
    """
    if model in ("", ".", ".."):
        raise InvalidRequest(f"{model!r} is not a model. Give the id or ARN of a model or inference profile.")
    try:
        return f"/model/{quote(model, safe='-_.~')}/converse-stream"
    except UnicodeEncodeError:
        raise InvalidRequest(f"{model!r} is not a model: it is not valid Unicode") from None


def model_of(url: str) -> str | None:
    """Returns the model in a URL; None for another path."""
    match = _PATH.search(url.partition("?")[0].partition("#")[0])
    return None if match is None else unquote(match[1])


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request, with warnings about what was left out or changed.

    `provider_options["bedrock"]` is merged into the body last, objects field by field.

    raises: InvalidRequest, Unsupported
    """
    writer = RequestWriter(request, provider=provider, key=KEY)
    body = merged(_body(writer, traits(request.model)), writer.options)
    return writer.encoded(path_for(request.model), body, {"accept": "application/vnd.amazon.eventstream"})


def _body(writer: RequestWriter, can: Traits) -> dict[str, Any]:
    request, warnings = writer.request, writer.warnings
    wanted = request.response_format
    cites = wanted is None or wanted.schema is None or not can.schemas
    conversation = Conversation(can=can, provider=writer.provider, warnings=warnings, citations=cites)
    conversation.read(request.messages)
    output = _output(request, can, warnings)
    if conversation.cited:
        warnings.note("citations were switched off: the API does not cite in structured output")
    plan = encode_reasoning(request, can, warnings)
    thinks = _thinks(merged({_ADDITIONAL: plan.fields}, writer.options)[_ADDITIONAL])
    inference, extra = _inference(writer, plan, can, thinks=thinks)
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


def _keep_last_cache_points(body: dict[str, Any], warnings: RequestWarnings) -> None:
    """Removes all but the last four cache points, which cover the longest prompts."""
    lists = [body["toolConfig"]["tools"]] if "toolConfig" in body else []
    lists += [body["system"]] if "system" in body else []
    # Turns that are as in the last request have none.
    lists += [turn["content"] for turn in body["messages"] if isinstance(turn, dict)]
    count = sum("cachePoint" in block for blocks in lists for block in blocks)
    surplus = max(0, count - MAX_MARKS)
    if surplus:
        warnings.append(too_many_marks(count))
    for blocks in lists:
        for block in [block for block in blocks if "cachePoint" in block][:surplus]:
            blocks.remove(block)
            surplus -= 1


def _thinks(fields: Any) -> bool:
    """Whether the fields passed to the model enable reasoning."""
    if not isinstance(fields, dict):
        return False
    settings = [fields.get(name) for name in ("thinking", "reasoning_config", "reasoningConfig")]
    return any(isinstance(s, dict) and s.get("type") in ("enabled", "adaptive") for s in settings)


def _inference(
    writer: RequestWriter, plan: ReasoningPlan, can: Traits, *, thinks: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the field `inferenceConfig`, and sampling settings that are passed to the model."""
    request, warnings = writer.request, writer.warnings
    claude = CLAUDE.find(request.model)

    def refusal(name: str, settings: Mapping[str, Any]) -> str | None:
        if name == "top_k" and not can.top_k:
            return "this model does not support the setting here"
        if plan.alone and name != "stop":
            return "not together with high reasoning effort"
        return sampling_refusal(name, settings, claude, thinks=thinks) if can.reasoning == "claude" else None

    inference = writer.settings(FIELDS, refusal=refusal)
    if request.settings.parallel_tool_calls is not None:
        warnings.unsupported("parallel_tool_calls")
    # The reasoning plan has it, with room for the reasoning.
    inference.pop("maxTokens", None)
    if plan.max_tokens is not None and not plan.alone:
        inference = {"maxTokens": plan.max_tokens, **inference}
    top_k = inference.pop("topK", None)
    extra: Any = top_k
    for name in reversed(can.top_k):
        extra = {name: extra}
    return inference, {} if top_k is None else extra


def _output(request: Request, can: Traits, warnings: RequestWarnings) -> dict[str, Any]:
    """Returns the field `outputConfig`, in which the schema is a string."""
    wanted = request.response_format
    if wanted is None:
        return {}
    if wanted.schema is None or not can.schemas:
        no_schema = "this model does not support a schema; describe the format in the prompt"
        warnings.unsupported("output", NO_BARE_JSON if can.schemas else no_schema)
        return {}
    inner = {"schema": msgspec.json.encode(claude_strict_schema(wanted.schema)).decode(), "name": wanted.name}
    inner["description"] = wanted.description or ""
    structure = {"jsonSchema": {name: text for name, text in inner.items() if text}}
    return {"textFormat": {"type": "json_schema", "structure": structure}}
