"""Reads values that have one form on several wires: times, lists of objects, token counts, log probabilities.

Log probabilities are metadata of the same name for every dialect. A delta has those of its own tokens. The
end of its block has all of them again, so that they become metadata of the part:
`{PROVIDER: {"logprobs": [...]}}`. The entries are the vendor's. Those of OpenAI, Mistral and Ollama have the
same shape, `{token, logprob, bytes, top_logprobs}`, and are written back.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

from llmstream.dialects.payload_size import held_size, text_size
from llmstream.events import Metadata
from llmstream.usage import Usage

__all__ = [
    "LOGPROBS",
    "Logprobs",
    "UsageCounts",
    "added",
    "iso_time",
    "logprobs_of",
    "objects_in",
    "token_count",
    "unix_time",
]

# A larger number is not in seconds, and may be past the last year of datetime (9999).
_YEAR_3000_S: Final = 32503680000


def unix_time(value: object) -> datetime.datetime | None:
    """Reads seconds since 1970, in UTC; None for any other value, such as milliseconds."""
    if isinstance(value, (int, float)) and 0 < value < _YEAR_3000_S:
        return datetime.datetime.fromtimestamp(value, datetime.UTC)
    return None


def iso_time(value: object) -> datetime.datetime | None:
    """Reads an ISO 8601 time; None for any other value. Digits past microseconds are dropped."""
    try:
        return datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def objects_in(value: object) -> list[dict[str, Any]]:
    """Returns the objects of a list, without its other items; [] if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def token_count(value: object) -> int | None:
    """Reads a number of tokens, also from a float or text; None for anything else."""
    if value is None:
        return None
    if type(value) is int:
        return value if -(2**63) < value < 2**63 else None
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value == value // 1 and abs(value) < 2**63 else None


def added(a: int | None, b: int | None) -> int | None:
    """Adds the known counts; None if neither is known."""
    if a is None:
        return b
    return a if b is None else a + b


class UsageCounts:
    """Cumulative counts: a later value of a field replaces the earlier one.

    Some servers report them with every chunk. They are converted on access, so that the cost of a chunk
    depends on its own size only.

    read: converts the vendor's object to `Usage`
    hold: called with the memory by which it grows, in bytes; see `PayloadDecoder.hold`. None where the number
          of fields is limited
    """

    _usage: Usage | None = Usage()

    def __init__(
        self, read: Callable[[dict[str, Any]], Usage], hold: Callable[[int], object] | None = None
    ) -> None:
        self._read = read
        self._hold = hold
        self._known: dict[str, Any] = {}

    def add(self, stated: object) -> None:
        """Adds one report; nulls, and reports that are not objects, are ignored."""
        if not isinstance(stated, dict) or not stated:
            return
        self._usage = None
        known, grown, hold = self._known, 0, self._hold
        if hold is None:
            for name, value in stated.items():
                if value is not None or name not in known:
                    known[name] = value
            return
        for name, value in stated.items():
            if name not in known:
                grown += text_size(name) + _size(value)
            elif value is not None:
                grown += _size(value) - _size(known[name])
            else:
                continue
            known[name] = value
        if grown:
            hold(grown)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def usage(self) -> Usage:
        """Returns the counts so far; later reports do not change the value."""
        if self._usage is None:
            self._usage = self._read(dict(self._known))
        return self._usage


def _size(value: object) -> int:
    # Nearly all values are counts, which do not grow.
    return 0 if value is None or isinstance(value, int) else held_size(value)


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
