"""Items of the input for servers that refuse fields and items that only OpenAI knows.

What is left are messages of text and images, functions and their outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llmstream.dialects.data_uris import read_data_uri
from llmstream.errors import Unsupported

__all__ = ["plain_items"]

_CALL: Final[tuple[str, ...]] = ("type", "call_id", "name", "arguments", "thought_signature")
_OUTPUT: Final[tuple[str, ...]] = ("name", "thought_signature")
"""What an output repeats of its call; models of some vendors behind the server want it."""


def plain_items(
    items: list[dict[str, Any]], *, provider: str, warn: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The same conversation in items that such a server takes.

    raises: Unsupported for files
    """
    out: list[dict[str, Any]] = []
    calls: dict[object, dict[str, Any]] = {}
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            out.append({"type": "message", "role": item["role"], "content": _content(item, provider)})
        elif kind == "function_call":
            call = calls[item.get("call_id")] = {name: item[name] for name in _CALL if name in item}
            out.append(call)
        elif kind == "function_call_output":
            call = calls.get(item.get("call_id"), {})
            extras: dict[str, Any] = {name: call[name] for name in _OUTPUT if name in call}
            output = _text(item.get("output"), provider, warn)
            out.append({"type": kind, "call_id": item["call_id"], "output": output, **extras})
        else:
            warn(f"what {provider}'s own tools did does not go back: its input has no such items")
    return out


def _content(item: dict[str, Any], provider: str) -> str | list[dict[str, Any]]:
    """The model's own words as one string, others' part by part."""
    content = item.get("content")
    if not isinstance(content, list):
        return str(content or "")
    if item["role"] == "assistant":
        return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
    return [_part(part, provider) for part in content]


def _part(part: dict[str, Any], provider: str) -> dict[str, Any]:
    kind = part.get("type")
    if kind == "input_image" and part.get("image_url"):
        return {"type": kind, "image_url": part["image_url"]}
    if kind == "input_text":
        return {"type": kind, "text": part.get("text", "")}
    found = read_data_uri(part["file_data"]) if isinstance(part.get("file_data"), str) else None
    if found is not None and found[0].startswith("text/"):
        return {"type": "input_text", "text": found[1].decode("utf-8", "replace")}
    raise Unsupported(
        f"{provider} takes no files. Send the text, or pages as images.",
        provider=provider,
    )


def _text(output: object, provider: str, warn: Callable[[str], None]) -> str:
    """What a function gave, as one text."""
    if not isinstance(output, list):
        return str(output or "")
    parts = [_part(part, provider) for part in output if isinstance(part, dict)]
    if any(part["type"] == "input_image" for part in parts):
        warn(f"an image that a tool gave was left out: {provider} takes texts alone there")
    return "\n".join(part["text"] for part in parts if part["type"] == "input_text")
