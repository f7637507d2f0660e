"""Token counts, with one meaning for every vendor."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.other_sdks import USAGE, suggests
from llmstream.short_forms import fields

__all__ = ["MOST_TOKENS", "Usage"]

MOST_TOKENS: Final = 2**53
"""The largest accepted count; also the largest integer that every JSON reader preserves."""

_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
)


@suggests(USAGE)
class Usage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Tokens of one response or the sum of several; None means that the vendor did not report it.

    input_tokens:       the prompt, cached tokens included
    output_tokens:      the response, reasoning included
    cached_input_tokens: the part of the input that was read from a cache
    cache_write_tokens: the part of the input that was written to a cache
    raw:                the vendor's own usage object; a list of them where several responses made one answer

    A count below 0 or above 2**53 is None: limits, budgets and prices are computed from counts, and a
    server can write any number.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    raw: Any = None

    def __post_init__(self) -> None:
        # One expression first: some vendors report counts in each chunk, and each becomes a Usage.
        if not (
            0 <= (self.input_tokens or 0) <= MOST_TOKENS
            and 0 <= (self.output_tokens or 0) <= MOST_TOKENS
            and 0 <= (self.total_tokens or 0) <= MOST_TOKENS
            and 0 <= (self.reasoning_tokens or 0) <= MOST_TOKENS
            and 0 <= (self.cached_input_tokens or 0) <= MOST_TOKENS
            and 0 <= (self.cache_write_tokens or 0) <= MOST_TOKENS
        ):
            for name in _COUNTS:
                if not 0 <= (getattr(self, name) or 0) <= MOST_TOKENS:
                    # The Struct is frozen.
                    msgspec.structs.force_setattr(self, name, None)

    def __repr__(self) -> str:
        """The counts that are known; `raw` is left out."""
        return f"Usage({', '.join(fields(self, _COUNTS))})"

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum of each count; a count that neither has stays None, and raw is dropped."""
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            total_tokens=_sum(self.total_tokens, other.total_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cached_input_tokens=_sum(self.cached_input_tokens, other.cached_input_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
        )


def _sum(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    # A sum stays at the largest count, so that a budget that was passed stays passed.
    return a if b is None else min(a + b, MOST_TOKENS)
