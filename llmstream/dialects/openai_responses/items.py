"""Which output items are tool calls, who runs them, and how their input becomes JSON text.

Functions stream JSON. A custom tool's input is plain text. All other tools have their input in fields of the
item; its JSON text begins the same while it streams and when it is complete.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

__all__ = [
    "CALL_ITEMS",
    "RESULT_ITEMS",
    "as_text",
    "call_facts",
    "call_id_of",
    "has_result",
    "input_layout",
    "is_call_item",
    "is_hosted",
    "may_wrap",
    "quoted",
    "tool_name_of",
    "wrapped_calls",
]


# Item types whose tool has one name; items of functions, custom tools and MCP have the name themselves.
_NAMES: Final = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "computer_call": "computer",
    "local_shell_call": "local_shell",
    "shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "tool_search_call": "tool_search",
    "program": "programmatic_tool_calling",
    "x_search_call": "x_search",
    "code_execution_call": "code_execution",
    "view_image_call": "view_image",
    "view_x_video_call": "view_x_video",
}

_NAMED: Final = frozenset({"function_call", "custom_tool_call", "mcp_call", "mcp_approval_request"})
CALL_ITEMS: Final = _NAMED | _NAMES.keys()
# Calls of xAI's own tools, beside those that OpenAI has as well; their input is `arguments`.
_XAI_CALLS: Final = frozenset(
    {"x_search_call", "code_execution_call", "view_image_call", "view_x_video_call"}
)

_HOSTED: Final = _XAI_CALLS | frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_approval_request",
        "program",
    }
)
# Items with the result of a call that the vendor ran, and the name of its tool.
RESULT_ITEMS: Final = {
    "shell_call_output": "shell",
    "tool_search_output": "tool_search",
    "program_output": "programmatic_tool_calling",
}

# Items with both a call and its result.
_WITH_RESULT: Final = _XAI_CALLS | frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)

# xAI's names for the parts of a tool, and the name under which the tool is requested.
_XAI_NAMES: Final = {
    "x_keyword_search": "x_search",
    "x_semantic_search": "x_search",
    "x_user_search": "x_search",
    "x_thread_fetch": "x_search",
    "web_search_with_snippets": "web_search",
    "browse_page": "web_search",
}
_WRAPPERS: Final = frozenset({"parallel", "multi_tool_use.parallel"})


def is_call_item(item: dict[str, Any]) -> bool:
    """Whether an item is a call of a tool."""
    kind = item.get("type")
    return isinstance(kind, str) and kind in CALL_ITEMS


def call_facts(item: dict[str, Any]) -> tuple[str, str | None, bool]:
    """Returns name of the tool, id that the result refers to, and whether the vendor runs the call."""
    # Nearly all calls are of functions; the three below take six times as long.
    if item.get("type") == "function_call":
        name, call_id = item.get("name"), item.get("call_id")
        if type(name) is str and type(call_id) is str and call_id:
            return name, call_id, False
    return tool_name_of(item), call_id_of(item), is_hosted(item)


def is_hosted(item: dict[str, Any]) -> bool:
    """Whether the vendor runs the call itself."""
    kind = item.get("type")
    if kind == "shell_call":
        where = item.get("environment")
        return isinstance(where, dict) and str(where.get("type")).startswith("container")
    if kind == "tool_search_call":
        return item.get("execution") != "client"
    return kind in _HOSTED or (kind == "custom_tool_call" and _is_of_xai(item))


def has_result(item: dict[str, Any]) -> bool:
    """Whether the item of a hosted call also has its result."""
    kind = item.get("type")
    return kind in _WITH_RESULT or (kind == "custom_tool_call" and _is_of_xai(item))


def tool_name_of(item: dict[str, Any]) -> str:
    """Returns the name of the tool; "" while it is unknown."""
    kind, name = str(item.get("type")), item.get("name")
    if kind in _NAMES:
        return _NAMES[kind]
    if not isinstance(name, str):
        return ""
    return _XAI_NAMES.get(name, name) if kind == "custom_tool_call" and _is_of_xai(item) else name


def call_id_of(item: dict[str, Any]) -> str | None:
    """Returns the id that the result refers to, or the item's own id if the vendor runs the call."""
    kind = item.get("type")
    own = _is_of_xai(item) if kind == "custom_tool_call" else kind in _HOSTED and kind != "program"
    for name in ("id", "call_id") if own else ("call_id", "id"):
        value = item.get(name)
        if isinstance(value, (str, int)) and value != "":
            return str(value)
    return None


def _is_of_xai(item: dict[str, Any]) -> bool:
    """Whether a custom call is one of xAI's own tools: its item id ends in the id of the call (2025-12)."""
    item_id, call_id = item.get("id"), item.get("call_id")
    return (
        isinstance(item_id, str)
        and isinstance(call_id, str)
        and not call_id.startswith("call_")
        and item_id.endswith(f"_{call_id}")
    )


class Layout(msgspec.Struct, frozen=True):
    """The input of a call as JSON text, and the text around the fragments that stream.

    text: the complete input, as far as the item has it
    head: text before the first fragment
    tail: text that closes it, if the complete input differs from what was streamed
    """

    text: str
    head: str = ""
    tail: str = ""


def input_layout(item: dict[str, Any]) -> Layout:
    """Returns the input as far as the item has it."""
    match item.get("type"):
        case "function_call" | "mcp_call" | "mcp_approval_request":
            return Layout(as_text(item.get("arguments")))
        case "custom_tool_call":
            return Layout(as_text(item.get("input")))
        case "code_interpreter_call":
            code = item.get("code")
            return Layout(_json({"code": code if isinstance(code, str) else ""}), '{"code":"', '"}')
        case "apply_patch_call":
            return _patch(item.get("operation"))
        case "shell_call":
            return Layout(_json({"action": _shell(item.get("action"))}), '{"action":{"commands":[', "]}}")
        case "web_search_call" if isinstance(item.get("arguments"), str) and item["arguments"]:
            # xAI sends the input as text.
            return Layout(item["arguments"])
        case kind if kind in _XAI_CALLS and isinstance(item.get("arguments"), str):
            return Layout(item["arguments"])
        case "web_search_call":
            return Layout(_json(_without_sources(item.get("action"))))
        case "tool_search_call":
            return Layout(_json(item.get("arguments") or {}))
        case "image_generation_call":
            return Layout("")
    names = ("queries", "action", "actions", "pending_safety_checks", "code", "fingerprint")
    return Layout(_json({name: item[name] for name in names if item.get(name)}))


def _patch(operation: object) -> Layout:
    """Puts type and path before the diff, which streams."""
    known = operation if isinstance(operation, dict) else {}
    ordered = {name: known[name] for name in ("type", "path") if name in known}
    ordered |= {name: value for name, value in known.items() if name not in ("type", "path", "diff")}
    head = _json({"operation": {**ordered, "diff": ""}})[: -len('"}}')]
    diff = {"diff": known["diff"]} if "diff" in known else {}
    return Layout(_json({"operation": {**ordered, **diff}}), head, '"}}')


def _shell(action: object) -> dict[str, Any]:
    """Puts the commands first: they stream before the rest is known."""
    known = action if isinstance(action, dict) else {}
    return {"commands": known.get("commands") or [], **{k: v for k, v in known.items() if k != "commands"}}


def _without_sources(action: object) -> dict[str, Any]:
    """Returns the query without the sources, which are the result."""
    known = action if isinstance(action, dict) else {}
    return {name: value for name, value in known.items() if name != "sources"}


def quoted(text: str) -> str:
    """Encodes text as the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def as_text(value: object) -> str:
    """Returns JSON text unchanged; encodes the value that some servers send instead."""
    if isinstance(value, str):
        return value
    return "" if value is None else _json(value)


def wrapped_calls(item: dict[str, Any]) -> list[tuple[str, str]] | None:
    """Returns names and inputs of the calls inside a call of `parallel`; None for any other item.

    Azure's gpt-5.4 sometimes sends this wrapper of its own as a function (vercel/ai#19067, 2026-08).
    """
    if not may_wrap(item):
        return None
    try:
        value = msgspec.json.decode(as_text(item.get("arguments")))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    uses = value.get("tool_uses") if isinstance(value, dict) and set(value) == {"tool_uses"} else None
    if not isinstance(uses, list) or not uses:
        return None
    calls = []
    for use in uses:
        name = use.get("recipient_name") if isinstance(use, dict) else None
        if not isinstance(name, str) or not isinstance(use.get("parameters"), dict):
            return None
        calls.append((name.removeprefix("functions."), _json(use["parameters"])))
    return calls


def may_wrap(item: dict[str, Any]) -> bool:
    """Whether an item may turn out to be a wrapper, so that its input is held back."""
    name = item.get("name")
    return isinstance(name, str) and name in _WRAPPERS and item.get("type") == "function_call"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
