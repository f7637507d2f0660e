"""Short forms for `repr`, and those of errors and usage."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.chats import Message
from llmstream.short_forms import amount, counted, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", "''"), ("a\nb", r"'a\nb'"), ("x" * 5, "'xxxxx'"), ("x" * 1200, "'xxxxx…' (1,200 characters)")],
)
def test_text_is_quoted_in_one_line(text: str, shown: str) -> None:
    assert quoted(text, 5) == shown


def test_one_is_not_counted_as_many() -> None:
    assert [counted(n, "step") for n in (0, 1, 1204)] == ["0 steps", "1 step", "1,204 steps"]


def test_a_cost_has_no_exponent() -> None:
    costs = (0, 1e-9, 0.00005123, 0.25, 1204.5)
    assert [amount(cost) for cost in costs] == ["0", "< 0.000001", "0.000051", "0.25", "1,204.50"]


def test_usage_shows_only_known_counts() -> None:
    assert repr(ls.Usage(1, 0, raw={"prompt_tokens": 1})) == "Usage(input_tokens=1, output_tokens=0)"
    assert repr(ls.Usage()) == "Usage()"


def test_an_error_shows_where_it_is_from() -> None:
    error = ls.RateLimited(
        "m" * 300, provider="openai", status=429, retry_after_s=2.5, request_id="r1", details={"k": "secret"}
    )
    error.partial = Message.assistant("secret")
    assert repr(error) == (
        f"RateLimited('{'m' * 200}…' (300 characters), provider='openai', status=429, retry_after_s=2.5, "
        "request_id='r1')"
    )
    assert repr(ls.InvalidRequest("no prompt")) == "InvalidRequest('no prompt')"
