"""How many arguments a function asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from llmstream.tools.arity import takes


class Caller:
    def __call__(self, a: int, b: int) -> None: ...

    def method(self, a: int) -> None: ...


def two(a: int, b: int) -> None: ...


def with_a_default(a: int, b: int = 1) -> None: ...


def any_number(*args: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (two, True),
        (with_a_default, False),
        (any_number, False),
        (Caller(), True),
        (Caller().method, False),
        (partial(two, 1), False),
        (lambda a, /, b: None, True),
        (print, False),
    ],
)
def test_only_required_parameters_count(function: Callable[..., Any], expected: bool) -> None:
    assert takes(function, 2) is expected
