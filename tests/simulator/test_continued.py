"""Answers that the simulator cuts into several responses."""

from __future__ import annotations

import msgspec
import pytest

import llmstream as ls
from llmstream.chats.message import Message
from llmstream.dialects.base import Place
from llmstream.dialects.gemini import Gemini
from llmstream.errors import BadRequest
from llmstream.events import (
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    Usage,
)
from llmstream.request import Request
from llmstream.simulator import Call, Continue, Cut, Refuse, Script, Simulator, Turn
from llmstream.simulator.stored import ContinuedAnswers

ASKED = Request(model="m", messages=(Message.user("How is it?"),))
NOW = None
SIGNED = {
    "anthropic": {"signature": "c2lnbmVkIGJ5IHNpbS0w"},
    "bedrock": {"signature": "c2lnbmVkIGJ5IHNpbS0w"},
    "openai": {"encrypted_content": "c2lnbmVkIGJ5IHNpbS0w"},
}
""""signed by sim-0", as vendors sign or encrypt every thought."""


def parts(turn: Turn) -> list[tuple[Event, ...]]:
    """The events of each response, as the simulator says them."""
    answers, dialect, out = ContinuedAnswers(), Gemini(), []
    first = answers.first(dialect.continuation, turn, ASKED, number=0, now=NOW)
    while True:
        out.append(first.events)
        finish = first.events[-1]
        assert isinstance(finish, Finish)
        if finish.raw_finish_reason != "CONTINUATION":
            return out
        token = finish.provider_metadata["google"]["continuation_token"]
        turn, request = answers.rest(Place(token))
        first = answers.first(dialect.continuation, turn, request, number=0, now=NOW)


def test_open_block_is_closed_and_reopened() -> None:
    turn = Turn(
        reasoning="Well, yes.",
        text="It rains.",
        continues=(Continue(after_events=3), Continue(after_events=7)),
    )
    first, second, third = parts(turn)
    assert first[:-1] == (
        ResponseMetadata("m", "sim-0"),
        ReasoningStart("0"),
        ReasoningDelta("Well,", "0"),
        ReasoningEnd("0"),
    )
    assert second[:-1] == (
        ResponseMetadata("m", "sim-0-1"),
        ReasoningStart("0"),
        ReasoningDelta(" yes.", "0"),
        ReasoningEnd("0", provider_metadata=SIGNED),
        TextStart("1"),
        TextDelta("It", "1"),
        TextEnd("1"),
    )
    assert third[:-1] == (
        ResponseMetadata("m", "sim-0-1-2"),
        TextStart("1"),
        TextDelta(" rains.", "1"),
        TextEnd("1"),
    )
    assert [events[-1].usage for events in (first, second, third)] == [
        Usage(3, 2, 5, reasoning_tokens=2),
        Usage(3, 3, 6, reasoning_tokens=2),
        Usage(3, 2, 5),
    ]
    assert third[-1].finish_reason == "stop"


def test_call_inside_is_reopened_with_its_id() -> None:
    turn = Turn(calls=(Call("weather", {"city": "Bergen, Norway"}),), continues=(Continue(after_events=3),))
    first, second = parts(turn)
    assert first[1].id == second[1].id
    assert first[2].delta + "".join(e.delta for e in second[2:4]) == '{"city":"Bergen, Norway"}'


def test_a_cut_behind_the_end_is_none() -> None:
    turn = Turn(text="Hi", continues=(Continue(after_events=99),))
    assert ContinuedAnswers().first(Gemini().continuation, turn, ASKED, number=0, now=NOW) is turn


def test_faults_hit_first_requests_for_rest() -> None:
    answers = ContinuedAnswers()
    turn = Turn(text="a b c", continues=(Continue(after_events=3, faults=(Refuse(status=503), Cut())),))
    finish = answers.first(Gemini().continuation, turn, ASKED, number=0, now=NOW).events[-1]
    place = Place(finish.provider_metadata["google"]["continuation_token"])
    assert [answers.rest(place)[0].fault for _ in range(4)] == [Refuse(status=503), Cut(), None, None]


def test_a_token_is_good_for_its_answer_only() -> None:
    answers = ContinuedAnswers()
    turn = Turn(text="a b c", continues=(Continue(after_events=3),))
    finish = answers.first(Gemini().continuation, turn, ASKED, number=0, now=NOW).events[-1]
    token = finish.provider_metadata["google"]["continuation_token"]
    assert answers.rest(Place(token, "sim-0"))
    for place in (Place("x"), Place(token, "sim-7")):
        with pytest.raises(BadRequest):
            answers.rest(place)


def test_a_script_says_it_in_json() -> None:
    faults = b'[{"kind":"refuse","status":503}]'
    said = b'{"turns":[{"text":"a b","continues":[{"after_events":3,"faults":%b}]}]}' % faults
    script = msgspec.json.decode(said, type=Script)
    assert script.turns[0].continues == (Continue(after_events=3, faults=(Refuse(status=503),)),)
    assert msgspec.json.decode(msgspec.json.encode(script), type=Script) == script


async def test_other_dialects_use_one_response() -> None:
    turn = Turn(text="It rains.", continues=(Continue(after_events=3),))
    async with Simulator(Script((turn,))) as simulator:
        model = ls.Model("openai:sim", base_url=f"{simulator.url}/openai-chat/v1", api_key="k")
        message = await model.stream("Hi").collect()
    assert message.text == "It rains."
    assert len(simulator.requests) == 1


async def test_a_rest_takes_no_turn_of_the_script() -> None:
    turns = (Turn(text="One two three.", continues=(Continue(after_events=3),)), Turn(text="Four."))
    async with Simulator(Script(turns)) as simulator:
        model = ls.Model("google:sim", base_url=f"{simulator.url}/gemini", api_key="k")
        said = [(await model.stream("Hi").collect()).text for _ in range(2)]
    assert said == ["One two three.", "Four."]
