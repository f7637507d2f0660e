"""What some vendors say beside the answer, in chunks of their own or on every chunk.

Perplexity repeats the pictures it found; Azure says first what its filter made of the prompt; OpenAI
says on every chunk which tier and which configuration answers, and in a chunk of its own how it judges
prompt and answer. They become metadata of the finish, and go out again in a chunk without choices.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from llmstream.dialects.surrogates import encodable_value
from llmstream.events import Metadata

__all__ = ["AnswerExtras", "extras_chunk"]


class _Extras(msgspec.Struct):
    images: Any = None
    prompt_filter_results: Any = None
    moderation: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None


_NAMES: Final = _Extras.__struct_fields__
_QUOTED: Final = tuple([f'"{name}"'.encode() for name in _NAMES])
_decode: Final = msgspec.json.Decoder(_Extras).decode


class AnswerExtras:
    """Stores the last value of each name; a null changes nothing."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}

    def look(self, payload: bytes) -> None:
        """A payload that may hold more than choices."""
        if any(quoted in payload for quoted in _QUOTED):
            found = _read(payload)
            self._said.update({name: found[name] for name in _NAMES if found.get(name)})

    def metadata(self, provider: str) -> Metadata | None:
        """All that was said, under the provider's name; None where nothing was."""
        return {provider: self._said} if self._said else None


def _read(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.structs.asdict(_decode(payload))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        value = encodable_value(json.loads(payload.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def extras_chunk(metadata: Metadata | None) -> Mapping[str, Any]:
    """The fields of the chunk that says it again; empty where there is nothing to say."""
    said = {name: own[name] for own in (metadata or {}).values() for name in _NAMES if own.get(name)}
    return {"choices": [], **said} if said else {}
