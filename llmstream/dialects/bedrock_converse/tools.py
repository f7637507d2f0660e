"""Tools and the choice among them, on the way to the vendor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from llmstream.dialects.bedrock_converse.models import Traits
from llmstream.dialects.claude_schema import claude_strict_schema
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedTool, Warning
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["CACHE_POINT", "SYSTEM_TOOL", "encode_tools", "model_tools"]

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
