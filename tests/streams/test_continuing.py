"""An answer that broke off, gone on with by another model, over real sockets."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.chats import Message, Reasoning, Text
from llmstream.events import OtherWarning, TextStart
from llmstream.grammar import check
from llmstream.simulator import Call, Cut, Pace, Script, Simulator, Turn

BROKEN = Script((Turn(text="One two three four five", fault=Cut(after_events=4)),))
THOUGHTFUL = Script((Turn(reasoning="Hm.", text="One two three four five", fault=Cut(after_events=7)),))
ONCE = ls.Retry(max_retries=0)


async def broken_off(script=BROKEN, **options):
    """A stream of one vendor after it failed."""
    async with Simulator(script) as vendor:
        model = ls.Model("openai:gpt-5-mini", base_url=f"{vendor.url}/v1", api_key="none-at-all", retry=ONCE)
        stream = model.stream("Count to five.", instructions="Be brief.", **options)
        with pytest.raises(ls.ConnectionLost):
            await stream.collect()
    return stream


async def went_on(stream, name, **options):
    """The other stream after it was read, its events, and what its vendor was asked."""
    async with Simulator(Script((Turn(text=" three four five"),))) as vendor:
        url = vendor.url if name.startswith("anthropic") else f"{vendor.url}/v1"
        other = stream.continue_with(ls.Model(name, base_url=url, api_key="none-at-all"), **options)
        events = [event async for event in other]
        assert check(events) == []
        return other, events, vendor.requests[0].request


async def test_prefix_model_continues_its_text() -> None:
    """The model accepts the start of its response."""
    first = await broken_off()
    assert first.text == "One two"
    other, _, request = await went_on(first, "anthropic:claude-sonnet-4-5")
    assert [(m.role, m.text) for m in request.messages] == [
        ("system", "Be brief."),
        ("user", "Count to five."),
        ("assistant", "One two"),
    ]
    assert first.text + other.text == "One two three four five"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("groq:llama-4", {}),
        ("anthropic:claude-opus-4-6", {}),
        ("anthropic:claude-sonnet-4-5", {"reasoning": 2048}),
    ],
)
async def test_any_other_model_is_told(name, options) -> None:
    _, _, request = await went_on(await broken_off(), name, **options)
    assert [m.role for m in request.messages[-3:]] == ["user", "assistant", "user"]
    assert request.messages[-2].text == "One two"
    assert "cut off" in request.messages[-1].text


async def test_what_is_told_can_be_said_otherwise() -> None:
    _, _, request = await went_on(await broken_off(), "groq:llama-4", note="Weiter.")
    assert request.messages[-1].text == "Weiter."


async def test_options_continue_but_no_defaults() -> None:
    """Options of the stream apply to the other model; defaults of the first model do not."""
    async with Simulator(BROKEN) as vendor:
        model = ls.Model(
            "groq:llama-4",
            base_url=f"{vendor.url}/v1",
            api_key="none-at-all",
            retry=ONCE,
            temperature=0.1,
            max_output_tokens=50,
        )
        stream = model.stream("Count to five.", temperature=0.5, seed=7)
        with pytest.raises(ls.ConnectionLost):
            await stream.collect()
        assert vendor.requests[0].request.settings.max_output_tokens == 50
    _, _, request = await went_on(stream, "groq:llama-4", seed=8)
    assert request.settings.temperature == 0.5
    assert request.settings.max_output_tokens is None
    assert request.settings.seed == 8


async def test_events_and_history_mark_the_source() -> None:
    """Both show what is continued."""
    other, events, _ = await went_on(await broken_off(), "groq:llama-4")
    (warning,) = events[0].warnings
    assert warning == OtherWarning(
        "this continues an answer of openai:gpt-5-mini, which was interrupted "
        "(connection-lost) after 7 characters"
    )
    mark = {"llmstream": {"continues": "openai:gpt-5-mini"}}
    assert [e.provider_metadata for e in events if type(e) is TextStart] == [mark]
    assert other.messages()[-1].parts == (Text(" three four five", mark),)


async def test_only_the_first_turn_is_marked() -> None:
    script = Script((Turn(text=" on", calls=(Call("look"),)), Turn(text="Done.")))

    def look() -> str:
        return "seen"

    first = await broken_off(tools=[look])
    async with Simulator(script) as vendor:
        other = first.continue_with(ls.Model("groq:m", base_url=f"{vendor.url}/v1", api_key="none-at-all"))
        await other.call_tools()
        start, *rest = [event async for event in other]
    assert start.warnings == []
    assert [e.provider_metadata for e in rest if type(e) is TextStart] == [None]


async def test_first_models_reasoning_ids_dropped() -> None:
    """The next model gets neither reasoning nor ids."""
    first = await broken_off(THOUGHTFUL)
    assert type(first.messages()[-1].parts[0]) is Reasoning
    other, _, request = await went_on(first, "groq:llama-4")
    assert request.messages[-2] == Message.assistant("One two")
    assert other.messages()[-3].parts == (Text("One two"),)


async def test_response_without_text_starts_anew() -> None:
    first = await broken_off(Script((Turn(text="One", fault=Cut(after_events=2)),)))
    assert first.text == ""
    _, events, request = await went_on(first, "groq:llama-4")
    assert [m.role for m in request.messages] == ["system", "user"]
    assert events[0].warnings == [
        OtherWarning(
            "this is a new answer: that of openai:gpt-5-mini was interrupted "
            "(connection-lost) before any text"
        )
    ]
    assert [e.provider_metadata for e in events if type(e) is TextStart] == [None]


async def test_left_response_can_be_continued() -> None:
    async with Simulator(Script((Turn(text="One two three", pace=Pace(delta_s=30.0)),))) as vendor:
        model = ls.Model("openai:gpt-5-mini", base_url=f"{vendor.url}/v1", api_key="none-at-all")
        async with model.stream("Count.") as stream:
            async for event in stream:
                if type(event) is ls.TextDelta:
                    break
    _, events, _ = await went_on(stream, "groq:llama-4")
    assert "interrupted (left)" in events[0].warnings[0].message


async def test_finished_response_is_not_continued() -> None:
    stream = ls.stream("sim:demo", "Hi")
    with pytest.raises(ls.InvalidRequest, match="was not interrupted"):
        stream.continue_with("sim:demo")
    await stream.collect()
    with pytest.raises(ls.InvalidRequest, match="was not interrupted"):
        stream.continue_with("sim:demo")


async def test_partial_typed_not_continued() -> None:
    """A typed response that broke off starts anew."""
    stream = await broken_off(output={"type": "object"})
    with pytest.raises(ls.InvalidRequest, match="Start a new request"):
        stream.continue_with("sim:demo")
