"""Tools and the choice among them, read from a client's request."""

from __future__ import annotations

from typing import Any

from llmstream.dialects.openai_answers import refused
from llmstream.dialects.openai_responses.request import NAMED_TOOLS
from llmstream.dialects.openai_schema import strict_problem
from llmstream.request import NamedTool, ProviderTool, ToolChoice, ToolSpec

__all__ = ["read_tool_choice", "read_tools"]


def read_tools(tools: object) -> tuple[ToolSpec | ProviderTool, ...]:
    """The tools, in their order.

    raises: BadRequest with the vendor's message
    """
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise refused("Invalid type for 'tools': expected an array of objects.", "invalid_type")
    return tuple(_tool(f"tools[{place}]", tool) for place, tool in enumerate(tools))


def _tool(where: str, tool: object) -> ToolSpec | ProviderTool:
    """A function as a ToolSpec, unless it says more than that knows; any other as the vendor's own."""
    if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
        raise refused(f"Missing required parameter: '{where}.type'.", "missing_required_parameter")
    rest = {k: v for k, v in tool.items() if k != "type"}
    name = ""
    if tool["type"] in NAMED_TOOLS:
        name = rest.pop("name", None)
        if not isinstance(name, str) or not name:
            raise refused(f"Missing required parameter: '{where}.name'.", "missing_required_parameter")
    more = [k for k, v in rest.items() if k not in ("description", "parameters", "strict") and v is not None]
    if tool["type"] != "function" or more:
        return ProviderTool(tool["type"], name, rest)
    schema, strict = rest.get("parameters"), rest.get("strict")
    if strict is True:
        problem = strict_problem(schema)
        if problem:
            raise refused(f"Invalid schema for function '{name}': {problem}", "invalid_function_parameters")
    return ToolSpec(
        name,
        str(rest.get("description") or ""),
        schema if isinstance(schema, dict) else {},
        strict if isinstance(strict, bool) else None,
    )


def read_tool_choice(choice: Any, tools: tuple[ToolSpec | ProviderTool, ...]) -> ToolChoice | None:
    """The choice, where it is one of ours; others stay among the vendor's own fields.

    raises: BadRequest with the vendor's message
    """
    if choice in (None, "auto", "none", "required"):
        if choice == "required" and not tools:
            raise refused("Tool choice 'required' must be specified with 'tools' parameter.")
        known: ToolChoice | None = choice
        return known if tools else None
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not isinstance(kind, str):
        raise refused(f"Invalid value for 'tool_choice': {choice!r}.", "invalid_value")
    if kind == "allowed_tools":
        return None
    name = choice.get("name")
    own = [tool.type for tool in tools if isinstance(tool, ProviderTool)]
    if name in [tool.name for tool in tools] and isinstance(name, str) and name:
        return NamedTool(name)
    if kind not in own:
        raise refused(f"Tool choice '{kind}' not found in 'tools' parameter.")
    return NamedTool(kind) if set(choice) == {"type"} else None
