"""JSON text that is not quite valid, and complete answers, which a dialect rewrites as a stream.

Not quite valid are lone surrogates, numbers past a double, and values that are no object. Vendors send
complete answers without `stream` and in the results of batches; see `Dialect.decode_complete`.

The module `json` is imported only where msgspec does not suffice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = [
    "LONE_SURROGATE",
    "as_data",
    "encodable_value",
    "encoded_json",
    "is_json",
    "json_object",
    "object_text",
    "on_one_line",
    "status_of",
    "without_lone_surrogates",
]


# JSON that is not quite valid.

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


# Complete answers.


def on_one_line(body: bytes) -> bytes:
    """The same JSON on one line: strings of JSON hold no line feeds, so they are white space."""
    return body.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b" ").replace(b"\n", b" ")


def as_data(*payloads: bytes) -> bytes:
    """Payloads as server-sent events."""
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


def encoded_json(value: object) -> bytes:
    """JSON on one line; a lone surrogate stays an escape, for the decoder to repair."""
    import json

    return json.dumps(value, separators=(",", ":")).encode()


def json_object(body: bytes) -> dict[str, Any] | None:
    """The object of a body; None for anything else."""
    import json

    try:
        value = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Marks(msgspec.Struct, gc=False):
    type: Any = None
    object: Any = None
    status: Any = None


_marks = msgspec.json.Decoder(_Marks)


def status_of(body: bytes, names: Iterable[str] = ("status",)) -> str | None:
    """The first text at one of these fields of the body: type, object, status."""
    found: Any
    try:
        found = _marks.decode(body)
        values = [getattr(found, name) for name in names]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = json_object(body) or {}
        values = [found.get(name) for name in names]
    return next((value for value in values if isinstance(value, str) and value), None)
