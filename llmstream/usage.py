"""Token counts, in one meaning for every vendor."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Usage"]


class Usage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """Tokens of one response or the sum of several; None means that the vendor did not say.

    input_tokens:       the whole prompt, cached tokens included
    output_tokens:      the whole answer, reasoning included
    cached_input_tokens: the part of the input that was read from a cache
    cache_write_tokens: the part of the input that was written to a cache
    raw:                the vendor's own usage object; a list of them where several responses made one answer
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    raw: Any = None

    def __add__(self, other: Usage) -> Usage:
        """The sum, count by count; what neither says stays None, and raw is dropped."""
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
    return a if b is None else a + b
