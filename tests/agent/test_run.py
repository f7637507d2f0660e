"""The handle of a run: who reads it, and what is said of one that was left."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import Finish, TextDelta, ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart
from llmstream.testing import Refuse, ScriptedModel, Turn


async def test_run_that_was_left_does_not_restart() -> None:
    model = ScriptedModel("One two three.")
    run = ls.Agent(model).stream("Go")
    async for event in run:
        if isinstance(event, ls.TextDelta):
            break
    with pytest.raises(ls.InvalidRequest, match="just left"):
        await run.collect()
    await asyncio.sleep(0.01)  # the generator that was dropped has ended by then
    with pytest.raises(ls.InvalidRequest, match="closed"):
        await run.collect()
    assert len(model.requests) == 1


@pytest.mark.parametrize("kind", ["run", "stream"])
async def test_half_of_an_answer_is_not_collected(kind: str) -> None:
    model = ScriptedModel("One two three.")
    reading: Any = ls.Agent(model).stream("Go") if kind == "run" else model.stream("Go")
    async with reading:
        async for event in reading:
            if isinstance(event, ls.TextDelta):
                break
    with pytest.raises(ls.InvalidRequest, match="closed before its end"):
        await reading.collect()
    assert reading.messages()[-1].text == "One"


@pytest.mark.parametrize("kind", ["run", "stream"])
async def test_failure_is_raised_at_each_read(kind: str) -> None:
    model = ScriptedModel(Turn(fault=Refuse(status=401)), repeat_last=True)
    reading: Any = ls.Agent(model).stream("Go") if kind == "run" else model.stream("Go")
    for _ in range(2):
        with pytest.raises(ls.AuthenticationError):
            await reading.collect()
    quiet: Any = model.stream("Go", errors="events")
    for _ in range(2):
        assert (await quiet.collect()).parts == ()


async def test_arguments_are_live_in_every_step() -> None:
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    written = '{"a":1,"b":2}'
    same = Turn(
        events=(
            ls.StreamStart(),
            ls.ToolInputStart("add", "same"),
            ls.ToolInputDelta(written, "same"),
            ls.ToolInputEnd("same"),
            ls.ToolCall("add", written, "same"),
            ls.Finish("tool-calls"),
        )
    )
    run = ls.Agent(ScriptedModel(same, same, "Done."), tools=[add]).stream("Go")
    seen: dict[str, Any] = {}
    async for event in run:
        if isinstance(event, ls.ToolInputDelta):
            seen[event.id] = run.tool_input(event.id)
    assert seen == {"same": {"a": 1, "b": 2}, "1/same": {"a": 1, "b": 2}}
    assert run.tool_input("other") is None


def test_only_messages_are_sent() -> None:
    with pytest.raises(ls.InvalidRequest, match="str or a Message"):
        ls.Agent("sim:demo").stream("Go").send(5)  # type: ignore[arg-type]


async def test_values_of_calls_of_one_id():
    """Some vendors count the ids of calls anew in each answer."""

    def look(x: int) -> ls.ToolOutput:
        """Looks."""
        return ls.ToolOutput("seen", None if x == 0 else x)

    def calling(x):
        return Turn(
            events=(
                ToolInputStart("look", "call_0"),
                ToolInputDelta(f'{{"x":{x}}}', "call_0"),
                ToolInputEnd("call_0"),
                ToolCall("look", f'{{"x":{x}}}', "call_0"),
                Finish("tool-calls"),
            )
        )

    model = ScriptedModel(*map(calling, range(3)), "Done")
    run = ls.Agent(model, tools=[look]).stream("Go")
    ids = [event.tool_call_id async for event in run if isinstance(event, ToolCall)]
    assert ids == ["call_0", "1/call_0", "2/call_0"]
    assert run.values == {"1/call_0": 1, "2/call_0": 2}
    sent = [call.id for message in model.requests[-1].messages for call in message.tool_calls]
    assert len(set(sent)) == 3


def chunks(*deltas: dict[str, Any], reason: str) -> bytes:
    """A response that arrives in one piece."""
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    lines = [json.dumps({"id": "r", "model": "m", "choices": [choice]}) for choice in choices]
    return "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]")).encode()


async def test_views_end_with_the_event_read(serve) -> None:
    """The events of a response arrive together; the reader is in the middle of them."""
    function = {"name": "look", "arguments": '{"x": 1}'}
    call = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    words = [{"content": word} for word in ("One", " two", " three")]

    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        first = asked["messages"][-1]["role"] == "user"
        body = (
            chunks({"content": "I look."}, call, reason="tool_calls")
            if first
            else chunks(*words, reason="stop")
        )
        return web.Response(body=body, content_type="text/event-stream")

    async def look(x: int) -> str:
        """Looks."""
        return "seen"

    model = ls.Model("openai:m", base_url=await serve(answer), api_key="key")
    run = ls.Agent(model, tools=[look]).stream("Go")
    shown: list[tuple[str, str]] = []
    async with run:
        async for event in run:
            if isinstance(event, TextDelta):
                assert run.current is event
                shown.append((event.id, run.messages()[-1].text))
            if len(shown) == 3:
                break
    assert shown == [("0", "I look."), ("1/0", "One"), ("1/0", "One two")]
    assert run.messages()[-1].text == "One two"


async def test_closed_run_reports_that_at_each_reading() -> None:
    """It is not "already being read", though it yields nothing."""
    model = ScriptedModel("One.")
    async with ls.Agent(model).stream("Go") as run:
        pass
    for _ in range(2):
        assert [event async for event in run] == []
        with pytest.raises(ls.InvalidRequest, match="closed before its end"):
            await run.collect()
    assert model.requests == []
