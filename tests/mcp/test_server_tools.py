"""What a server offers beside tools, and what it asks of the user."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.chats.content import Image, Text
from llmstream.mcp import Elicitation, PromptArgument, ServerTools, mcp_tools
from llmstream.testing import Call, ScriptedModel, Turn

pytest.importorskip("mcp", reason="the extra mcp is not installed")

pytestmark = pytest.mark.slow

SERVER = str(Path(__file__).with_name("server.py"))
Connect = Callable[..., AbstractAsyncContextManager[ServerTools]]


@pytest.fixture
def server(shared_server: str) -> Connect:
    """`async with server(...) as tools`; what it offers is the same over HTTP and over stdio."""
    return lambda **options: mcp_tools(url=shared_server, **options)


async def test_resources_are_listed_and_read(server: Connect) -> None:
    async with server() as tools:
        listed = {r.uri: r for r in await tools.resources()}
        assert set(listed) == {"notes://today", "pixel://one"}
        assert listed["pixel://one"].media_type == "image/png"
        (template,) = await tools.resource_templates()
        assert (template.uri, template.is_template) == ("notes://{day}", True)
        assert await tools.read_resource("notes://today") == [Text("Buy milk.")]
        assert await tools.read_resource("notes://monday") == [Text("Nothing on monday.")]
        (pixel,) = await tools.read_resource("pixel://one")
        assert isinstance(pixel, Image)
        with pytest.raises(ls.ToolError, match="none://here"):
            await tools.read_resource("none://here")


async def test_prompts_are_listed_and_filled(server: Connect) -> None:
    async with server() as tools:
        (listed,) = await tools.prompts()
        assert (listed.name, listed.description) == ("review", "Review code.")
        assert listed.arguments == (PromptArgument(name="code", required=True),)
        messages = await tools.prompt("review", {"code": "x = 1"})
        assert [(m.role, m.text) for m in messages] == [
            ("user", "Review: x = 1"),
            ("assistant", "Which style?"),
        ]
        with pytest.raises(ls.ToolError, match="nothing"):
            await tools.prompt("nothing")
    with pytest.raises(ls.ToolError, match="no longer connected"):
        await tools.prompts()


@pytest.mark.parametrize(
    ("said", "result"), [({"count": 4}, "accept: 4"), (None, "decline"), (False, "decline")]
)
async def test_elicitation_goes_to_the_application(server: Connect, said: Any, result: str) -> None:
    asked: list[Elicitation] = []

    async def elicit(question: Elicitation) -> Any:
        asked.append(question)
        return said

    async with server(elicit=elicit) as tools:
        model = ScriptedModel(Turn(calls=(Call("book"),)), "Done.")
        run = ls.Agent(model, tools=tools).stream("Book")
        await run.collect()
    assert run.statuses[0].result.content == result
    assert asked[0].message == "For how many?"
    assert asked[0].schema["properties"]["count"]["type"] == "integer"


async def test_server_that_may_not_ask_is_refused() -> None:
    async with mcp_tools(stdio=(sys.executable, [SERVER])) as tools:
        run = ls.Agent(ScriptedModel(Turn(calls=(Call("book"),)), "Done."), tools=tools).stream("Book")
        await run.collect()
    assert run.statuses[0].error is not None
