"""What vendors say in headers about their limits."""

from __future__ import annotations

import pytest

from llmstream.transport.pacing import RateState, rate_states, vendor_time

NOW = 1_800_000_000.0


def test_openai_says_it_in_spans() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert rate_states(headers, NOW) == {
        "requests": RateState(limit=60, remaining=59, reset_s=1),
        "tokens": RateState(limit=150000, remaining=149984, reset_s=360),
    }


def test_anthropic_says_it_in_points_in_time() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:12Z",
    }
    assert rate_states(headers, NOW) == {"requests": RateState(limit=50, remaining=0, reset_s=12)}


def test_exhausted_token_half_counts() -> None:
    """Anthropic limits input and output tokens apart."""
    headers = {
        "anthropic-ratelimit-tokens-remaining": "5000",
        "anthropic-ratelimit-input-tokens-remaining": "4000",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2027-01-15T08:00:05+00:00",
    }
    assert rate_states(headers, NOW)["tokens"] == RateState(remaining=0, reset_s=5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.02),
        ("2m59.56s", 179.56),
        ("1h2m3s", 3723),
        ("1d", 86400),
        ("7.5", 7.5),
        (str(NOW + 3), 3),
        ("2020-01-01T00:00:00Z", 0),
    ],
)
def test_resets_in_every_spelling(text: str, seconds: float) -> None:
    state = rate_states({"x-ratelimit-reset-tokens": text}, NOW)["tokens"]
    assert state.reset_s == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "2027-01-15T08:00:05", "1 week"])
def test_what_cannot_be_read_is_not_said(text: str) -> None:
    names = ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-requests", "x-ratelimit-limit-tokens")
    assert rate_states(dict.fromkeys(names, text), NOW) == {}


def test_halves_are_reported_apart() -> None:
    headers = {"anthropic-ratelimit-input-tokens-limit": "4000", "x-ratelimit-remaining-output-tokens": "7"}
    assert rate_states(headers, NOW) == {
        "input_tokens": RateState(limit=4000),
        "output_tokens": RateState(remaining=7),
    }


def test_points_in_time_are_the_vendors() -> None:
    """Our own clock may be wrong by an hour."""
    assert vendor_time({"date": "Fri, 15 Jan 2027 08:00:00 GMT"}, 5.0) == NOW
    assert vendor_time({"date": "yesterday"}, 5.0) == vendor_time({}, 5.0) == 5.0
