"""Descriptions out of docstrings of the common styles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from llmstream.tools.docstring import describe


def google(query: str, limit: int) -> None:
    """Search the index.

    Slow on Mondays.

    Args:
        query: what to
            look for
        limit (int): how many

    Returns:
        nothing
    """


def numpy(query: str, limit: int) -> None:
    """Search the index.

    Slow on Mondays.

    Parameters
    ----------
    query : str
        what to look for
    limit : int
        how many
    """


def sphinx(query: str, limit: int) -> None:
    """Search the index.

    Slow on Mondays.

    :param query: what to look for
    :param int limit: how many
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_google_numpy_and_sphinx_styles_are_read(function: Callable[..., Any]) -> None:
    pytest.importorskip("docstring_parser")
    found = describe(function)
    assert found.description == "Search the index.\n\nSlow on Mondays."
    assert found.arguments == {"query": "what to look for", "limit": "how many"}


def test_without_the_parser_the_first_paragraph_is_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docstring_parser", None)
    found = describe(google)
    assert (found.description, found.arguments) == ("Search the index.", {})


def test_no_docstring_is_no_description() -> None:
    assert describe(lambda: None).description == ""
