"""What is loaded when, in processes of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from aiohttp import web

import llmstream

PROGRAM = "import sys, llmstream as ls; {}; print(*sorted(sys.modules))"


def loaded(statement: str) -> set[str]:
    """The modules that are there after a statement."""
    command = [sys.executable, "-c", PROGRAM.format(statement)]
    return set(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("pass", {"asyncio", "msgspec", "anyio", "aiohttp", "llmstream.events", "llmstream.streams"}),
        ("ls.TextDelta", {"asyncio", "anyio", "aiohttp", "llmstream.chats", "llmstream.streams"}),
        (
            "ls.stream; ls.Model; ls.Accumulator",
            {
                "aiohttp",
                "json",
                "yarl",
                "llmstream.tools",
                "llmstream.agent",
                "llmstream.chats.markdown",
                "llmstream.display",
                "llmstream.json_types",
                "llmstream.partial_json",
                "llmstream.providers.sim",
                "llmstream.structured",
                "llmstream.transport.download",
            },
        ),
        (
            "ls.Agent; ls.tool",
            {
                "aiohttp",
                "llmstream.display",
                "llmstream.log",
                "llmstream.providers.sim",
                "llmstream.simulator",
            },
        ),
        ("ls.open_logs('memory:')", {"sqlite3", "redis", "aiohttp", "llmstream.streams", "llmstream.agent"}),
        ("ls.open_logs('sqlite:x.db')", {"redis", "aiohttp", "llmstream.streams", "llmstream.agent"}),
    ],
)
def test_a_name_loads_only_what_it_needs(statement: str, absent: set[str]) -> None:
    assert loaded(statement) & absent == set()


CALL = """\
import asyncio, sys, llmstream as ls

asyncio.run(ls.Model("openai:gpt-4o", base_url=sys.argv[1], api_key="k").ask("Hi"))
print(*sorted(sys.modules))
"""
ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


async def test_a_plain_call_loads_only_calls(serve) -> None:
    """No agent, tool, form of an answer, simulator or server; and no other dialect than the one."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=ANSWER, content_type="text/event-stream")

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CALL, await serve(answer), stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    parts = {name.removeprefix("llmstream.") for name in output.decode().split()}
    assert {"streams.http_call", "dialects.openai_chat.decoder"} <= parts
    unwanted = {
        "agent",
        "display",
        "mcp",
        "server_side",
        "simulator",
        "structured",
        "telemetry",
        "testing",
        "tools",
    }
    assert parts & {*unwanted, "json_types", "providers.sim", "dialects.anthropic"} == set()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("completion", "await ls.Model("),
        ("generate", "await ls.Model("),
        ("run_sync", "asyncio.run(ls.Model("),
        ("Client", "ls.Model("),
        ("RateLimitError", "ls.RateLimited"),
        ("EventStraem", "Did you mean EventStream?"),
        ("Agents", "Did you mean Agent?"),
        ("agents", "Did you mean agent?"),
    ],
)
def test_foreign_sdk_name_hints_at_ours(name, remedy) -> None:
    with pytest.raises(AttributeError) as missing:
        getattr(llmstream, name)
    assert remedy in str(missing.value)


def test_any_other_name_is_only_missing() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'$"):
        _ = llmstream.__wrapped__
