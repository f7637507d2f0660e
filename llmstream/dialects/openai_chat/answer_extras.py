"""What some vendors say beside the answer, in chunks of their own or on every chunk.

Perplexity repeats the pictures it found; Azure says first what its filter made of the prompt. They
become metadata of the finish, and go out again in a chunk without choices.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from llmstream.dialects.surrogates import mended_value
from llmstream.events import Metadata

__all__ = ["AnswerExtras", "extras_chunk"]

_NAMES: Final = {name: f'"{name}"'.encode() for name in ("images", "prompt_filter_results")}


class AnswerExtras:
    """Keeps the last payload in which each name stood, and reads it once, at the end."""

    def __init__(self) -> None:
        self._payloads: dict[str, bytes] = {}

    def look(self, payload: bytes) -> None:
        """A payload that may hold more than choices."""
        for name, quoted in _NAMES.items():
            if quoted in payload:
                self._payloads[name] = payload

    def metadata(self, provider: str) -> Metadata | None:
        """All that was said, under the provider's name; None where nothing was."""
        said: dict[str, Any] = {}
        for name, payload in self._payloads.items():
            try:
                value = mended_value(json.loads(payload.decode("utf-8", "replace")))
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and isinstance(value.get(name), list) and value[name]:
                said[name] = value[name]
        return {provider: said} if said else None


def extras_chunk(metadata: Metadata | None) -> Mapping[str, Any]:
    """The fields of the chunk that says it again; empty where there is nothing to say."""
    said = {name: own[name] for own in (metadata or {}).values() for name in _NAMES if own.get(name)}
    return {"choices": [], **said} if said else {}
