"""Tools come in once: unique names, found by name, declared to the model."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.chats.content import ToolCall
from llmstream.errors import InvalidRequest
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools import LiveTools, Tool, ToolSet, tool


async def search(query: str) -> str:
    """Searches."""
    return query


def test_tools_are_given_in_any_form() -> None:
    declared, vendor, made = ToolSpec("ask"), ProviderTool("web_search"), tool(name="made")(search)
    found = list(ToolSet([search, made, declared, vendor]))
    assert isinstance(found[0], Tool)
    assert found[1:] == [made, declared, vendor]
    assert [t.name for t in ToolSet([search, made, declared]).specs] == ["search", "made", "ask"]
    assert ToolSet([vendor]).specs == (vendor,)


@pytest.mark.parametrize(
    "given",
    [
        [search, ToolSpec("search")],
        [ProviderTool("x"), ProviderTool("x")],
        [ProviderTool("x", "search"), search],
    ],
)
def test_one_name_for_two_tools_is_refused(given: list[Any]) -> None:
    with pytest.raises(InvalidRequest, match="two tools are called"):
        ToolSet(given)


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="is not a tool"):
        ToolSet(["search"])  # type: ignore[list-item]  # on purpose


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ([{"type": "function", "function": {"name": "f", "parameters": {}}}], "ls.ToolSpec('f', description"),
        ([{"name": "f", "input_schema": {"type": "object"}}], "the Python function f itself"),
        ([{"type": "web_search_preview"}], "ls.ProviderTool('web_search_preview', name, options)"),
        ([{"type": "web_search_20250305", "name": "web_search"}], "ls.ProviderTool('web_search_20250305'"),
        ([{"name": "f", "description": "d" * 9000}], "ddd... is not a tool"),
        (search, "Write tools=[search]"),
    ],
)
def test_form_of_another_api_is_explained(given: Any, remedy: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ToolSet(given)
    assert remedy in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_set_is_made_once() -> None:
    tools = ToolSet([search])
    assert ToolSet.of(tools) is tools
    assert tools.current() is tools
    assert tools.declared() is tools.declared()
    assert tools.declared().specs == tools.specs
    assert tools.declared().find("search") is None


def test_live_list_is_read_again_on_request() -> None:
    live = LiveTools()
    tools = ToolSet([search, live])
    live.append(tool(name="late", eager=True)(search))
    assert tools.find("late") is None
    now = tools.current()
    assert [spec.name for spec in now.specs] == ["search", "late"]
    assert now.eager == {"late"}
    assert ToolSet(LiveTools())  # it may fill


@pytest.mark.parametrize("live_first", [True, False])
def test_late_namesake_is_left_out(live_first: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A server may come to list a name of ours: ours stays, and the run goes on."""
    live, other = LiveTools([tool(name="theirs")(search)]), LiveTools([tool(name="others")(search)])
    ours = tool(name="pay", needs_approval=True)(search)
    tools = ToolSet([live, other, ours] if live_first else [ours, other, live])
    namesakes = [tool(name="pay")(search), tool(name="others")(search), tool(name="new")(search)]
    live += namesakes
    for _ in range(2):
        now = tools.current()
        assert now.find("pay") is ours
        assert now.find("others") is other[0]
        assert sorted(spec.name for spec in now.specs) == ["new", "others", "pay", "theirs"]
    assert [record.args for record in caplog.records] == [("pay",), ("others",)]


def test_declared_tool_calls_run_elsewhere() -> None:
    tools = ToolSet([search, ToolSpec("ask"), ProviderTool("bash_20250124", "bash")])
    calls = [ToolCall(str(n), name) for n, name in enumerate(["ask", "bash", "bash_20250124", "search"])]
    assert [call.name for call in tools.runnable(calls)] == ["search"]
    assert tools.find("ask") is None
    assert tools.declaration("search") is None
