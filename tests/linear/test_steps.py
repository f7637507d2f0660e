"""The counter itself: it sees loops, those of comprehensions and those inside C."""

from __future__ import annotations

import pytest
from stepcount.steps import assert_linear, steps_of


def searched(n):
    def work():
        taken = set()
        for _ in range(n):
            number = 1
            while number in taken:
                number += 1
            taken.add(number)

    return work


def copied(n):
    def work():
        known = {}
        for i in range(n):
            known = {**known, i: i}

    return work


def grown(n):
    class Holder:
        text = ""

    def work():
        for _ in range(n):
            Holder.text += "x" * 20

    return work


def filtered(n):
    def work():
        found = []
        for i in range(n):
            found.append(i)
            [one for one in found if one < 0]

    return work


def gathered(n):
    def work():
        found, index = [], {}
        for i in range(n):
            found.append(str(i) * 20)
            index[i] = i
        return "".join(found)

    return work


@pytest.mark.parametrize("work", [searched, copied, grown, filtered])
def test_a_square_is_seen(work):
    with pytest.raises(AssertionError, match="for 800"):
        assert_linear(work, 400)


def test_a_line_is_no_square():
    assert_linear(gathered, 400)


def test_lines_are_the_same_each_time():
    assert steps_of(gathered(100)).lines == steps_of(gathered(100)).lines
