"""Tools and the choice among them, on the way to the vendor."""

from __future__ import annotations

import re
from typing import Any, Final

from llmstream.dialects.claude_schema import claude_strict_schema
from llmstream.events import OtherWarning, Warning
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["betas_of_tools", "encode_tool_choice", "encode_tools"]

_MAX_STRICT_TOOLS: Final = 20
_DATE: Final = re.compile(r"_20\d{6}$")
_FIXED_NAMES: Final = {
    "text_editor_20241022": "str_replace_editor",
    "text_editor_20250124": "str_replace_editor",
    "text_editor_20250429": "str_replace_based_edit_tool",
    "text_editor_20250728": "str_replace_based_edit_tool",
}
_BETAS: Final = {
    "code_execution_20250522": "code-execution-2025-05-22",
    "code_execution_20250825": "code-execution-2025-08-25",
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "text_editor_20241022": "computer-use-2024-10-22",
    "bash_20241022": "computer-use-2024-10-22",
    "web_fetch_20250910": "web-fetch-2025-09-10",
    "memory_20250818": "context-management-2025-06-27",
    "mcp_toolset": "mcp-client-2025-11-20",
    "advisor_20260301": "advisor-tool-2026-03-01",
}
"""Beta features that a tool of the vendor needs; those that are generally available need none."""


def encode_tools(
    request: Request, warnings: list[Warning], *, strict_known: bool = True
) -> list[dict[str, Any]]:
    """The field `tools`.

    strict_known: the model can be held to the schema of a tool
    """
    strict = 0
    out = []
    for tool in request.tools:
        if isinstance(tool, ProviderTool):
            out.append(_provider_tool(tool))
            continue
        wanted = tool.strict is True and strict_known
        if tool.strict and not wanted:
            words = f"the tool {tool.name!r} is not strict: the model cannot be held to its schema here"
            warnings.append(OtherWarning(words))
        strict += wanted
        if wanted and strict > _MAX_STRICT_TOOLS:
            words = f"the tool {tool.name!r} is not strict: the API takes {_MAX_STRICT_TOOLS} strict tools"
            warnings.append(OtherWarning(words))
        out.append(_tool(tool, strict=wanted and strict <= _MAX_STRICT_TOOLS))
    return out


def encode_tool_choice(
    request: Request, *, refusal: str | None, warnings: list[Warning]
) -> dict[str, Any] | None:
    """The field `tool_choice`, which the API takes only beside tools.

    refusal: why no tool can be forced in this request, or None
    """
    choice, parallel = request.tool_choice, request.settings.parallel_tool_calls
    if choice is None and parallel is None:
        return None
    if not request.tools:
        if choice not in (None, "none", "auto"):
            warnings.append(OtherWarning("tool_choice was left out: the request has no tools"))
        return None
    if refusal is not None and (choice == "required" or isinstance(choice, NamedTool)):
        warnings.append(OtherWarning(f"tool_choice became auto: {refusal}"))
        choice = "auto"
    out: dict[str, Any]
    if isinstance(choice, NamedTool):
        out = {"type": "tool", "name": choice.name}
    else:
        out = {"type": {"none": "none", "required": "any"}.get(choice or "auto", "auto")}
    if parallel is not None and choice != "none":
        out["disable_parallel_tool_use"] = not parallel
    return out


def betas_of_tools(request: Request) -> list[str]:
    """The beta features that the vendor's own tools need."""
    types = [tool.type for tool in request.tools if isinstance(tool, ProviderTool)]
    return [_BETAS[kind] for kind in types if kind in _BETAS]


def _tool(tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
    schema = tool.input_schema or {"type": "object", "properties": {}}
    if "type" not in schema:
        schema = {"type": "object", **schema}
    out: dict[str, Any] = {"name": tool.name}
    if tool.description:
        out["description"] = tool.description
    out["input_schema"] = claude_strict_schema(schema) if strict else schema
    if strict:
        out["strict"] = True
    return out


def _provider_tool(tool: ProviderTool) -> dict[str, Any]:
    out: dict[str, Any] = {"type": tool.type}
    stem = _DATE.sub("", tool.type)
    name = tool.name or _FIXED_NAMES.get(tool.type) or (stem if stem != tool.type else "")
    # Toolsets (computer_toolset_20260801, mcp_toolset) have no name: their calls carry it (anthropic 2.12).
    if name and not stem.endswith("_toolset"):
        out["name"] = name
    return {**out, **tool.options}
