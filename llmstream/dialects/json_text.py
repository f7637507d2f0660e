"""JSON text that is not quite valid: lone surrogates, numbers past a double, values that are no object."""

from __future__ import annotations

import re
from typing import Any

import msgspec

__all__ = [
    "LONE_SURROGATE",
    "encodable_value",
    "is_json",
    "object_text",
    "without_lone_surrogates",
]


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16")


def without_lone_surrogates(text: str) -> str:
    """Joins surrogate pairs, and replaces lone surrogates by U+FFFD."""
    # Nearly all texts are: names, ids, JSON.
    if text.isascii():
        return text
    return LONE_SURROGATE.sub("\ufffd", _PAIR.sub(_pair, text))


def encodable_value(value: Any) -> Any:
    """Replaces lone surrogates in a JSON value, however deeply it is nested."""
    made: list[Any] = [value]
    # A call for each level would end in RecursionError at a depth that decoders of JSON still accept.
    found: list[Any] = [made]
    for one in found:  # copies of what it holds are added behind it
        for place, item in enumerate(one) if isinstance(one, list) else one.items():
            if isinstance(item, str):
                one[place] = without_lone_surrogates(item)
            elif isinstance(item, (list, dict)):
                one[place] = item.copy() if isinstance(item, list) else _with_encodable_keys(item)
                found.append(one[place])
    return made[0]


def _with_encodable_keys(value: dict[Any, Any]) -> dict[Any, Any]:
    return {without_lone_surrogates(k) if isinstance(k, str) else k: item for k, item in value.items()}


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
    """Returns a JSON object unchanged; any other value or text is wrapped in an object under `key`."""
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
    # msgspec rejects lone surrogates and numbers past a double, which are valid JSON.
    # Imported with the first such text.
    import json

    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
