"""When and how long to wait before a request is sent again."""

from __future__ import annotations

import pytest

from llmstream.errors import BadRequest, DeadlineExceeded, InvalidRequest, Overloaded, RateLimited
from llmstream.streams.attempts import Retry, RetryBudget, budget_of, wait_before_retry_s


def test_waits_grow_with_jitter_up_to_a_cap() -> None:
    error = Overloaded("busy")
    patient = Retry(max_retries=10)
    waits = [wait_before_retry_s(patient, error, n, random_unit=lambda: 1.0) for n in range(1, 8)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert wait_before_retry_s(patient, error, 3, random_unit=lambda: 0.25) == 0.5


@pytest.mark.parametrize(("attempt", "again"), [(1, True), (2, True), (3, False)])
def test_attempts_are_limited(attempt: int, again: bool) -> None:
    assert (wait_before_retry_s(Retry(), Overloaded("busy"), attempt) is not None) == again


def test_permanent_failure_is_not_retried() -> None:
    assert wait_before_retry_s(Retry(), BadRequest("no"), 1) is None


def test_vendors_wait_used_unless_too_long() -> None:
    assert wait_before_retry_s(Retry(), RateLimited("slow", retry_after_s=59), 1) == 59
    assert wait_before_retry_s(Retry(), RateLimited("slow", retry_after_s=61), 1) is None
    assert wait_before_retry_s(Retry(max_wait_s=90), RateLimited("slow", retry_after_s=61), 1) == 61


def test_an_outage_is_not_multiplied() -> None:
    budget = RetryBudget(capacity=20)
    assert [budget.take(Overloaded("busy")) for _ in range(5)] == [True, True, True, True, False]
    for _ in range(7):
        budget.give_back()
    assert budget.take(Overloaded("busy"))
    assert not budget.take(DeadlineExceeded("silent"))


def test_budget_is_shared_per_provider() -> None:
    assert budget_of("acme") is budget_of("acme")
    assert budget_of("acme") is not budget_of("other")


@pytest.mark.parametrize("wrong", [{"max_retries": -1}, {"max_retries": None}, {"max_wait_s": "5"}])
def test_meaningless_retry_is_refused(wrong) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        Retry(**wrong)
