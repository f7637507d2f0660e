"""When a refused request is sent again: before the first content only, with full jitter."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from llmstream.errors import LLMStreamError

__all__ = ["Retry", "wait_before_retry_s"]

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how patiently to ask again. `Retry(max_retries=0)` is one attempt.

    max_wait_s: the longest wait a vendor may ask for; a longer one fails at once
    """

    max_retries: int = 2
    max_wait_s: float = 60.0


def wait_before_retry_s(
    retry: Retry, error: LLMStreamError, attempt: int, random_unit: Callable[[], float] = random.random
) -> float | None:
    """Seconds to wait before the next attempt, or None where there is to be none.

    attempt: how many were made so far, from 1
    """
    if not error.retryable or attempt > retry.max_retries:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= retry.max_wait_s else None
    cap = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (attempt - 1), retry.max_wait_s)
    return random_unit() * cap
