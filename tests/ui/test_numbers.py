"""Positions and parts of ids, as clients send them."""

from __future__ import annotations

import pytest

from llmstream.ui.numbers import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("0041", 41), ("9" * 16, 10**16 - 1)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "1_0", "x", "\u0661", "\u00b2", "1" * 17])
def test_any_other_text_is_none(text: str) -> None:
    """Some of which `int` would take."""
    assert whole_number(text) is None
