"""Google's own Python client is content with the simulator's Interactions API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Continue, Cut, Refuse, Script, Simulator, Turn

genai = pytest.importorskip("google.genai", reason="google-genai is not installed (extra: peers)")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"type": "function", "name": "weather", "description": "Weather of a city", "parameters": SCHEMA}
ASKED = "How warm is it?"


@asynccontextmanager
async def connected(*turns: Turn) -> AsyncIterator[Any]:
    script = Script(turns) if turns else None
    async with (
        Simulator(script, dialects=[GeminiInteractions()], api_keys={"sim-key"}) as simulator,
        genai.Client(api_key="sim-key", http_options={"base_url": simulator.url}).aio as client,
    ):
        yield client.interactions


async def collect(interactions: Any, **options: Any) -> list[Any]:
    options = {"model": "sim", "input": ASKED, **options}
    return [event async for event in await interactions.create(stream=True, **options)]


def texts_of(events: list[Any], kind: str = "text") -> str:
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    told = [delta for delta in deltas if delta.type == kind]
    return "".join(delta.text if kind == "text" else delta.content.text for delta in told)


def calls_of(events: list[Any]) -> list[tuple[str, str, str]]:
    """Id, name and joined arguments of each call."""
    calls: dict[int, tuple[str, str, str]] = {}
    for event in events:
        if event.event_type == "step.start" and event.step.type == "function_call":
            calls[event.index] = (event.step.id, event.step.name, "")
        elif event.event_type == "step.delta" and event.delta.type == "arguments_delta":
            call_id, name, arguments = calls[event.index]
            calls[event.index] = (call_id, name, arguments + event.delta.arguments)
    return list(calls.values())


async def test_client_reads_each_block_and_usage() -> None:
    """Thoughts, text, calls, the status and usage."""
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, reasoning_tokens=5, cached_input_tokens=3),
    )
    async with connected(turn) as interactions:
        events = await collect(interactions, tools=[TOOL])
    assert texts_of(events, "thought_summary") == "Hm hm."
    assert texts_of(events) == "Привет, мир"
    calls = calls_of(events)
    assert [call[1:] for call in calls] == [("weather", '{"city":"Łódź"}'), ("clock", "{}")]
    assert len({call[0] for call in calls}) == 2
    assert [event.event_type for event in events].count("step.stop") == 4
    last = events[-1].interaction
    assert (events[-1].event_type, last.status) == ("interaction.completed", "requires_action")
    assert (last.id, last.model) == (events[0].interaction.id, "sim")
    usage = last.usage
    assert (usage.total_input_tokens, usage.total_cached_tokens, usage.total_tokens) == (11, 3, 33)
    assert (usage.total_output_tokens, usage.total_thought_tokens) == (17, 5)


async def test_second_turn_with_a_result_works() -> None:
    async with connected() as interactions:
        ((call_id, name, arguments),) = calls_of(await collect(interactions, tools=[TOOL]))
        assert (name, arguments) == ("weather", '{"city":"Paris"}')
        history = [
            {"type": "user_input", "content": [{"type": "text", "text": ASKED}]},
            {"type": "function_call", "id": call_id, "name": name, "arguments": {"city": "Paris"}},
            {"type": "function_result", "call_id": call_id, "name": name, "result": "7 degrees"},
        ]
        second = await collect(interactions, input=history, tools=[TOOL])
    assert "weather says: 7 degrees" in texts_of(second)
    assert second[-1].interaction.status == "completed"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
async def test_refusals_are_its_typed_errors(status: int, kind: str) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as interactions:
        with pytest.raises(Exception, match="not today") as caught:
            await collect(interactions)
    assert type(caught.value).__name__ == kind
    assert caught.value.status_code == status


async def test_in_stream_error_is_the_last_event() -> None:
    turn = Turn(text="a b", fault=Break(after_events=3, message="it broke"))
    async with connected(turn) as interactions:
        events = await collect(interactions)
    assert (events[-1].event_type, events[-1].error.message) == ("error", "it broke")


LONG = "It rains in Oslo and it will not stop today."


@pytest.mark.parametrize("store", [True, False])
async def test_client_continues_a_long_response(store: bool) -> None:
    cuts = (Continue(after_events=4), Continue(after_events=7, faults=(Cut(after_events=1),)))
    async with connected(Turn(text=LONG, continues=cuts)) as interactions:
        events = await collect(interactions, store=store)
    assert texts_of(events) == LONG
    ended = [event.interaction for event in events if event.event_type == "interaction.completed"]
    assert [one.status for one in ended] == ["requires_continuation", "requires_continuation", "completed"]
    assert [bool(one.continuation_token) for one in ended] == [True, True, False]


@pytest.mark.filterwarnings("ignore:Interaction stopped before completion:UserWarning")  # once a process
async def test_manual_continuation_gets_the_token() -> None:
    """The client's automatic continuation is off."""
    async with connected(Turn(text=LONG, continues=(Continue(after_events=4),))) as interactions:
        first = await collect(interactions, automatic_continuation=False)
        ended = first[-1].interaction
        rest = [
            event
            async for event in await interactions.create(
                model="sim",
                stream=True,
                continuation_token=ended.continuation_token,
                previous_interaction_id=ended.id,
            )
        ]
    assert texts_of(first) + texts_of(rest) == LONG
