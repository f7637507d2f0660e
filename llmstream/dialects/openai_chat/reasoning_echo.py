"""Which thoughts of earlier answers go back to the server, and under which name.

A provider's quirks say what its server wants. Of a server that nobody knows, a request that was
read from the wire says it: the fields in which it gave thoughts to that server are those to use again.
The mark `{"llmstream": {"sent_as": {PROVIDER: [FIELD]}}}` in a thought's metadata keeps the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from llmstream.chats.content import Reasoning
from llmstream.events import Metadata

__all__ = ["fields_of_request", "sent_as"]

_OURS: Final = "llmstream"
_SENT_AS: Final = "sent_as"
_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")


def sent_as(provider: str, message: Mapping[str, Any]) -> tuple[str, Metadata]:
    """The thoughts of a message as its text fields say them, and their mark; empty where none does."""
    text = next((str(message[name]) for name in _FIELDS if message.get(name)), "")
    fields = [name for name in _FIELDS if text and message.get(name) == text]
    return text, {_OURS: {_SENT_AS: {provider: fields}}} if fields else {}


def fields_of_request(thoughts: Iterable[Reasoning], provider: str) -> tuple[str, ...]:
    """The fields under which all these thoughts went to this provider before; none where not all did."""
    fields = {_fields(part, provider) for part in thoughts if part.text}
    return fields.pop() if len(fields) == 1 else ()


def _fields(part: Reasoning, provider: str) -> tuple[str, ...]:
    ours = part.metadata.get(_OURS) if isinstance(part.metadata, dict) else None
    marks = ours.get(_SENT_AS) if isinstance(ours, dict) else None
    said = marks.get(provider) if isinstance(marks, dict) else None
    return tuple(name for name in _FIELDS if name in said) if isinstance(said, list) else ()
