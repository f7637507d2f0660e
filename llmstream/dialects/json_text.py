"""JSON values and texts on the way into events, which hold nothing that JSON could not hold again."""

from __future__ import annotations

import json

import msgspec

from llmstream.dialects.surrogates import encodable_value

__all__ = ["encodable_value", "is_json", "object_text"]


def is_json(text: str) -> bool:
    """Whether a text is one JSON value."""
    try:
        msgspec.json.decode(text)
    except RecursionError:
        return False
    except (msgspec.MsgspecError, ValueError):
        return _is_loose_json(text)
    return True


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
