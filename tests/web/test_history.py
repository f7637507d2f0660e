from __future__ import annotations

import llmstream as ls
from llmstream.web.history import compacted, folded


async def events_of(prompt: str, **options: object) -> list[ls.Event]:
    async with ls.Agent("sim:demo", **options).stream(prompt) as run:  # type: ignore[arg-type]
        return [event async for event in run]


@ls.tool
async def count(context: ls.ToolContext) -> str:
    """Count."""
    await context.report("one")
    await context.report("two")
    return "three"


async def test_deltas_are_joined() -> None:
    events = await events_of("Hello, how are you?")
    short = compacted(events)
    assert len([one for one in short if isinstance(one, ls.TextDelta)]) == 1
    assert folded(short) == folded(events)


async def test_results_replace_progress() -> None:
    events = await events_of("Count", tools=[count])
    assert any(isinstance(one, ls.ToolResult) and one.preliminary for one in events)
    results = [one for one in compacted(events) if isinstance(one, ls.ToolResult)]
    assert [(one.result, one.preliminary) for one in results] == [("three", False)]


async def test_progress_without_a_result_stays() -> None:
    events = await events_of("Count", tools=[count])
    last = max(i for i, one in enumerate(events) if isinstance(one, ls.ToolResult) and one.preliminary)
    results = [one.result for one in compacted(events[: last + 1]) if isinstance(one, ls.ToolResult)]
    assert results == ["one", "two"]


async def test_interleaved_blocks_stay_apart() -> None:
    events: list[ls.Event] = [
        ls.ToolInputDelta("a", "1"),
        ls.ToolInputDelta("b", "1"),
        ls.ToolInputDelta("c", "2"),
        ls.ToolInputDelta("d", "1"),
    ]
    assert compacted(events) == [
        ls.ToolInputDelta("ab", "1"),
        ls.ToolInputDelta("c", "2"),
        ls.ToolInputDelta("d", "1"),
    ]


async def test_steps_are_messages() -> None:
    messages = folded(await events_of("Count", tools=[count]))
    assert [message.role for message in messages] == ["assistant", "tool", "assistant"]
    assert messages[0].tool_calls[0].name == "count"
    assert messages[1].tool_results[0].content == "three"
    assert "three" in messages[2].text


async def test_results_of_an_earlier_run() -> None:
    """After an approval, the results come first; the model has to learn that the call has run."""
    (message,) = folded([ls.ToolResult("paid 3", "call-1", "pay")])
    assert message.text == 'The call of pay has run: "paid 3"'
