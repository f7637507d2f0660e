"""Results of calls as items of the input: each kind of call wants its own."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from llmstream.chats.content import Image, ToolResult
from llmstream.dialects.openai_responses.content_parts import own, write_part
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.result_text import told_result

__all__ = ["output_item"]


def output_item(
    result: ToolResult, call_id: str, call: dict[str, Any], quirks: Quirks, *, provider: str
) -> dict[str, Any]:
    """The item that answers a call.

    call_id: as the wire has it
    call:    the call's item, whose type decides; {} for a function

    raises: Unsupported for files the wire cannot take
    """
    told = own(result)
    if isinstance(told.get("item"), dict):
        return dict(told["item"])
    match call.get("type"):
        case "custom_tool_call":
            kind = "custom_tool_call_output"
        case "shell_call":
            return _shell(result, call_id, call)
        case "local_shell_call":
            return {"type": "local_shell_call_output", "call_id": call_id, "output": result.content}
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            out = {"type": "apply_patch_call_output", "call_id": call_id, "status": status}
            return {**out, "output": result.content} if result.content else out
        case "computer_call":
            return _screenshot(result, call_id)
        case "tool_search_call":
            return _found_tools(result, call_id)
        case "mcp_approval_request":
            return _approval(result, call)
        case _:
            kind = "function_call_output"
    output: str | list[dict[str, Any]] = told_result(result)
    if result.parts:
        words = [{"type": "input_text", "text": output}] if output else []
        output = [*words, *(write_part(part, quirks, provider=provider) for part in result.parts)]
    extras: dict[str, Any] = {name: told[name] for name in ("id", "status", "caller") if name in told}
    return {"type": kind, "call_id": call_id, "output": output, **extras}


def _value(result: ToolResult) -> Any:
    """A result as JSON, where it is."""
    if result.result is not None:
        return result.result
    try:
        return msgspec.json.decode(result.content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _shell(result: ToolResult, call_id: str, call: dict[str, Any]) -> dict[str, Any]:
    """What each command gave; plain words are what a single one wrote."""
    value = _value(result)
    if isinstance(value, dict) and isinstance(value.get("output"), list):
        value = value["output"]
    if not (isinstance(value, list) and value and all(isinstance(one, dict) for one in value)):
        outcome = {"type": "exit", "exit_code": int(result.is_error)}
        value = [{"stdout": result.content, "stderr": "", "outcome": outcome}]
    out = {"type": "shell_call_output", "call_id": call_id, "output": value}
    action = call.get("action")
    most = action.get("max_output_length") if isinstance(action, dict) else None
    return out if most is None else {**out, "max_output_length": most}


def _screenshot(result: ToolResult, call_id: str) -> dict[str, Any]:
    output: Any = _value(result)
    image = next((part for part in result.parts if isinstance(part, Image)), None)
    if image is not None:
        url = image.url
        if image.data:
            data = base64.b64encode(image.data).decode()
            url = f"data:{image.media_type or 'image/png'};base64,{data}"
        output = {"type": "computer_screenshot", "image_url": url}
    return {"type": "computer_call_output", "call_id": call_id, "output": output}


def _found_tools(result: ToolResult, call_id: str) -> dict[str, Any]:
    value = _value(result)
    if isinstance(value, dict):
        value = value.get("tools")
    tools = value if isinstance(value, list) else []
    out = {"type": "tool_search_output", "call_id": call_id, "execution": "client"}
    return {**out, "status": "completed", "tools": tools}


def _approval(result: ToolResult, call: dict[str, Any]) -> dict[str, Any]:
    """An answer of true or false decides; any other approves unless it is an error."""
    value = _value(result)
    approve = value if isinstance(value, bool) else not result.is_error
    out = {"type": "mcp_approval_response", "approval_request_id": call.get("id"), "approve": approve}
    return {**out, "reason": result.content} if not approve and value is not False else out
