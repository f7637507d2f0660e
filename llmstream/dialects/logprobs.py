"""Log probabilities of the tokens, as metadata of the same name for every dialect.

A delta has those of its own tokens. The end of its block has all of them again, so that they become
metadata of the part: `{PROVIDER: {"logprobs": [...]}}`. The entries are the vendor's. Those of OpenAI,
Mistral and Ollama have the same shape, `{token, logprob, bytes, top_logprobs}`, and are written back.
"""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.decoder import held_size
from llmstream.events import Metadata

__all__ = ["LOGPROBS", "Logprobs", "logprobs_of"]

LOGPROBS: Final = "logprobs"


class Logprobs:
    """Log probabilities of one response: held for their delta, then for the end of its block.

    Those without text, such as the tokens of a call, are held for the next delta or the finish.

    key:  of the metadata
    held: memory they take since the last block, in bytes
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._waiting: list[Any] = []
        self._of_block: list[Any] = []
        self.held = 0

    def add(self, found: object) -> int:
        """Adds those of the next tokens, in any of their forms; returns the memory they take, in bytes."""
        entries = _entries(found)
        self._waiting.extend(entries)
        size = sum(map(held_size, entries))
        self.held += size
        return size

    def of_delta(self) -> Metadata | None:
        """Returns the metadata of the current delta."""
        found, self._waiting = self._waiting, []
        self._of_block.extend(found)
        return self._metadata(found)

    def of_block(self) -> Metadata | None:
        """Returns the metadata of the end of the open block."""
        found, self._of_block = self._of_block, []
        self.held = 0
        return self._metadata(found)

    def of_rest(self) -> Metadata | None:
        """Returns the metadata of the finish: log probabilities without text."""
        found, self._waiting = self._waiting, []
        return self._metadata(found)

    def _metadata(self, found: list[Any]) -> Metadata | None:
        return {self._key: {LOGPROBS: found}} if found else None


def logprobs_of(metadata: Metadata | None) -> list[Any]:
    """Returns the entries of any vendor, if they have the common shape."""
    for own in (metadata or {}).values():
        found = own.get(LOGPROBS)
        if isinstance(found, list) and all(isinstance(entry, dict) and "token" in entry for entry in found):
            return found
    return []


def _entries(found: object) -> list[Any]:
    """Flattens the lists of tokens: OpenAI and Mistral have one for content and one for a refusal."""
    if isinstance(found, dict) and (found.keys() & {"content", "refusal"}):
        lists = [found.get(name) for name in ("content", "refusal")]
        return [entry for entries in lists if isinstance(entries, list) for entry in entries]
    if isinstance(found, list):
        return found
    return [found] if found else []
