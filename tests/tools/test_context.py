"""The context of a call: who asks for it, and what it holds."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

import pytest

import llmstream as ls
from llmstream.chats.content import ToolCall
from llmstream.errors import InvalidRequest
from llmstream.testing import Call, ScriptedModel, Turn
from llmstream.tools import ToolContext, run_call, tool, tool_from_function


async def test_context_is_filled_in_and_hidden() -> None:
    """The model does not see the parameter."""

    @tool
    async def where(city: str, at: ToolContext, days: int = 1) -> str:
        """Tells.

        Args:
            city: its name
            at: never shown
        """
        return f"{at.call_id} {at.tool_name} {city} {days}"

    assert list(where.spec.input_schema["properties"]) == ["city", "days"]
    assert where.spec.input_schema["required"] == ["city"]
    assert where.takes_context
    status = await run_call(ToolCall("c1", "where", '{"city":"Oslo"}'), [where])
    assert status.result.content == "c1 where Oslo 1"


async def test_the_model_cannot_fill_it_itself() -> None:
    async def act(context: ToolContext) -> str:
        return context.call_id

    status = await run_call(ToolCall("c1", "act", '{"context":{"call_id":"forged"}}'), [act])
    assert status.result.is_error


@pytest.mark.parametrize("annotation", [ToolContext | None, Optional[ToolContext]])  # noqa: UP045
async def test_it_may_be_optional(annotation: Any) -> None:
    async def act(context: Any = None) -> str:
        return type(context).__name__

    act.__annotations__["context"] = annotation
    assert (await tool_from_function(act).run("{}")).content == "ToolContext"
    assert await act() == "NoneType"


async def test_sync_function_gets_it_in_its_thread() -> None:
    @tool
    def act(context: ToolContext) -> Any:
        return context.deps

    assert (await act.run("", context=ToolContext(deps=[1, 2]))).content == "[1,2]"


async def test_progress_goes_to_the_listener() -> None:
    @tool
    async def act(context: ToolContext) -> str:
        await context.report(1)
        return "done"

    heard: list[Any] = []

    async def listen(value: Any) -> None:
        await asyncio.sleep(0)
        heard.append(value)

    assert (await act.run("", on_progress=listen)).content == "done"
    assert (await act.run("")).content == "done"
    assert heard == [1]


async def test_remaining_time_is_never_negative() -> None:
    now = asyncio.get_running_loop().time()
    assert ToolContext(deadline=now - 5).remaining_s == 0
    assert 4 < (ToolContext(deadline=now + 5).remaining_s or 0) <= 5
    assert ToolContext().remaining_s is None


def test_two_or_nameless_contexts_refused() -> None:
    def two(a: ToolContext, b: ToolContext) -> None: ...

    def nameless(a: ToolContext, /) -> None: ...

    for function in (two, nameless):
        with pytest.raises(InvalidRequest, match="ToolContext"):
            tool(function)


class Shop:
    name = "Corner"


async def test_context_may_type_the_application() -> None:
    async def name(context: ls.ToolContext[Shop], greet: str = "Hi") -> str:
        """Name the shop."""
        return f"{greet}, {context.deps.name}"

    def maybe(context: ls.ToolContext[dict[str, int]] | None = None) -> str:
        """Maybe."""
        return str(context and context.deps)

    assert list(ls.tool(name).spec.input_schema["properties"]) == ["greet"]
    assert ls.tool(maybe).takes_context
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("name"),)), "Done."), tools=[name], deps=Shop())
    run = agent.stream("Go")
    await run.collect()
    assert run.statuses[0].result.content == "Hi, Corner"
