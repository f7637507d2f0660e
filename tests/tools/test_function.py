"""`@tool` and the forms in which tools are given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from llmstream.agent import Agent
from llmstream.errors import InvalidRequest
from llmstream.request import ToolSpec
from llmstream.tools import ToolSet, tool, tool_from_function


def search(query: str) -> str:
    """Find pages.

    Args:
        query: what to look for
    """
    return query


def test_decorator_makes_spec_from_function() -> None:
    found = tool(search)
    assert found.spec == ToolSpec(
        "search",
        "Find pages.",
        {
            "type": "object",
            "properties": {"query": {"description": "what to look for", "type": "string"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    )


def test_options_of_the_decorator_win() -> None:
    @tool(name="find", description="Other words.", strict=True, timeout_s=3, eager=True, sequential=True)
    def search(query: str) -> str:
        """Find pages."""
        return query

    assert (search.spec.name, search.spec.description, search.spec.strict) == ("find", "Other words.", True)
    assert (search.timeout_s, search.eager, search.sequential) == (3, True, True)


def test_partials_and_methods_keep_the_name() -> None:
    """They have the name of their function."""

    class Index:
        def look_up(self, key: str) -> str:
            """Look up a key."""
            return key

    assert tool(functools.partial(search, query="x")).name == "search"
    assert tool(Index().look_up).spec.description == "Look up a key."


def lazily(n: int) -> Iterator[int]:
    yield n


@pytest.mark.parametrize(
    ("function", "words"),
    [(lazily, "must be async"), (lambda: None, "not a valid name"), (tool(search), "already")],
)
def test_what_cannot_be_a_tool_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        tool_from_function(function)


class Shop:
    def __init__(self, stock: int) -> None:
        self._stock = stock

    @tool(name="stock", timeout_s=5)
    async def count(self, item: str) -> str:
        """Count what is in stock.

        Args:
            item: what to count
        """
        return f"{self._stock} of {item}"


async def test_a_method_is_the_tool_of_its_object() -> None:
    one, two = Shop(1).count, Shop(2).count
    assert (one.name, one.timeout_s) == ("stock", 5)
    assert one.spec.input_schema["properties"] == {"item": {"description": "what to count", "type": "string"}}
    assert [(await each.run('{"item": "tea"}')).content for each in (one, two)] == ["1 of tea", "2 of tea"]


def test_unbound_method_is_no_tool() -> None:
    with pytest.raises(InvalidRequest, match=r"obj\.method"):
        ToolSet([Shop.count])


def test_no_description_is_noted_once(caplog) -> None:
    def undescribed_tool(x: int) -> int:
        return x

    with caplog.at_level("INFO", logger="llmstream"):
        for _ in range(2):
            tool(undescribed_tool)
        tool(search)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the tool undescribed_tool has no description")


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (Agent("sim:demo"), r"agent\.as_tool\(\)"),
        ({"type": "function", "function": {"name": "f"}}, "ToolSpec"),
        ("search", "Pass a function"),
    ],
)
def test_what_is_no_tool_has_a_remedy(given, remedy) -> None:
    with pytest.raises(InvalidRequest, match=remedy):
        ToolSet([given])
