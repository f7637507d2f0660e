"""One test over many names reports each that fails."""

from __future__ import annotations

import pytest

from tests.each import for_each


def test_each_failing_name_is_reported() -> None:
    seen = []

    @for_each("one", "two", "three")
    def test(name: str) -> None:
        seen.append(name)
        assert name == "two"

    with pytest.raises(ExceptionGroup, match="2 of 3 fail") as caught:
        test()
    assert seen == ["one", "two", "three"]
    assert [error.__notes__ for error in caught.value.exceptions] == [["with one"], ["with three"]]


def test_without_a_name_it_fails() -> None:
    with pytest.raises(AssertionError):
        for_each()(print)()
