"""How long each part of a stream may take."""

from __future__ import annotations

import math

import pytest

from llmstream.errors import InvalidRequest
from llmstream.transport.deadlines import Deadlines


@pytest.mark.parametrize("wrong", [-1, 0, "5", math.nan])
def test_non_numeric_deadline_is_refused(wrong) -> None:
    with pytest.raises(InvalidRequest, match="idle_s is a positive number of seconds"):
        Deadlines(idle_s=wrong)


def test_none_is_no_limit() -> None:
    assert Deadlines(idle_s=None, total_s=0.5).idle_s is None
