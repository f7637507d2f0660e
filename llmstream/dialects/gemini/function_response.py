"""The result of a function as the object the wire wants, and back.

`{"output": ...}` and `{"error": ...}` mean what they say; any other object is the output itself.
source: FunctionResponse in the references of the Gemini API and of Vertex AI
"""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.chats.content import Metadata, ToolResult
from llmstream.dialects.gemini.part_decoder import KEY
from llmstream.dialects.result_text import result_text

__all__ = ["encode_response", "read_response"]


def encode_response(part: ToolResult) -> dict[str, Any]:
    """The field `response`. What the metadata holds of it goes back as it came."""
    own = (part.metadata or {}).get(KEY, {}).get("response")
    if isinstance(own, dict):
        return own
    return _plain(result_text(part), part.is_error)


def read_response(response: dict[str, Any]) -> tuple[str, bool, Metadata | None]:
    """Content, whether it is an error, and metadata where the content alone would not say it again."""
    failed = set(response) == {"error"}
    inner: Any = response["error"] if failed else response
    if set(response) == {"output"}:
        inner = response["output"]
    content = inner if isinstance(inner, str) else msgspec.json.encode(inner).decode()
    exact = _plain(content, failed) == response
    return content, failed, None if exact else {KEY: {"response": response}}


def _plain(content: str, failed: bool) -> dict[str, Any]:
    if failed:
        return {"error": content}
    value: Any = content
    if content.lstrip()[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(content)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            value = content
    if isinstance(value, dict) and not value.keys() & {"output", "error"}:
        return value
    return {"output": value}
