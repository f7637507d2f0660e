"""Token counts, however they are written."""

from __future__ import annotations

import pytest

from llmstream.dialects.token_counts import added, token_count


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 3),
        (3.0, 3),
        ("3", 3),
        (0, 0),
        (True, None),
        (1.5, None),
        (float("inf"), None),
        ("x", None),
        (None, None),
    ],
)
def test_counts(value, count):
    assert token_count(value) == count


def test_what_is_known_is_added():
    assert (added(1, 2), added(None, 2), added(1, None), added(None, None)) == (3, 2, 1, None)
