"""Effects never break a conversation: whatever it was, every vendor takes what they leave."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import llmstream as ls
from llmstream.agent.context import (
    ContextEffect,
    Effect,
    applied,
    approximate_tokens,
    cut_tool_results,
    sliding_window,
    summarise,
    token_budget,
)
from llmstream.chats import Message, Reasoning, Role, ToolCall, ToolResult
from llmstream.cli.config import wire_of
from llmstream.dialects.base import DIALECTS
from llmstream.request import Request, ToolSpec
from llmstream.server_side.wires import server_side
from llmstream.simulator import Call, Turn
from llmstream.streams.history import repaired
from llmstream.testing import ScriptedModel
from tests.examples import examples

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock-converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "gemini": "gemini-3-pro-preview",
    "gemini-interactions": "gemini-3-pro-preview",
}
TOOLS = (ToolSpec("look", "Looks", {"type": "object", "properties": {}}),)

words = st.text("ab ж", min_size=1, max_size=12).filter(str.strip)
ids = st.sampled_from(["c0", "c1", "c2", "c3"])
calls = st.builds(ToolCall, ids, st.just("look"), st.just("{}"))
results = st.builds(ToolResult, ids, st.sampled_from(["", "seen", "long " * 60]), st.booleans())
whole_step = st.lists(ids, min_size=1, max_size=3, unique=True).map(
    lambda found: [
        Message.assistant("I look.", *[ToolCall(i, "look", "{}") for i in found]),
        Message.tool([ToolResult(i, "seen " * 50, name="look") for i in found]),
    ]
)
one = st.one_of(
    words.map(Message.user),
    words.map(Message.assistant),
    words.map(Message.system),
    words.map(lambda text: Message.assistant(Reasoning(text), text)),
    st.lists(calls, min_size=1, max_size=3).map(lambda found: Message.assistant(*found)),
    st.lists(results, min_size=1, max_size=3).map(Message.tool),
    st.builds(lambda result, text: Message.user(result, text), results, words),
).map(lambda message: [message])
histories = st.lists(st.one_of(one, whole_step), min_size=1, max_size=12).map(
    lambda pieces: [Message.user("Hi."), *[message for piece in pieces for message in piece]]
)


def writer() -> ScriptedModel:
    return ScriptedModel("They looked.")


MAKERS = [
    lambda n: sliding_window(turns=1 + n % 4),
    lambda n: token_budget(1 + 17 * n),
    lambda n: cut_tool_results(100 + n),
    lambda n: summarise(writer(), when_tokens_over=1 + 9 * n, keep_turns=1 + n % 3),
]
chosen: st.SearchStrategy[list[ContextEffect]] = st.lists(
    st.builds(lambda make, n: make(n), st.sampled_from(MAKERS), st.integers(0, 12)), min_size=1, max_size=3
)


def is_in_order(part: list[Message], whole: list[Message]) -> bool:
    rest = iter(whole)
    return all(any(message == other for other in rest) for message in part)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(histories, chosen)
async def test_effects_leave_a_complete_history(history: list[Message], effects: list[ContextEffect]) -> None:
    """Nothing is left to repair, and every vendor accepts it."""
    before = repaired(history)[0]
    after = await applied(history, effects)
    again, warnings = repaired(after)
    assert warnings == []
    assert all(a is b for a, b in zip(again, after, strict=True))
    systems = [message for message in before if message.role == Role.SYSTEM]
    assert [message for message in after if message.role == Role.SYSTEM] == systems
    talk = [message for message in after if message.role != Role.SYSTEM]
    assert talk[0].role == Role.USER
    for name in DIALECTS:
        wire = wire_of(name, None)
        request = Request(model=MODELS.get(name, "m"), messages=tuple(after), tools=TOOLS)
        read = server_side(wire.dialect).decode_request(
            wire.dialect.encode(request, provider=wire.provider).http
        )
        parts = [part for message in read.messages for part in message.parts]
        asked = [part.id for part in parts if isinstance(part, ToolCall)]
        assert [part.tool_call_id for part in parts if isinstance(part, ToolResult)] == asked


@settings(max_examples=examples(100), deadline=None)
@given(histories, st.integers(0, 2), st.integers(0, 12))
async def test_what_is_left_stands_as_it_stood(history: list[Message], which: int, n: int) -> None:
    effect = MAKERS[which](n)
    after = await applied(history, [effect])
    if which < 2:
        assert is_in_order(after, repaired(history)[0])
    assert await applied(after, [effect]) == after


STEP = [
    Message.assistant(ToolCall("c", "look", "{}")),
    Message.tool([ToolResult("c", "x" * 400, name="look")]),
]


def talk(turns: int) -> list[Message]:
    said = [Message.system("Be brief.")]
    for turn in range(turns):
        said += [Message.user(f"question {turn}"), *STEP, Message.assistant(f"answer {turn}")]
    return said


async def test_a_window_shows_the_last_turns() -> None:
    after = await applied(talk(5), [sliding_window(2)])
    assert [m.text for m in after if m.role == Role.USER] == ["question 3", "question 4"]
    assert after[0].text == "Be brief."


async def test_a_budget_fits() -> None:
    count = 300
    after = await applied(talk(5), [token_budget(count)])
    assert sum(map(approximate_tokens, after)) <= count
    assert [m.text for m in after if m.role == Role.USER] == ["question 3", "question 4"]


async def test_long_turn_keeps_question_and_tail() -> None:
    steps = repaired([Message.user("Go."), *STEP * 5])[0]
    after = await applied(steps, [token_budget(240)])
    assert after == [steps[0], *steps[-4:]]
    assert await applied(steps, [token_budget(1)]) == [steps[0], *steps[-2:]]


async def test_a_callers_own_count_is_asked() -> None:
    after = await applied(talk(5), [token_budget(5, count=lambda message: 1)])
    assert len(after) == 5


async def test_a_long_result_is_cut_with_a_note() -> None:
    after = await applied(talk(1), [cut_tool_results(120)])
    content = after[3].tool_results[0].content
    assert len(content) == 120
    assert content.endswith("[cut: the result had 400 characters]")


@pytest.mark.parametrize(
    "make",
    [
        lambda: sliding_window(0),
        lambda: token_budget(0),
        lambda: cut_tool_results(5),
        lambda: summarise(writer(), when_tokens_over=0),
        lambda: summarise(writer(), when_tokens_over=9, keep_turns=0),
    ],
)
def test_meaningless_limits_are_refused(make: object) -> None:
    with pytest.raises(ls.InvalidRequest):
        make()  # type: ignore[operator]


async def test_an_effect_has_to_give_messages() -> None:
    for given_back in (None, ["text"]):
        with pytest.raises(ls.InvalidRequest, match="did not return a list of messages"):
            await applied(talk(1), [lambda messages: given_back])  # type: ignore[arg-type, return-value]


@ls.tool
def look() -> str:
    """Looks."""
    return "seen " * 100


CALLS = Turn(calls=(Call("look"),))


async def test_model_sees_less_history_sees_all() -> None:
    model = ScriptedModel("Yes.")
    agent = ls.Agent(model, instructions="Be kind.", context_effects=[sliding_window(1)])
    run = agent.stream([*talk(3)[1:], Message.user("And now?")])
    await run.collect()
    (request,) = model.requests
    assert [m.text for m in request.messages] == ["Be kind.", "And now?"]
    assert len(run.messages()) == 15


async def test_replacing_effect_changes_history() -> None:
    model = ScriptedModel(CALLS, "Yes.")
    effects = [sliding_window(1, replace=True), cut_tool_results(100)]
    agent = ls.Agent(model, tools=[look], context_effects=effects)
    run = agent.stream([*talk(3), Message.user("And now?")])
    await run.collect()
    assert [m.role for m in run.messages()] == ["system", "user", "assistant", "tool", "assistant"]
    assert len(run.messages()[3].tool_results[0].content) == 500
    assert len(model.requests[1].messages[-1].tool_results[0].content) == 100


async def test_effect_may_be_sync_or_async() -> None:
    async def last(messages: list[Message]) -> list[Message]:
        return messages[-1:]

    for effect in (last, lambda messages: messages[-1:], Effect(last, replace=True)):
        model = ScriptedModel("Yes.")
        await ls.Agent(model, context_effects=[effect]).run([*talk(3), Message.user("And now?")])
        assert [m.text for m in model.requests[0].messages] == ["And now?"]


async def test_chat_of_agents_loses_nothing() -> None:
    chat = ls.Chat(*talk(4), Message.user("Well?"))
    model = ScriptedModel("I think so.")
    await ls.Agent(model, name="critic", context_effects=[sliding_window(1)]).respond(chat)
    assert [m.text for m in model.requests[0].messages] == ["Be brief.", "Well?"]
    assert len(chat) == 19


async def test_trimmed_history_starts_with_user() -> None:
    """If the conversation does."""
    talk = [
        Message.system("Be brief."),
        Message.user("One?"),
        Message.assistant("One."),
        Message.user("Two?"),
        Message.assistant("Two."),
        Message.user("Three?"),
    ]
    shown = await applied(talk, [lambda messages: [messages[0], *messages[2:]]])
    assert [m.text for m in shown] == ["Be brief.", "Two?", "Two.", "Three?"]
    begun = await applied(talk[2:], [lambda messages: messages])  # as the caller began it
    assert [m.text for m in begun] == ["One.", "Two?", "Two.", "Three?"]


@pytest.mark.parametrize("wrong", [0, "2", 1.5, True])
def test_limits_are_whole_numbers(wrong: int) -> None:
    for make in (
        lambda: sliding_window(turns=wrong),
        lambda: token_budget(wrong),
        lambda: cut_tool_results(wrong),
    ):
        with pytest.raises(ls.InvalidRequest):
            make()
    with pytest.raises(ls.InvalidRequest):
        summarise("sim:demo", when_tokens_over=wrong)
