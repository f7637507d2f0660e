"""When a failed request is sent again: only before the first content, with full jitter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import msgspec

from llmstream.errors import DeadlineExceeded, InvalidRequest, LLMStreamError

__all__ = ["Retry", "RetryBudget", "budget_of", "wait_before_retry_s"]

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a request is repeated, and how long to wait. `Retry(max_retries=0)` is one attempt.

    max_wait_s: the longest wait a vendor may ask for; a longer one fails at once
    raises:     InvalidRequest for anything but a number, or a negative one
    """

    max_retries: int = 2
    max_wait_s: float = 60.0

    def __post_init__(self) -> None:
        for name, kind in (("max_retries", int), ("max_wait_s", (int, float))):
            value = getattr(self, name)
            if not (isinstance(value, kind) and value >= 0):
                raise InvalidRequest(f"{name} must be a number that is not negative; got {value!r}")


def wait_before_retry_s(
    retry: Retry, error: LLMStreamError, attempt: int, random_unit: Callable[[], float] = random.random
) -> float | None:
    """Seconds to wait before the next attempt; None for no further attempt.

    attempt: the number of attempts so far, from 1
    """
    if not error.retryable or attempt > retry.max_retries:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= retry.max_wait_s else None
    cap = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (attempt - 1), retry.max_wait_s)
    return random_unit() * cap


_CAPACITY: Final = 500
_COST: Final = 5
_COST_OF_SILENCE: Final = 10
_REFUND: Final = 1


class RetryBudget:
    """Limits the retries of one provider in a process, so that an outage is not multiplied.

    A retry costs 5, one after a deadline 10; an attempt that has content returns 1.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self.left = capacity

    def take(self, error: LLMStreamError) -> bool:
        """Whether the budget suffices for a retry after this error; if so, takes its cost."""
        cost = _COST_OF_SILENCE if isinstance(error, DeadlineExceeded) else _COST
        if cost > self.left:
            return False
        self.left -= cost
        return True

    def give_back(self) -> None:
        """Returns a part after an attempt that had content."""
        self.left = min(self._capacity, self.left + _REFUND)


_budgets: dict[str, RetryBudget] = {}


def budget_of(provider: str) -> RetryBudget:
    """The budget that all calls of one provider share in this process."""
    return _budgets.get(provider) or _budgets.setdefault(provider, RetryBudget())
