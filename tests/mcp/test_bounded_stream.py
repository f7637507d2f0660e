"""Lists in a server's messages are cut before each item is checked."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp is not installed (extra: mcp)")

from llmstream.mcp import mcp_tools
from llmstream.mcp.transports import MAX_ITEMS, within_cap

SERVER = """
import json, sys
results = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "many", "version": "1"},
        }
    elif asked["method"] in results:
        result = results[asked["method"]]
        for name in ("content", "tools"):
            if name in result:
                result[name] = [
                    {**item, **({"name": f"t{n}"} if name == "tools" else {})}
                    for n in range(result["times"]) for item in result[name]
                ]
        answer["result"] = {k: v for k, v in result.items() if k != "times"}
    else:
        answer["error"] = {"code": -32601, "message": "no" * 1_000_000}
    print(json.dumps(answer), flush=True)
"""

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


def server(content: Any, times: int, tools: int = 1) -> Any:
    results = {
        "tools/list": {"tools": [TOOL], "times": tools},
        "tools/call": {"content": content, "times": times},
    }
    return mcp_tools(stdio=(sys.executable, ["-c", SERVER, json.dumps(results)]))


async def test_texts_of_a_result_lose_nothing() -> None:
    async with server([{"type": "text", "text": "x"}], 10_000) as tools:
        outcome = await tools[0].function()
    assert outcome.content == "\n".join("x" * 10_000)


async def test_parts_of_any_kind_are_cut() -> None:
    odd = {"type": "text", "text": "x", "annotations": {"priority": 1}}
    async with server([odd], 10_000) as tools:
        outcome = await tools[0].function()
    assert outcome.content.count("x\n") == MAX_ITEMS
    assert outcome.content.endswith("[cut: the first parts of 10000]")


async def test_a_page_of_tools_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async with server([], 1, tools=MAX_ITEMS + 500) as tools:
        assert len(tools) == MAX_ITEMS
    assert f"sent {MAX_ITEMS + 500} tools" in caplog.text


@pytest.mark.parametrize("odd", [None, 1, "text", [], {"type": "text"}, {"type": "text", "text": 1}])
async def test_parts_of_wrong_kinds_do_no_harm(odd: object) -> None:
    result: dict[str, Any] = {"content": [odd] * (MAX_ITEMS + 1), "tools": odd}
    await within_cap(result)
    assert len(result["content"]) == MAX_ITEMS + 1  # with the note that it was cut


async def test_other_tasks_run_while_result_is_cut() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await within_cap({"content": [{"type": "text", "text": "x"}] * 100_000})
    other.cancel()
    assert turns >= 19
