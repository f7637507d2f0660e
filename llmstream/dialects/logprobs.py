"""Log probabilities of an answer's tokens, as metadata under one name on every wire.

A delta has those of its own tokens, the end of its block all of them again, so that they become
the part's: `{PROVIDER: {"logprobs": [...]}}`. The entries are the vendor's own. Those of OpenAI,
Mistral and Ollama have the same shape, `{token, logprob, bytes, top_logprobs}`, and are written back.
"""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.held_size import held_size
from llmstream.events import Metadata

__all__ = ["LOGPROBS", "Logprobs", "logprobs_of"]

LOGPROBS: Final = "logprobs"


class Logprobs:
    """Those of one answer: they wait for the delta that they belong to, then for its block's end.

    What comes without text, as with the tokens of a call, waits for the next delta, or the finish.

    key:  of the metadata
    held: what they take since the last block, in bytes
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._waiting: list[Any] = []
        self._whole: list[Any] = []
        self.held = 0

    def add(self, found: object) -> int:
        """Those of the tokens that come next, in any of their forms; gives what they take, in bytes."""
        entries = _entries(found)
        self._waiting.extend(entries)
        size = sum(map(held_size, entries))
        self.held += size
        return size

    def of_delta(self) -> Metadata | None:
        """The metadata of the delta that is given now."""
        found, self._waiting = self._waiting, []
        self._whole.extend(found)
        return self._metadata(found)

    def of_block(self) -> Metadata | None:
        """The metadata of the end of the open block."""
        found, self._whole = self._whole, []
        self.held = 0
        return self._metadata(found)

    def of_rest(self) -> Metadata | None:
        """The metadata of the finish: what belongs to no text."""
        found, self._waiting = self._waiting, []
        return self._metadata(found)

    def _metadata(self, found: list[Any]) -> Metadata | None:
        return {self._key: {LOGPROBS: found}} if found else None


def logprobs_of(metadata: Metadata | None) -> list[Any]:
    """The entries that any vendor gave, where they have the usual shape."""
    for own in (metadata or {}).values():
        found = own.get(LOGPROBS)
        if isinstance(found, list) and all(isinstance(entry, dict) and "token" in entry for entry in found):
            return found
    return []


def _entries(found: object) -> list[Any]:
    """A list of tokens; OpenAI and Mistral have one for content and one for a refusal."""
    if isinstance(found, dict) and (found.keys() & {"content", "refusal"}):
        return [entry for name in ("content", "refusal") for entry in found.get(name) or ()]
    if isinstance(found, list):
        return found
    return [found] if found else []
