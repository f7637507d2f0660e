"""Calls that begin while their response still comes."""

from __future__ import annotations

import asyncio

from llmstream.chats.content import ToolCall
from llmstream.events import Event, RetryNotice
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.tools import CallTasks, run_calls, tool

log: list[str] = []


@tool(eager=True)
async def look(n: int) -> str:
    log.append(f"begin {n}")
    try:
        await asyncio.sleep(0.001)
        return f"seen {n}"
    finally:
        await asyncio.sleep(0)
        log.append(f"end {n}")


def event(call_id: str, n: object) -> Event:
    return ToolCallEvent("look", f'{{"n":{n}}}', call_id)


async def test_what_was_begun_before_a_retry_belongs_to_nothing() -> None:
    log.clear()
    tasks = CallTasks([look])
    tasks.see([event("a", 1)])
    while not log:
        await asyncio.sleep(0)
    tasks.see([RetryNotice("the model failed", 0, 1, 0.0), event("a", 2)])
    found = await run_calls([ToolCall("a", "look", '{"n":2}')], [look], begun=tasks)
    assert [status.result.content for status in found] == ["seen 2"]
    assert sorted(log) == ["begin 1", "begin 2", "end 1", "end 2"]
    assert len(asyncio.all_tasks()) == 1


async def test_calls_that_were_begun_are_told_of_as_they_end_like_others() -> None:
    log.clear()
    told: list[str] = []
    tasks = CallTasks([look])
    tasks.see([event("a", 1)])
    while "end 1" not in log:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    calls = [ToolCall("b", "look", '{"n":2}'), ToolCall("a", "look", '{"n":1}')]
    found = await run_calls(calls, [look], begun=tasks, on_result=lambda s: told.append(s.tool_call_id))
    assert [status.tool_call_id for status in found] == ["b", "a"]
    assert told == ["a", "b"]
    assert log.count("begin 1") == 1


async def test_a_call_that_arrived_broken_is_not_begun() -> None:
    log.clear()
    tasks = CallTasks([look])
    tasks.see([ToolCallEvent("look", '{"n":1}', "a", invalid=True), ToolCallEvent("other", "{}", "b")])
    await asyncio.sleep(0.01)
    await tasks.aclose()
    assert log == []
