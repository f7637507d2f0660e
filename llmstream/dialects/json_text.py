"""JSON text for events: repairs split surrogates, so that every event can be encoded again."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextEnd,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    encode,
)

__all__ = [
    "SurrogateJoiner",
    "encodable_value",
    "is_json",
    "object_text",
    "without_lone_surrogates",
]


# Surrogate pairs that a vendor cut in two.
#
# Some servers cut text between UTF-16 units: one delta ends in an escaped high surrogate, the next begins
# with the low one. A high surrogate is held until the low one comes; a lone surrogate becomes U+FFFD.

Delta: TypeAlias = TextDelta | ReasoningDelta | ToolInputDelta

_DELTA_OF: Final[dict[type, type[Delta]]] = {
    TextEnd: TextDelta,
    ReasoningEnd: ReasoningDelta,
    ToolInputEnd: ToolInputDelta,
}
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE = re.compile("[\ud800-\udfff]")


def _pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16")


def without_lone_surrogates(text: str) -> str:
    """Joins surrogate pairs, and replaces lone surrogates by U+FFFD."""
    # Nearly all texts are: names, ids, JSON.
    if text.isascii():
        return text
    return _LONE.sub("\ufffd", _PAIR.sub(_pair, text))


def _repaired(event: Event) -> Event:
    """Replaces lone surrogates in names, ids and metadata."""
    try:
        encode(event)
    except UnicodeEncodeError:
        mended: Event = msgspec.convert(encodable_value(msgspec.to_builtins(event)), type(event))
        return mended
    return event


def encodable_value(value: Any) -> Any:
    """Replaces lone surrogates in a JSON value."""
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, list):
        return [encodable_value(item) for item in value]
    if isinstance(value, dict):
        return {encodable_value(key): encodable_value(item) for key, item in value.items()}
    return value


class SurrogateJoiner:
    """Joins split surrogate pairs in the deltas of one stream, block by block."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def feed(self, events: list[Event]) -> list[Event]:
        """Returns the events without lone surrogates; a delta is empty while a high surrogate is held."""
        out: list[Event] = []
        for event in events:
            match event:
                case TextDelta() | ReasoningDelta() | ToolInputDelta():
                    out.append(self._delta(event))
                case ToolCall(input=text) if _LONE.search(text):
                    out.append(msgspec.structs.replace(event, input=without_lone_surrogates(text)))
                case _:
                    self._settle(event, out)
                    out.append(_repaired(event))
        return out

    def _delta(self, event: Delta) -> Delta:
        text = self._waiting.pop(event.id, "") + event.delta
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting[event.id] = text[-1]
            text = text[:-1]
        return msgspec.structs.replace(event, delta=without_lone_surrogates(text))

    def _settle(self, event: Event, out: list[Event]) -> None:
        """Emits U+FFFD for a high surrogate at the end of a block."""
        block_id = getattr(event, "id", None)
        if not isinstance(block_id, str) or block_id not in self._waiting:
            return
        delta = _DELTA_OF.get(type(event))
        if delta is not None:
            del self._waiting[block_id]
            out.append(delta("\ufffd", block_id))


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
