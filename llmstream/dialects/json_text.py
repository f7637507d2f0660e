"""JSON values and texts on the way into events, which hold nothing that JSON could not hold again."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from llmstream.dialects.surrogates import without_lone_surrogates

__all__ = ["is_json", "mended", "object_text"]


def is_json(text: str) -> bool:
    """Whether a text is one JSON value."""
    try:
        msgspec.json.decode(text)
    except RecursionError:
        return False
    except (msgspec.MsgspecError, ValueError):
        return _is_loose_json(text)
    return True


def mended(value: Any) -> Any:
    """A JSON value without halves of characters."""
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, list):
        return [mended(item) for item in value]
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    return value


def object_text(text: str, *, key: str) -> msgspec.Raw:
    """A JSON object as it stands; any other value, or text that is none, in an object under `key`."""
    bare = text.strip()
    if not bare:
        return msgspec.Raw(b"{}")
    try:
        value = msgspec.json.decode(bare)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = text
    if isinstance(value, dict):
        return msgspec.Raw(bare.encode())
    return msgspec.Raw(msgspec.json.encode({key: value}))


def _is_loose_json(text: str) -> bool:
    """msgspec refuses lone surrogates and numbers past a double, which are JSON all the same."""
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
